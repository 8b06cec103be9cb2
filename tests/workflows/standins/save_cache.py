"""Stands for actions/cache/save: keeps folders under a key, once."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import quote

from standin import INPUTS, WORKSPACE, required, shared, words


def main() -> None:
    required("path", "key")
    target = shared("caches") / quote(INPUTS["key"], safe="")  # a key may have a slash
    if target.exists():
        print(f"::warning::Failed to save: Unable to reserve cache with key {INPUTS['key']}")
        return
    target.mkdir()
    for number, path in enumerate(words("path")):
        if (folder := WORKSPACE / Path(path).expanduser()).is_dir():
            shutil.copytree(folder, target / str(number))
    print(f"Cache saved with key: {INPUTS['key']}")


main()
