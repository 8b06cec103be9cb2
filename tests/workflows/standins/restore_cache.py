"""Stands for actions/cache/restore: copies back what save_cache.py kept under the key, or the newest under a prefix.

An archive that a test has planted (`harness.plant`) answers every key, and is unpacked as the action unpacks.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote

from standin import INPUTS, WORKSPACE, given, hand_on, refuse, required, shared, words

PLANTED = "planted.tar"


def match() -> Path | None:
    """Return the kept folder of the key itself, else the newest one whose key begins as one of `restore-keys`."""
    kept = sorted(
        filter(Path.is_dir, shared("caches").iterdir()), key=lambda path: path.stat().st_mtime_ns, reverse=True
    )
    names = [path for path in kept if unquote(path.name) == INPUTS["key"]]
    for prefix in words("restore-keys"):
        names += [path for path in kept if unquote(path.name).startswith(prefix)]
    return names[0] if names else None


def main() -> None:
    required("path", "key")
    if (planted := shared("caches") / PLANTED).is_file():
        subprocess.run(["tar", "-xPf", planted, "-C", WORKSPACE], check=True)  # -P: absolute paths are kept
    found = match()
    if found is None and given("fail-on-cache-miss"):
        refuse(f"Failed to restore cache entry. Exiting as fail-on-cache-miss is set. Input key: {INPUTS['key']}")
    for number, path in enumerate(words("path") if found and not given("lookup-only") else ()):
        if found and (found / str(number)).exists():
            shutil.copytree(found / str(number), WORKSPACE / Path(path).expanduser(), dirs_exist_ok=True)
    hand_on(
        cache_hit="" if found is None else str(unquote(found.name) == INPUTS["key"]).lower(),
        cache_primary_key=INPUTS["key"],
        cache_matched_key=unquote(found.name) if found else "",
    )
    print(f"Cache restored from key: {found.name}" if found else f"Cache not found for input keys: {INPUTS['key']}")


main()
