"""Compilers within the memory of the machine and before a time limit, also where builds are killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ci_tools.build.times import watch
from ci_tools.build.units.gate import Gate, wait_for_room
from ci_tools.build.units.launchers import open_launchers
from ci_tools.build.units.report import COMPILED, LEFT
from ci_tools.build.units.store import UnitStore
from ci_tools.machine.context import Outside
from tests.builders.releases import Words
from tests.builders.sources import committed, write
from tests.integration.build.units.test_build_systems import PROJECT, SOURCES, VERSION
from tests.integration.conftest import CommandLine
from tests.unit.machine.test_waits import until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("g++"), reason="needs a compiler")]
HUGE = 1 << 60
HOLD = """\
import sys, time
from pathlib import Path
from ci_tools.build.units.gate import wait_for_room
with wait_for_room(Path(sys.argv[1]), lambda: 1 << 60, lambda: None):
    print(time.monotonic(), flush=True)
    time.sleep(float(sys.argv[2]))
    print(time.monotonic(), flush=True)
"""
# A compiler that is killed as the kernel does it, the first time it compiles a file that asks for that.
STARVING = """\
#!/bin/sh
case " $* " in *" -E "*) ;; *starves.cpp*) [ -e "$0.once" ] || { : >"$0.once"; kill -9 $$; } ;; esac
exec %s "$@"
"""


# A compiler that takes its time, and says what it begins to compile.
SLOW = """\
#!/bin/sh
case " $* " in *" -E "*) ;; *" -c u"*) echo "$*" >>"$0.log"; sleep %s ;; esac
exec %s "$@"
"""
MAKEFILE = "all: $(patsubst %.cpp,%.o,$(wildcard u*.cpp))\n%.o: %.cpp\n\tg++ -c $< -o $@\n"
UNITS = {f"u{number}.cpp": f"int f{number}() {{ return 1; }}\n" for number in range(12)}
CORES = 2


def hold(folder: Path, seconds: float) -> subprocess.Popen[str]:
    """Start a process that holds more memory than there is."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", HOLD, str(folder), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ)


def test_heavy_ones_of_other_builds_run_one_after_another(tmp_path: Path) -> None:
    with hold(tmp_path, 0.3) as one, hold(tmp_path, 0.3) as two, hold(tmp_path, 0.3) as three:
        spans = sorted([float(line) for line in process.communicate()[0].split()] for process in (one, two, three))
    assert spans[0][1] <= spans[1][0]
    assert spans[1][1] <= spans[2][0]
    assert [path.name for path in tmp_path.iterdir()] == ["ledger"]


def test_what_a_killed_build_held_is_free(tmp_path: Path) -> None:
    with hold(tmp_path, 60) as process:
        assert process.stdout
        process.stdout.readline()
        process.kill()
    with wait_for_room(tmp_path, lambda: HUGE, lambda: None) as waited:
        assert waited < 5


def test_one_whose_launcher_ends_waits_no_longer(tmp_path: Path) -> None:
    def refuse() -> None:
        raise EOFError

    with (
        wait_for_room(tmp_path, lambda: HUGE, refuse),
        pytest.raises(EOFError),
        wait_for_room(tmp_path, lambda: 1, refuse),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["ledger"]


def compile_with(gate: Gate, scratch: Path, name: str, path: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Compile a file; return how it ended, and what became of it and is said."""
    with open_launchers(scratch, path, Path(sys.executable), "demo", gate) as launchers:
        environ = launchers.take_over({"PATH": path, "SOURCE_DATE_EPOCH": "0"})
        command = ["g++", "-c", name, "-o", f"{name}.o"]
        ran = subprocess.run(command, cwd=scratch / "source", env=environ, capture_output=True, text=True, check=False)
        said = [*(unit.how for unit in launchers.report.units), *launchers.report.describe()]
    shutil.rmtree(scratch / "units")
    return ran, said


def test_a_long_build_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "SOON", 0.1)
    reporter, path = Words(), os.environ["PATH"]
    outside = Outside(environ={}, cache=tmp_path, reporter=reporter)
    write(tmp_path / "source", {"a.cpp": "int f() { return 1; }\n"})
    with (
        open_launchers(tmp_path, path, Path(sys.executable), "demo", Gate(folder=tmp_path / "compilers")) as launchers,
        watch.watch_units(launchers, "linux-cpu", tmp_path / "log", outside),
    ):
        environ = launchers.take_over({"PATH": path, "SOURCE_DATE_EPOCH": "0"})
        subprocess.run(["g++", "-c", "a.cpp", "-o", "a.o"], cwd=tmp_path / "source", env=environ, check=True)
        until(lambda: any("the compilers of linux-cpu (units done: 1): " in line for line in reporter.lines))


def test_a_compiler_that_memory_did_not_suffice_for_runs_again_with_nothing_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "source", {"starves.cpp": "int f() { return 1; }\n"})
    write(tmp_path / "bin", {"g++": STARVING % shutil.which("g++")})
    (tmp_path / "bin/g++").chmod(0o755)
    gate = Gate(folder=tmp_path / "compilers", store=UnitStore(folder=tmp_path / "store"))
    ran, said = compile_with(gate, tmp_path, "starves.cpp", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert ran.returncode == 0, ran.stderr
    assert said == [COMPILED, "compiled again with nothing beside, as memory did not suffice: starves.cpp"]


def test_near_the_time_limit_nothing_is_compiled_but_what_is_in_the_store_is_taken(tmp_path: Path) -> None:
    write(tmp_path / "source", {"a.cpp": "int f() { return 1; }\n", "b.cpp": "int g() { return 1; }\n"})
    store, path = UnitStore(folder=tmp_path / "store"), os.environ["PATH"]
    time.sleep(0.02)
    compile_with(Gate(folder=tmp_path / "compilers", store=store), tmp_path, "a.cpp", path)
    gate = Gate(folder=tmp_path / "compilers", store=store, deadline=time.monotonic())
    left, said = compile_with(gate, tmp_path, "b.cpp", path)
    assert (left.returncode, said, gate.is_closed) == (1, [LEFT], True)
    assert left.stderr == "fatwheel: it is not compiled any more, as the time limit is near\n"
    assert compile_with(gate, tmp_path, "a.cpp", path)[0].returncode == 0


def make_slow(folder: Path, seconds: float) -> dict[str, str]:
    """Return the variables with which each unit takes so long."""
    gcc = shutil.which("g++")
    for name in ("g++", "c++", "gcc", "cc"):
        write(folder / "bin", {name: SLOW % (seconds, gcc)})
        (folder / "bin" / name).chmod(0o755)
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path)}


def list_begun(folder: Path) -> list[str]:
    """Return what each compiler was called with, once for each time that it began."""
    logs = (path.read_text(encoding="utf-8").splitlines() for path in (folder / "bin").glob("*.log"))
    return [line for lines in logs for line in lines]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_a_killed_runner_loses_at_most_a_unit_per_core(seed: int, tmp_path: Path) -> None:
    write(tmp_path / "source", {**UNITS, "Makefile": MAKEFILE})
    environ = make_slow(tmp_path, 0.3)
    rng, kills = random.Random(seed), 0  # noqa: S311 - it is no secret
    command = [sys.executable, str(Path(__file__).with_name("compile_all.py")), str(tmp_path)]
    while True:
        with subprocess.Popen(command, env=environ, start_new_session=True) as process:
            try:
                status = process.wait(rng.uniform(0.5, 1.5) if kills < 8 else None)  # all units take 1.8 s at least
                break
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                kills += 1
    assert status == 0
    assert kills
    assert len(UNITS) <= len(list_begun(tmp_path)) <= len(UNITS) + CORES * kills


@pytest.mark.long
def test_a_build_stops_before_its_time_limit_and_goes_on(fatwheel: CommandLine, tmp_path: Path) -> None:
    sources = f'["binding.cpp", "kernel.cpp", *{[*UNITS]}]'
    setup = f'from setuptools import Extension, setup\nsetup(ext_modules=[Extension("demo", {sources})])\n'
    project = PROJECT.format(requires='"setuptools>=77"', backend="setuptools.build_meta")
    committed(write(tmp_path / "demo", {**SOURCES, **UNITS, "setup.py": setup, "pyproject.toml": project}))
    environ = {"PATH": make_slow(tmp_path, 5)["PATH"], "FATWHEEL_CACHE": str(tmp_path / "cache")}
    job, statuses = f"linux-cpu-cp{VERSION.replace('.', '')}", []
    while (not statuses or statuses[-1] == 3) and len(statuses) < 6:
        ran = fatwheel("build", "--job", job, "--out", "out", "--time-limit", "1", cwd=tmp_path / "demo", **environ)
        statuses.append(ran.status)
        assert ran.status == 0 or "compile units are in the store, from which the same command goes on" in ran.stderr
    assert statuses == [3] * (len(statuses) - 1) + [0]
    assert len(statuses) > 1
    assert len(list_begun(tmp_path)) == len(UNITS)
