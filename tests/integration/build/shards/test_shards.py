"""A job in shards makes the bytes of a whole build, whatever befalls the shards."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from ci_tools.machine.storage import sha256_of
from tests.builders import own_backend
from tests.builders.sources import committed, write
from tests.integration.build.units.test_build_systems import PROJECT, VERSION
from tests.integration.conftest import CommandLine, Ran

pytestmark = [pytest.mark.long, pytest.mark.skipif(not shutil.which("unshare"), reason="needs Linux")]

JOB = f"linux-cpu-cp{VERSION.replace('.', '')}"
UNITS, KILLS = 6, 20
# Each unit takes a second or so: the compiler makes every level of a template.
DEEP = """\
template <int N, int S> struct Deep { static int of(int x) { return Deep<N - 1, S>::of(x * S + N) ^ N; } };
template <int S> struct Deep<0, S> { static int of(int x) { return x; } };
"""
BINDING = """\
#include <Python.h>
static PyModuleDef shardlab = {PyModuleDef_HEAD_INIT, "shardlab"};
PyMODINIT_FUNC PyInit_shardlab() { return PyModule_Create(&shardlab); }
"""
CONFIG = f"""\
package: shardlab
version: "1.0"
python: ["{VERSION}"]
platforms:
  linux-cpu: {{owner: "@demo/cpu", wheel-platform: linux, container: none}}
"""
SETUP = """\
from setuptools import Extension, setup
sources = ["binding.cpp", *(f"unit{number}.cpp" for number in range(6))]
setup(ext_modules=[Extension("shardlab", sources, depends=["deep.h"])])
"""
MANIFEST = "include *.h *.cpp\n"


def list_files(depth: int = 60) -> dict[str, str]:
    """Return the files of a project of six units and one small one; they take longer with a greater depth."""
    text = '#include "deep.h"\nint unit{0}(int x) {{ return Deep<{1}, {0} + 1>::of(x); }}\n'
    units = {f"unit{number}.cpp": text.format(number, depth) for number in range(UNITS)}
    project = PROJECT.format(requires='"setuptools>=77"', backend="setuptools.build_meta").replace("demo", "shardlab")
    others = {"deep.h": DEEP, "binding.cpp": BINDING, "setup.py": SETUP, "MANIFEST.in": MANIFEST}
    return {**units, **others, "pyproject.toml": project, "fatwheel.yml": CONFIG}


class Lab(NamedTuple):
    """A project, in a folder with what is made of it; each machine has a cache of its own."""

    fatwheel: CommandLine
    folder: Path

    def build(self, machine: str, *options: str, **environ: str) -> Ran:
        """Run a build on a machine, in its own clone of the project, into its own folder."""
        clone, environ = (
            self.folder / machine / "clone",
            {"FATWHEEL_CACHE": str(self.folder / machine / "cache"), **environ},
        )
        if not clone.exists():
            subprocess.run(["git", "clone", "-q", self.folder / "project", clone], check=True)
        return self.fatwheel(
            "build", "--job", JOB, "--out", str(self.find_out(machine)), *options, cwd=clone, **environ
        )

    def find_out(self, machine: str) -> Path:
        return self.folder / machine / "out"

    def compile(self, shard: str, **environ: str) -> Path:
        """Compile a shard on a machine of its name; return its folder."""
        ran = self.build(shard.replace("/", "-of-"), "--shard", shard, **environ)
        assert ran.status == 0, ran.stderr
        return self.find_out(shard.replace("/", "-of-")) / "shards" / JOB / shard.replace("/", "-of-")

    def link(self, machine: str, *shards: Path, **environ: str) -> tuple[str, str]:
        """Link what shards left, on another machine; return the wheel's digest, and what was said."""
        for number, path in enumerate(shards):
            shutil.copytree(path, self.find_out(machine) / "shards" / str(number))
        ran = self.build(machine, "--link", **environ)
        assert ran.status == 0, ran.stderr
        return sha256_of(next(self.find_out(machine).glob("*.whl"))), ran.stderr


@pytest.fixture(scope="module")
def lab(fatwheel: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    folder = tmp_path_factory.mktemp("lab")
    committed(write(folder / "project", list_files()))
    return Lab(fatwheel, folder)


@pytest.fixture(scope="module")
def whole(lab: Lab) -> str:
    ran = lab.build("whole", FATWHEEL_UNITS="off")
    assert ran.status == 0, ran.stderr
    return sha256_of(next(lab.find_out("whole").glob("*.whl")))


@pytest.fixture(scope="module")
def shards(lab: Lab) -> tuple[Path, Path]:
    return lab.compile("1/2"), lab.compile("2/2")


def test_a_list_names_the_units_in_seconds(lab: Lab) -> None:
    ran = lab.build("list", "--list")
    found = json.loads(ran.stdout)
    sources = sorted(unit["source"] for unit in found["units"])
    assert (sources, found["whole"]) == (["binding.cpp", *(f"unit{number}.cpp" for number in range(UNITS))], "")
    assert "estimated" in ran.stderr


def test_shards_and_a_link_make_the_bytes_of_the_whole_build(lab: Lab, whole: str, shards: tuple[Path, Path]) -> None:
    digest, said = lab.link("linked", *shards)
    assert digest == whole
    assert f"{JOB}: 7 compile units handed over by 2 shards" in said
    assert f"{JOB}: 7 compile units: 7 from the store, 0 compiled" in said


def test_the_next_run_knows_what_the_shards_measured(lab: Lab, shards: tuple[Path, Path]) -> None:
    """By the place that both share: the link puts there what its shards compiled, and a shard only takes."""
    place = lab.folder / "place"
    lab.link("measured", *shards, FATWHEEL_UNITS=f"dir:{place}")
    (kept,) = place.rglob("*.units")
    ran = lab.build("next", "--shard", "1/2", FATWHEEL_UNITS=f"dir:{place}")
    assert (ran.status, [*place.rglob("*.units")]) == (0, [kept]), ran.stderr
    assert "7 of them measured; shard 1/2 compiles" in ran.stderr
    assert ", 0 compiled" in ran.stderr


def test_processes_here_do_the_same(lab: Lab, whole: str) -> None:
    ran = lab.build("processes", "--shards", "2")
    assert sha256_of(next(lab.find_out("processes").glob("*.whl"))) == whole
    assert "7 compile units: 7 from the store, 0 compiled" in ran.stderr


def lose(folder: Path) -> None:
    shutil.rmtree(folder)


def corrupt(folder: Path) -> None:
    for path in folder.glob("objects/*/*"):
        path.write_bytes(path.read_bytes()[:-1] + b"x")


def spoil(folder: Path) -> None:
    (folder / "shard.json").write_text('{"job": 7}')


HARMS = {
    lose: "shard 2/2 is missing",
    corrupt: "is damaged, and not taken",
    spoil: "shard.json is not taken: ",
}


@pytest.mark.parametrize("harm", HARMS)
def test_what_a_shard_lacks_is_compiled_at_the_link(
    harm: Callable[[Path], None], lab: Lab, whole: str, shards: tuple[Path, Path]
) -> None:
    first, second = shards
    place = shutil.copytree(second, lab.folder / harm.__name__ / "harmed")
    harm(place)
    digest, said = lab.link(harm.__name__, *(path for path in (first, place) if path.exists()))
    assert digest == whole
    assert HARMS[harm] in said
    assert f"{len([*second.glob('objects/*/*')])} compiled" in said
    assert f"{JOB}: compiled at the link, as no shard handed them over: " in said


def test_a_shard_of_another_commit_is_not_used(lab: Lab, shards: tuple[Path, Path]) -> None:
    old = lab.folder / "project"
    other = Lab(lab.fatwheel, lab.folder / "other")
    shutil.copytree(old, other.folder / "project")
    committed(write(other.folder / "project", {"deep.h": DEEP.replace("^ N", "^ (N + 1)")}))
    digest, said = other.link("linked", *shards)
    assert (digest, said.count("is not taken: it is of another source")) == (other.link("alone")[0], 2)
    assert "from the store" not in said


def test_a_shard_of_another_config_is_not_used(lab: Lab, shards: tuple[Path, Path]) -> None:
    other = Lab(lab.fatwheel, lab.folder / "configured")
    shutil.copytree(lab.folder / "project", other.folder / "project")
    committed(write(other.folder / "project", {"fatwheel.yml": CONFIG + "build: {env: {CFLAGS: -O1}}\n"}))
    digest, said = other.link("linked", *shards)
    assert (digest, said.count("is not taken: ")) == (other.link("alone")[0], 2)


def test_units_of_another_compiler_are_not_used(
    lab: Lab, whole: str, shards: tuple[Path, Path], tmp_path: Path
) -> None:
    for name in ("gcc", "g++", "cc", "c++"):
        (tmp_path / name).write_text(f'#!/bin/sh\nexec {shutil.which(name)} -fno-inline "$@"\n')
        (tmp_path / name).chmod(0o755)
    other = Lab(lab.fatwheel, lab.folder / "compiler")
    shutil.copytree(lab.folder / "project", other.folder / "project")
    strange = other.compile("2/2", PATH=f"{tmp_path}:{os.environ['PATH']}")
    digest, said = lab.link("another-compiler", shards[0], strange)
    assert digest == whole
    assert f"{len([*shards[1].glob('objects/*/*')])} compiled" in said


TOOL = """\
import subprocess
from setuptools import Extension, setup
subprocess.run("g++ -c tool.cpp -o tool.o && g++ tool.o -o tool && ./tool > made.h", shell=True, check=True)
setup(ext_modules=[Extension("shardlab", ["binding.cpp", "unit0.cpp"])])
"""


def test_a_build_that_runs_its_own_tools_is_built_whole(fatwheel: CommandLine, tmp_path: Path) -> None:
    tool = {"tool.cpp": '#include <cstdio>\nint main() { puts("#define MADE 1"); }\n', "setup.py": TOOL}
    committed(write(tmp_path / "project", {**list_files(), **tool}))
    lab = Lab(fatwheel, tmp_path)
    shard = lab.compile("1/2")
    assert json.loads((shard / "shard.json").read_text())["whole"] == "it runs its own program tool"
    digest, said = lab.link("linked", shard)
    assert f"{JOB}: built whole: it runs its own program tool" in said
    assert "is missing" not in said  # shard 2/2, which would have nothing to hand over
    assert "compiled at the link" not in said
    assert digest == lab.link("alone")[0]


def test_a_build_that_imports_what_it_compiles_is_built_whole(fatwheel: CommandLine, tmp_path: Path) -> None:
    line = '        files[f"tiny/{library}"] = read(library)\n'
    importing = f'        subprocess.run([sys.executable, "-c", "import fast"], check=True)\n{line}'
    backend = own_backend.BACKEND.replace(line, importing)
    config = {"fatwheel.yml": CONFIG.replace("shardlab", "tiny"), "tiny/__init__.py": ""}
    committed(write(tmp_path / "project", {**own_backend.FILES, "backend.py": backend, **config}))
    lab = Lab(fatwheel, tmp_path)
    digest, said = lab.link("linked", lab.compile("1/2"))
    assert f"{JOB}: built whole: its build does not run through without its objects (" in said
    assert digest == lab.link("alone")[0]


def kill(lab: Lab, folder: Path, moment: float) -> tuple[int, list[Path]]:
    """Kill a shard so many seconds after its next unit; return its end, and the objects that it left."""
    machine, before = lab.folder / "killed", len(list_objects(folder))
    environ = {**os.environ, "FATWHEEL_CACHE": str(machine / "cache")}
    command = [sys.executable, "-m", "ci_tools", "build", "--job", JOB, "--out", machine / "out", "--shard", "1/1"]
    with subprocess.Popen(command, cwd=lab.folder / "project", env=environ, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, start_new_session=True) as process:  # fmt: skip
        while process.poll() is None and len(list_objects(folder)) <= before:
            time.sleep(0.02)
        time.sleep(moment)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, list_objects(folder)


def list_objects(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("objects/*/*") if not path.name.startswith("."))


def test_a_shard_that_is_killed_at_any_moment_loses_nothing(lab: Lab, whole: str) -> None:
    dice, kept, kills, links = random.Random(47), list[Path](), 0, count(1)  # noqa: S311 - moments
    folder = lab.find_out("killed") / "shards" / JOB / "1-of-1"
    while kills < KILLS:
        end, now = kill(lab, folder, dice.uniform(0, 1))
        assert {*kept} <= {*now}
        kept, kills = now, kills + (end < 0)
        if len(now) > UNITS:  # all of them
            assert lab.link(f"linked-{next(links)}", folder)[0] == whole
            shutil.rmtree(folder)
            kept = []
