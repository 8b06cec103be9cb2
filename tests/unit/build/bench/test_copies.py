"""Copies that builds work with: the next build takes one only as it was made."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_tools.build.bench import copies as module
from ci_tools.build.bench.copies import Copies
from ci_tools.machine.storage import fill_once


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of kept copies, on a disk that has room enough."""
    monkeypatch.setattr(module, "ROOM", 0)
    (tmp_path / "kept").mkdir()
    return tmp_path / "kept"


def filled(folder: Path, **files: str) -> Path:
    """Return a folder of the cache with these files below `include`."""

    def fill(partial: Path) -> None:
        (partial / "include").mkdir()
        for name, text in files.items():
            (partial / "include" / f"{name}.h").write_text(text)

    return fill_once(folder, fill, print)


def build(place: Path, kept: Path, *sources: Path, write: Callable[[Path], object] = str) -> tuple[int, dict[str, str]]:
    """Copy the sources to a place of a build that writes there; return the inode of the copy, and its files."""
    place.parent.mkdir()
    copies = Copies(kept)
    copies.put(place, *sources)
    found = {path.name: path.read_text() for path in sorted(place.rglob("*.h"))}
    number = place.stat().st_ino
    write(place)
    copies.give_back()
    return number, found


def test_the_next_build_gets_the_same_copy_at_its_own_path(tmp_path: Path, kept: Path) -> None:
    source = filled(tmp_path / "cache/torch", a="1") / "include"
    first = build(tmp_path / "one/headers", kept, source)
    assert build(tmp_path / "two/headers", kept, source) == first


def test_a_header_has_the_same_time_in_every_copy_and_a_module_that_of_its_bytecode(tmp_path: Path, kept: Path) -> None:
    dates: list[list[float]] = []
    for name in ("one", "two"):
        source = filled(tmp_path / "cache" / name, a="1") / "include"
        (source / "m.py").touch()
        os.utime(source / "m.py", (1e9, 1e9))
        os.utime(source / "a.h", (2e9 if name == "two" else 1.5e9,) * 2)
        place = Copies(kept).put(tmp_path / name / "headers", source)
        dates.append([(place / file).stat().st_mtime for file in ("a.h", "m.py")])
    assert dates[0] == dates[1]
    assert dates[0][1] == 1e9


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda place: (place / "a.h").write_text("3"), id="the-same-length"),
        pytest.param(lambda place: (place / "a.h").chmod(0o600), id="a-mode"),
        pytest.param(lambda place: (place / "a.h").unlink(), id="one-less"),
        pytest.param(lambda place: (place / "b.h").write_text("2"), id="one-more"),
        pytest.param(lambda place: (place / "b").mkdir(), id="a-folder"),
        pytest.param(lambda place: (place / ".git").mkdir(), id="a-repository"),
        pytest.param(lambda place: (place / "__pycache__").write_text("no folder"), id="bytecode-that-is-a-file"),
    ],
)
def test_what_a_build_writes_does_not_reach_the_next(
    tmp_path: Path, kept: Path, write: Callable[[Path], object]
) -> None:
    source = filled(tmp_path / "cache/torch", a="1") / "include"
    build(tmp_path / "one/headers", kept, source, write=write)
    assert build(tmp_path / "two/headers", kept, source)[1] == {"a.h": "1"}
    assert [path.name for path in (source.parent).rglob("*")] == ["include", "a.h"]
    assert len([*kept.iterdir()]) == 2  # the copy and its stamp


def test_bytecode_that_a_build_compiles_does_not_reach_the_next(tmp_path: Path, kept: Path) -> None:
    source = filled(tmp_path / "cache/torch", a="1") / "include"

    def compile_modules(place: Path) -> None:
        (place / "__pycache__").mkdir()
        (place / "__pycache__" / "a.cpython-311.pyc").write_bytes(b"what the next build would run")

    def find_modules(place: Path) -> None:
        assert [path.name for path in place.rglob("*")] == ["a.h"]

    first = build(tmp_path / "one/headers", kept, source, write=compile_modules)
    assert build(tmp_path / "two/headers", kept, source, write=find_modules) == first


def test_a_folder_that_was_filled_anew_is_copied_anew(tmp_path: Path, kept: Path) -> None:
    source = filled(tmp_path / "cache/torch", a="1")
    build(tmp_path / "one/headers", kept, source)
    (source / "include/a.h").unlink()
    filled(tmp_path / "cache/torch", a="2")
    assert build(tmp_path / "two/headers", kept, source)[1] == {"a.h": "2"}


def test_a_toolkit_with_libraries_is_another_copy_than_without(tmp_path: Path, kept: Path) -> None:
    toolkit, cublas = filled(tmp_path / "cache/toolkit", nvcc="1"), filled(tmp_path / "cache/cublas", cublas="1")
    assert build(tmp_path / "one/cuda", kept, toolkit, cublas)[1] == {"cublas.h": "1", "nvcc.h": "1"}
    assert build(tmp_path / "two/cuda", kept, toolkit)[1] == {"nvcc.h": "1"}


def test_only_some_copies_are_kept_and_for_some_time(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = filled(tmp_path / "cache/torch", a="1")
    builds = [Copies(kept) for _ in range(module.MOST + 1)]
    for number, each in enumerate(builds):
        each.put(tmp_path / str(number), source)
    for each in builds:
        each.give_back()
    assert len([*kept.iterdir()]) == 2 * module.MOST
    monkeypatch.setattr(module, "LONGEST", -1)
    Copies(kept).give_back()
    assert [*kept.iterdir()] == []


@pytest.mark.parametrize("full", [pytest.param(True, id="a-full-disk"), pytest.param(False, id="no-seal")])
def test_else_a_copy_stays_with_its_build(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch, *, full: bool
) -> None:
    monkeypatch.setattr(module, "ROOM", 1 << 60 if full else 0)
    source = filled(tmp_path / "cache/torch", a="1")
    if not full:
        source.with_name("torch.sha256").unlink()
    copies = Copies(kept)
    copies.put(tmp_path / "headers", source)
    copies.give_back()
    assert [*kept.iterdir()] == []
    assert (tmp_path / "headers/include/a.h").read_text() == "1"
