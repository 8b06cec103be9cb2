"""A release that is killed at any moment, and whose caches are damaged after that, is finished by the same command."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ci_tools.machine.storage import sha256_of
from tests.builders.sources import write
from tests.integration.conftest import REPOSITORY, own_python

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

KILLS = 30
SEED = "FATWHEEL_KILLS_SEED"  # the variable that repeats a run
FILES = (".whl", ".tar.gz")
RELEASE = ("release", "--to", "dir:../index", "--out", "../out")
GONE = 8.0  # seconds in which all that a killed run had started must be gone
PROJECT = {
    "pyproject.toml": """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "oftenkilled"
version = "1.0"
requires-python = ">=3.10"
[tool.setuptools]
packages = ["oftenkilled"]
ext-modules = [{name = "oftenkilled.fast", sources = ["fast.c"]}]
""",
    "oftenkilled/__init__.py": "",
    "fast.c": """\
#include <Python.h>
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "fast", 0, -1, 0};
PyMODINIT_FUNC PyInit_fast(void) { return PyModule_Create(&module); }
""",
    "fatwheel.yml": f"""\
package: oftenkilled
python: [{own_python()}]
platforms:
  linux-cpu: {{owner: us, native: ["*.c"], wheel-platform: linux}}
validate: {{imports: [oftenkilled.fast]}}
""",
}


class Place(NamedTuple):
    """The folders of one project's releases, all below one that no other run has."""

    root: Path

    @property
    def states(self) -> tuple[Path, ...]:
        return tuple(self.root / name for name in ("cache", "out", "index"))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "ci_tools", *(arguments or RELEASE)]
        known = {"PYTHONPATH": str(REPOSITORY), "FATWHEEL_CACHE": str(self.root / "cache")}
        environ = {**os.environ, **known, "TMPDIR": str(self.root / "tmp")}
        return subprocess.Popen(
            command, cwd=self.root / "source", env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def finish(self, *arguments: str) -> tuple[int, str]:
        with self.start(*arguments) as process:
            said = process.communicate()[1]
        return process.returncode, said

    def kill(self, after: float, how: signal.Signals) -> None:
        with self.start() as process:
            try:
                process.communicate(timeout=after)
            except subprocess.TimeoutExpired:
                process.send_signal(how)
                process.communicate()

    def made(self) -> dict[str, str]:
        """Return the finished files, in the folder and in the index, by their sha256."""
        found = (
            path for folder in self.states[1:] for pattern in ("*.whl", "*.tar.gz") for path in folder.rglob(pattern)
        )
        return {str(path.relative_to(self.root)): sha256_of(path) for path in sorted(found)}

    def listed(self) -> dict[str, str]:
        """Return what the index says of its files."""
        page = json.loads((self.root / "index/cpu/oftenkilled/index.json").read_text())
        return {file["filename"]: file["hashes"]["sha256"] for file in page["files"]}

    def left(self) -> list[str]:
        """Return what the temporary folders hold of us."""
        own = [*self.root.glob("tmp/*"), *self.root.glob("tmp/fatwheel-*/*"), *self.root.glob("cache/*/*/")]
        kept = {"sweep", f"fatwheel-{os.getuid()}"}  # a lock, and the folder that it lies in
        kept |= {"objects", "manifests", "lines"}  # of compile units
        own += Path(tempfile.gettempdir()).glob("fatwheel-*-oftenkilled*")
        return [str(path) for path in own if path.name not in kept and (path.is_dir() or "tmp" in path.parts)]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    write(tmp_path / "source", PROJECT)
    (tmp_path / "tmp").mkdir()
    return Place(tmp_path)


@pytest.mark.slow
@pytest.mark.long
def test_thirty_kills_with_damaged_caches_end_in_the_same_release(place: Place) -> None:
    seed = int(os.environ.get(SEED) or random.SystemRandom().randrange(1 << 32))
    _say(f"{SEED}={seed}")
    chance, began = random.Random(seed), time.monotonic()  # noqa: S311 - a run that fails is repeated by its seed
    assert place.finish()[0] == 0
    whole, expected, listed = time.monotonic() - began, place.made(), place.listed()
    for number in range(KILLS):
        _begin_anew(place, chance)
        place.kill(chance.uniform(0, whole), chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
        _expect_no_process(place)
        damaged = [_damage(path, chance) for path in chance.sample(_files(place), min(3, len(_files(place))))]
        _say(f"{number}: {', '.join(damaged)}")
        _finish_or_follow(place, damaged)
        assert (place.made(), place.listed(), place.left()) == (expected, listed, [])


def _say(line: str) -> None:
    """Show a line with the test, where it fails."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _begin_anew(place: Place, chance: random.Random) -> None:
    """Remove some of what is finished, so that there is something to do."""
    for folder in place.states:
        if chance.random() < 0.5 and folder.exists():
            subprocess.run(["rm", "-rf", folder], check=True)


def _files(place: Place) -> list[Path]:
    """Return what a run keeps for the next one, and the finished files; an index's pages are `index verify`'s."""
    cache, out, index = place.states
    found = [*cache.rglob("*"), *out.rglob("*"), *(index / ".fatwheel").rglob("*"), *index.rglob("*.whl")]
    return sorted(path for path in found if path.is_file())


def _damage(path: Path, chance: random.Random) -> str:
    """Change a byte of a file, cut it, or empty it; return which."""
    content = bytearray(path.read_bytes())
    how = chance.choice(["change", "cut", "empty"]) if content else "change"
    at = chance.randrange(len(content)) if content else 0
    if how == "change":
        content[at : at + 1] = bytes([chance.randrange(256)])
    path.write_bytes(content if how == "change" else content[:at] if how == "cut" else b"")
    return f"{how} {path} at {at}"


def _finish_or_follow(place: Place, damaged: list[str]) -> None:
    """Finish the release; a run that does not must name what is damaged in the index, and the command that mends it."""
    status, said = place.finish()
    _say(said)
    for _ in range(2):  # the directory of an index, and a manifest
        if status:
            assert any(line.split()[1] in said for line in damaged), said
            assert "`fatwheel index repair`" in said, said
            status, said = place.finish("index", "repair", "dir:../index")
            _say(said)
            status, said = place.finish()
            _say(said)
    assert (status, "Traceback" in said) == (0, False), said


def _expect_no_process(place: Place) -> None:
    deadline = time.monotonic() + GONE
    while alive := list(_alive(place)):
        assert time.monotonic() < deadline, alive
        time.sleep(0.05)


def _alive(place: Place) -> Iterator[str]:
    """Yield the processes that have one of our folders in their command or their variables."""
    marks = (str(place.root).encode(), b"fatwheel-build-oftenkilled", b"fatwheel-sdist-oftenkilled")
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command, environ = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
        except OSError:
            continue
        if int(folder.name) != os.getpid() and any(mark in command + environ for mark in marks):
            yield f"{folder.name} {command.decode(errors='replace')}"
