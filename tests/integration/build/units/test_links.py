"""A library from the store is the one that the linker would make now, and a build of the same objects links nothing."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from ci_tools.build.units.store import UnitStore
from tests.builders.sources import write
from tests.builders.units import Units, open_units

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("g++"), reason="needs a compiler")]

LINK = ("g++", "-shared", "a.o", "-Lfirst", "-Lsecond", "-lbeside")
SOURCES = {"a.cpp": "int beside(); int a() { return beside() + 1; }\n", "beside.cpp": "int beside() { return 2; }\n"}
ANOTHER = {"beside.cpp": "int beside() { return 3; }\n"}


class Change(NamedTuple):
    """What is compiled again to which file, or written, before the second link; and whether that is taken."""

    compiled: Mapping[str, str] = {}  # the objects by their sources
    library: str = ""  # the folder that gets a library of the new text
    files: Mapping[str, str] = {}
    first: tuple[str, ...] = LINK
    then: tuple[str, ...] = ()
    is_taken: bool = False


SCRIPT = (*LINK, "-Wl,--version-script=names")
CHANGES = {
    "nothing": Change(is_taken=True),
    "a-file-that-is-not-linked": Change(files={"README.md": "two\n"}, is_taken=True),
    "an-object": Change(compiled={"a.cpp": "int a() { return 4; }\n"}),
    "a-library": Change(library="second"),
    "a-library-that-comes-first": Change(library="first"),
    "an-option": Change(then=(*LINK, "-Wl,-rpath,$ORIGIN")),
    "a-response-file": Change(files={"with": "-Wl,-z,now"}, first=(*LINK, "@with")),
    "a-script": Change(files={"names": "{ global: _Z1av; local: *; };\n"}, first=SCRIPT),
    "a-map-beside": Change(first=(*LINK, "-Wl,-Map=x.map")),
    "a-number-that-is-random": Change(first=(*LINK, "-Wl,--build-id=uuid")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_library_from_the_store_is_what_the_linker_makes_now(
    name: str, units: Units, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: UnitStore
) -> None:
    change = CHANGES[name]
    write(units.folder / name, {**SOURCES, "with": "-Wl,-z,lazy", "names": "{ global: *; };\n", "first/none": ""})
    make_library(units, name, "second")
    make_object(units, name, "a.cpp")
    link(units, name, *change.first)
    write(units.folder / name, {**change.compiled, **change.files, **(ANOTHER if change.library else {})})
    for source in change.compiled:
        make_object(units, name, source)
    if change.library:
        make_library(units, name, change.library)
    then = link(units, name, *(change.then or change.first))
    monkeypatch.setattr(store, "folder", tmp_path)
    now = link(units, name, *(change.then or change.first))
    assert then[1] is change.is_taken
    assert then[0] == now[0] or name == "a-number-that-is-random"


@pytest.mark.parametrize("words", [("-Wl,--dependency-file=x.d",), ("-Xlinker", "--dependency-file=x.d")])
def test_the_list_of_what_was_linked_is_taken_as_well(words: tuple[str, ...], units: Units) -> None:
    at, lists = words[0].strip("-"), []
    write(units.folder / at, {"a.cpp": "int a() { return 1; }\n"})
    make_object(units, at, "a.cpp")
    for is_taken in (False, True):
        assert link(units, at, "g++", "-shared", "a.o", *words)[1] is is_taken
        lists.append((units.folder / at / "x.d").read_bytes())
        (units.folder / at / "x.d").unlink()
    assert lists[0] == lists[1]


def test_a_linker_that_is_replaced_under_its_name_is_another(
    store: UnitStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, real, found = tmp_path / "bin", shutil.which("ld"), []
    monkeypatch.setenv("COMPILER_PATH", str(own))
    monkeypatch.setenv("PATH", f"{own}:{os.environ['PATH']}")
    for option in ("-z now", "-z lazy"):
        write(own, {"ld": f'#!/bin/sh\nexec {real} {option} "$@"\n'})
        (own / "ld").chmod(0o755)
        with open_units(tmp_path / "build", store) as replaced:
            variables = {"COMPILER_PATH": str(own)}
            write(replaced.folder, {"a.cpp": "int a() { return 1; }\n"})
            make_object(replaced, ".", "a.cpp")
            found += [link(replaced, ".", "g++", "-shared", "a.o", **variables) for _ in range(2)]
    assert [taken for _, taken in found] == [False, True] * 2
    assert found[0][0] == found[1][0] != found[2][0] == found[3][0]


def make_object(units: Units, at: str, source: str) -> None:
    done = units.run("g++", "-fPIC", "-c", source, "-o", f"{source.removesuffix('.cpp')}.o", at=at)
    assert done.returncode == 0, done.stderr


def make_library(units: Units, at: str, folder: str) -> None:
    (units.folder / at / folder).mkdir(exist_ok=True)
    make_object(units, at, "beside.cpp")
    (units.folder / at / "beside.o").rename(units.folder / at / folder / "beside.o")
    done = units.run("ar", "rcsD", "libbeside.a", "beside.o", at=f"{at}/{folder}")
    assert done.returncode == 0, done.stderr


def link(units: Units, at: str, *words: str, **variables: str) -> tuple[bytes, bool]:
    """Link x.so; return it, and whether it was taken."""
    time.sleep(0.02)  # a file that changes while it is read is not relied on
    done = units.run(*words, "-o", "x.so", at=at, **variables)
    assert done.returncode == 0, done.stderr
    return (units.folder / at / "x.so").read_bytes(), units.report.links[-1].how == "unchanged"
