"""How long an index of 10,000 wheels takes to write, and one more wheel to join it, beside the least work there is."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools import index
from ci_tools.index import IndexedFile
from tests import releases
from tests.wheels import make

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WHEELS = 10_000
FOLDERS = ("cu126", "cu128", "cu129", "cu130", "")


def measure() -> Iterator[tuple[str, float, str, float]]:
    """Yield (what, figure, unit, limit); a unit of `x` is so many times the work it is compared with."""
    files = _files()
    dump = _seconds(lambda: json.dumps([file._asdict() for file in files]))
    pages = _seconds(lambda: (index.project_html("demo", files, "cu130"), index.project_json("demo", files, "cu130")))
    again = _seconds(lambda: (index.project_html("demo", files, "cpu"), index.project_json("demo", files, "cpu")))
    yield f"the first two pages of {WHEELS:,} wheels, over json.dumps of their entries", pages / dump, "x", 25
    yield "the next two pages, over the same", again / dump, "x", 10
    yield "their size", len(index.project_html("demo", files, "cu130")) / 1e6, "MB", 6
    with tempfile.TemporaryDirectory() as folder:
        yield from _publishing(Path(folder))


def _files() -> list[IndexedFile]:
    """Return 2,000 versions for each of five accelerators."""
    hashes = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(WHEELS)]
    return [
        IndexedFile(_name(number), _folder(number), sha256, 10**6, "2026-01-01T00:00:00Z", ">=3.10", sha256)
        for number, sha256 in enumerate(hashes)
    ]


def _folder(number: int) -> str:
    return FOLDERS[number % len(FOLDERS)]


def _name(number: int) -> str:
    local = f"+{_folder(number)}" if _folder(number) else ""
    return f"demo-{number // len(FOLDERS)}.0{local}-py3-none-manylinux_2_28_x86_64.whl"


def _publishing(folder: Path) -> Iterator[tuple[str, float, str, float]]:
    made = [releases.item(make(folder / "made", _name(number)), _folder(number)) for number in range(WHEELS)]
    (folder / "copies").mkdir()
    copied = _seconds(lambda: [_kept(Path(shutil.copy(path, folder / "copies"))) for path, *_ in made])
    target = releases.folder_index(folder / "index")
    published = _seconds(lambda: releases.publish(target, releases.unit("demo", *made)))
    yield f"publish {WHEELS:,} small wheels, over copying them to disk", published / copied, "x", 10
    one = releases.unit("demo", releases.item(make(folder / "one", _name(WHEELS)), _folder(WHEELS)))
    yield "publish one wheel more", _seconds(lambda: releases.publish(target, one)), "s", 3
    yield "publish it again", _seconds(lambda: releases.publish(target, one)), "s", 3


def _kept(copy: Path) -> None:
    """Wait until the disk has a file."""
    with copy.open("rb+") as file:
        os.fsync(file.fileno())


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
