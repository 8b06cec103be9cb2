"""An index in a folder for tests of its upkeep, and what is found wrong with one."""

from __future__ import annotations

import functools
import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from ci_tools.index import maintain
from ci_tools.index.ledger import Ledger
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Outside
from tests.builders import releases
from tests.builders.releases import folder_index, item, unit
from tests.builders.wheels import make

PURE, CUDA, SDIST = "demo-1.0-py3-none-any.whl", "demo-1.0+cu130-py3-none-any.whl", "demo-1.0.tar.gz"
LATER = "demo-1.1-py3-none-any.whl"
STRAY = "demo-1.2-py3-none-any.whl"


def demo_index(folder: Path) -> WheelIndex:
    """Return an index with two versions of a project, and another project, and its wheels beside it."""
    shutil.copytree(_published().name, folder, dirs_exist_ok=True)
    return folder_index(folder / "index")


@functools.cache
def _published() -> tempfile.TemporaryDirectory[str]:
    """Publish the demo index for all tests of a process, which copy it; return its folder, which ends with it."""
    whole = tempfile.TemporaryDirectory(prefix="demo-index-")
    folder = Path(whole.name)
    made = folder / "made"
    made.mkdir()
    (made / SDIST).write_bytes(b"sdist")
    built = folder_index(folder / "index")
    files = [item(make(made, PURE)), item(make(made, CUDA), "cu130", ("cu132",)), item(made / SDIST)]
    releases.publish(built, unit("demo", *files))
    releases.publish(built, unit("demo", item(make(made, LATER)), version="1.1"))
    releases.publish(built, unit("other", item(make(made, "other-1.0-py3-none-any.whl"))))
    return whole


def root(index: WheelIndex) -> Path:
    """Return the folder of an index."""
    return index.store.root  # type: ignore[attr-defined,no-any-return]


def found(index: WheelIndex, outside: Outside) -> list[tuple[str, str]]:
    """Return where an index has flaws, and what they are."""
    return [(flaw.key, flaw.what) for flaw in maintain.verify(index, outside)]


def leave(index: WheelIndex, key: str, data: bytes = b"on its way") -> Path:
    """Leave a file as a publisher does that is stopped: noted, and named by no manifest."""
    Ledger(index.store, "").note("demo", [key])
    path = root(index) / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def entry(index: WheelIndex, name: str, project: str = "demo") -> dict[str, Any]:
    """Return what a manifest says of a file."""
    files = json.loads((root(index) / f".fatwheel/projects/{project}.json").read_text())["files"]
    return next(file for file in files if file["name"] == name)


def rewrite(path: Path, old: str, new: str) -> None:
    """Write another word into what an index keeps for itself, as somebody would who leaves its seal out."""
    text = re.sub(r',[ \n]"seal": "[0-9a-f]{64}"', "", path.read_text())
    assert old in text
    path.write_text(text.replace(old, new, 1))
