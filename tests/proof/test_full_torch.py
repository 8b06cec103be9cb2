"""What is recorded of a package that was built with the parts of torch and the whole: only a folder is another."""

from __future__ import annotations

import json
from typing import Any

from tests.proof.cuda_builds import packages
from tests.proof.full_torch import PACKAGE, RECORD

FOUND: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
FOLDERS = ("/env/fatwheel-lent/torch/", "/env/lib/python3.11/site-packages/torch/")  # of torch's headers


def test_the_record_is_of_the_package_that_is_built_now() -> None:
    (package,) = (one for one in packages() if one["name"] == PACKAGE)
    assert [FOUND[name] for name in ("name", "version", "sha256")] == [
        package[name] for name in ("name", "version", "sha256")
    ]
    assert {one["torch"] for one in FOUND["built"].values()} == {"2.13.0+cu130"}


def test_only_the_library_differs_and_only_in_the_folder_of_torch_s_headers() -> None:
    (name,) = FOUND["libraries"]
    assert [one for one in FOUND["different"] if not one.endswith("/RECORD")] == [name]
    library = FOUND["libraries"][name]
    assert library["needed"][0] == library["needed"][1]
    assert library["symbols in one only"] == [[], []]
    parts, whole = library["texts in one only"]
    assert len(parts) > 0
    assert [text.replace(*FOLDERS) for text in parts] == whole
