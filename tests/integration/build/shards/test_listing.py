"""A build runs through without compiling its units, and a shard compiles just its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ci_tools.build.shards.listing import ListedBuild
from ci_tools.build.units.store import UnitStore
from tests.builders.sources import write
from tests.builders.units import Units, open_units

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("g++"), reason="needs a compiler")]

SOURCE = {
    "a.cpp": '#include "a.h"\nint f() { return A; }\n',
    "a.h": "#define A 1\n" + "// long\n" * 100,
    "b.cpp": "int g() { return 2; }\n",
    "main.cpp": "int f(); int g(); int main() { return f() + g() - 3; }\n",
}


@contextmanager
def open_listing(folder: Path, listing: ListedBuild, store: UnitStore | None = None) -> Iterator[Units]:
    with open_units(folder, store, listing=listing) as units:
        write(units.folder, SOURCE)
        yield units


def compile_all(units: Units) -> None:
    for name in ("a", "b", "main"):
        done = units.run("g++", "-c", "-MMD", f"{name}.cpp", "-o", f"{name}.o")
        assert done.returncode == 0, done.stderr


def read_symbols(units: Units, name: str) -> str:
    return units.run("nm", "--defined-only", name).stdout


def test_units_are_named_and_none_is_compiled(tmp_path: Path) -> None:
    listing = ListedBuild()
    with open_listing(tmp_path, listing) as units:
        compile_all(units)
        assert [read_symbols(units, f"{name}.o") for name in ("a", "b", "main")] == [""] * 3
        assert (units.folder / "a.d").read_text() == "a.o: a.cpp\n"
        assert units.report.units == []
    found = {unit.source: unit.text for unit in listing.units.values()}
    assert found == {"a.cpp": len(SOURCE["a.cpp"] + SOURCE["a.h"]), "b.cpp": 22, "main.cpp": len(SOURCE["main.cpp"])}


LINKS = {
    "library": ("g++", "-shared", "-Wl,--no-undefined", "a.o", "b.o", "-o", "made"),
    "archive": ("g++", "-shared", "-Wl,--no-undefined", "c.o", "lib.a", "-o", "made"),
    "relocatable": ("g++", "-r", "a.o", "b.o", "-o", "made"),
    "in-one-step": ("g++", "-shared", "a.cpp", "b.cpp", "-o", "made"),
    "response-file": ("g++", "-shared", "@words"),
}


@pytest.mark.parametrize("name", LINKS)
def test_what_is_linked_of_empty_objects_is_empty(name: str, tmp_path: Path) -> None:
    with open_listing(tmp_path, ListedBuild()) as units:
        write(units.folder, {"words": "a.o b.o -o made", "c.cpp": "int f(); int c() { return f(); }\n"})
        compile_all(units)
        units.run("ar", "rcs", "lib.a", "a.o", "b.o")
        done = units.run(*LINKS[name])
        assert (done.returncode, done.stderr, read_symbols(units, "made").count(" T ")) == (0, "", 0)
        assert units.run("readelf", "-h", "made").returncode == 0


def test_a_program_of_the_build_is_noticed_when_it_runs(tmp_path: Path) -> None:
    listing = ListedBuild()
    with open_listing(tmp_path, listing) as units:
        compile_all(units)
        units.run("g++", "a.o", "b.o", "main.o", "-o", "tool")
        ran = units.run("./tool")
    assert (ran.returncode, listing.ran) == (96, ["tool"])
    assert ran.stderr == "tool is a program of the build itself, and not compiled yet\n"


def test_a_probe_outside_of_the_source_is_compiled_linked_and_run(tmp_path: Path) -> None:
    listing = ListedBuild()
    with open_listing(tmp_path, listing) as units:
        write(tmp_path / "tmp", {"probe.c": "int main() { return 7; }\n"})
        probe = tmp_path / "tmp" / "probe"
        assert units.run("gcc", "-c", f"{probe}.c", "-o", f"{probe}.o").returncode == 0
        assert units.run("gcc", f"{probe}.o", "-o", probe).returncode == 0
        assert (units.run(probe).returncode, listing.units, listing.ran) == (7, {}, [])


def test_what_is_no_unit_is_left_to_the_link(tmp_path: Path) -> None:
    listing = ListedBuild()
    with open_listing(tmp_path, listing) as units:
        assert units.run("g++", "-c", "--coverage", "a.cpp", "-o", "a.o").returncode == 0
        assert (listing.units, listing.others, read_symbols(units, "a.o")) == ({}, {"a.cpp"}, "")


def test_a_shard_compiles_its_own_units(tmp_path: Path) -> None:
    listing, store = ListedBuild(), UnitStore(folder=tmp_path / "store")
    with open_listing(tmp_path, listing) as units:
        compile_all(units)
    own = frozenset(seed for seed, unit in listing.units.items() if unit.source == "b.cpp")
    shard = ListedBuild(own=own)
    with open_listing(tmp_path, shard, store) as units:
        compile_all(units)
        assert ["g" in read_symbols(units, f"{name}.o") for name in ("a", "b", "main")] == [False, True, False]
        assert units.run("g++", "-shared", "a.o", "b.o", "-o", "made").returncode == 0
    assert (shard.done.keys(), shard.units.keys()) == (own, listing.units.keys())
    assert all(store.has(name) for name in shard.done.values())
