"""The store serves many builds at a time, and nothing that befalls it changes what a build makes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_tools.build.units.store import UnitStore, read_cost
from tests.builders.sources import write
from tests.builders.units import open_units

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs a compiler")
SOURCE = {"a.cpp": "int f() { return 1; }\n", "b.cpp": "int f() { return 1; }\n"}


def flip(objects: list[Path]) -> None:
    objects[0].write_bytes(objects[0].read_bytes()[:-1] + b"x")


def cut(objects: list[Path]) -> None:
    objects[0].write_bytes(objects[0].read_bytes()[:-9])


def empty(objects: list[Path]) -> None:
    objects[0].write_bytes(b"")


def exchange(objects: list[Path]) -> None:
    first, second = (path.read_bytes() for path in objects)
    objects[0].write_bytes(second)
    objects[1].write_bytes(first)


def remove(objects: list[Path]) -> None:
    for path in objects:
        path.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("harm", [flip, cut, empty, exchange, remove])
def test_a_harmed_object_is_compiled_again(harm: Callable[[list[Path]], None], tmp_path: Path) -> None:
    store = UnitStore(folder=tmp_path / "store")
    with open_units(tmp_path, store) as units:
        write(units.folder, SOURCE)
        time.sleep(0.02)
        first = [units.compile("g++", name)[0] for name in SOURCE]
        harm(sorted((store.folder / "objects").glob("*/*")))
        again = [units.compile("g++", name) for name in SOURCE]
    assert [content for content, _ in again] == first
    assert "compiled" in [how for _, how in again]


@pytest.mark.slow
def test_what_a_unit_took_is_kept_by_its_name(tmp_path: Path) -> None:
    store = UnitStore(folder=tmp_path / "store")
    with open_units(tmp_path, store) as units:
        write(units.folder, {"a.cpp": "#include <string>\n"})
        for _ in range(2):
            units.compile("g++", "a.cpp")
    compiled, taken = units.report.units
    cost = read_cost(compiled.unit, store)
    assert cost is not None
    assert cost.wall > 0.05
    assert cost.cpu > 0.05
    assert 20 << 20 < cost.peak < 1 << 30
    assert (compiled.peak, taken.peak, taken.unit) == (cost.peak, 0, compiled.unit)
    assert time.time() - 60 < compiled.began < taken.began
    assert compiled.took >= compiled.wall > taken.took


def test_the_oldest_contents_go_first(tmp_path: Path) -> None:
    store = UnitStore(folder=tmp_path, size=3000)
    for number in range(5):
        store.write(f"objects/{number}", bytes(1000))
        os.utime(tmp_path / f"objects/{number}", (number, number))
    store.read("objects/0")  # is the youngest now
    store.evict()
    assert sorted(path.name for path in (tmp_path / "objects").iterdir()) == ["0", "4"]


@pytest.mark.slow
def test_builds_that_write_at_a_time_make_what_each_would_make_alone(tmp_path: Path) -> None:
    store, made = UnitStore(folder=tmp_path / "store"), []
    with open_units(tmp_path, store) as units:
        write(units.folder, SOURCE)

        def compile_all(number: int) -> None:
            for name in SOURCE:
                done = units.run("g++", "-c", name, "-o", f"{number}/{name}.o")
                made.append((name, done.returncode, (units.folder / str(number) / f"{name}.o").read_bytes()))

        for number in range(6):
            (units.folder / str(number)).mkdir()
        threads = [threading.Thread(target=compile_all, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (len(made), len({*made})) == (12, 2)


FULL = """\
mount -t tmpfs -o size=64k none "$1" && shift && exec "$@"
"""


@pytest.mark.slow
def test_a_full_disk_is_said_and_the_build_goes_on(tmp_path: Path) -> None:
    unshare = ["unshare", "--map-root-user", "--mount", "sh", "-c", FULL, "sh", str(tmp_path / "store")]
    (tmp_path / "store").mkdir()
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    write(tmp_path / "source", {"a.cpp": "char data[200000] = {1};\n"})
    program = Path(__file__).with_name("compile_twice.py")
    ran = subprocess.run(
        [*unshare, sys.executable, program, tmp_path], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert ran.stdout.splitlines() == ["compiled", "compiled"], ran.stderr
    assert "No space left on device" in ran.stderr


@pytest.mark.long
@pytest.mark.parametrize("whom", ["the build", "the launcher"])
def test_a_kill_at_any_moment_leaves_a_store_that_serves(whom: str, tmp_path: Path) -> None:
    write(tmp_path / "source", SOURCE)
    program, environ = Path(__file__).with_name("compile_twice.py"), {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    for moment in (0.25, 0.3, 0.35, 0.4, 0.5):
        with subprocess.Popen([sys.executable, program, tmp_path], env=environ, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, start_new_session=True) as process:  # fmt: skip
            time.sleep(moment)
            os.killpg(process.pid, signal.SIGKILL) if whom == "the build" else _kill_launchers(tmp_path)
    with open_units(tmp_path, UnitStore(folder=tmp_path / "store")) as units:
        kept, how = units.compile("g++", "a.cpp")
    with open_units(tmp_path, None) as units:
        assert units.compile("g++", "a.cpp")[0] == kept, how


def _kill_launchers(folder: Path) -> None:
    """Kill the processes whose command names a build's launcher."""
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(folder / "units" / "launcher.pyc") in words:
            os.kill(int(process.parent.name), signal.SIGKILL)
