"""A small project from fatwheel.yml to an installed wheel, and everything that can go wrong on the way."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.builders import own_backend
from tests.integration.conftest import REPOSITORY, CommandLine, Ran, write_project

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("builds_beside_tests")]

NO_NETWORK = {
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_EXTRA_INDEX_URL": "",
    "PIP_FIND_LINKS": "",
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_NO_CACHE_DIR": "1",
    "PIP_RETRIES": "0",
}


def release(fatwheel: CommandLine, project: Path, *more: str, **env: str) -> Ran:
    return fatwheel("release", "--to", "dir:dist/index", *more, cwd=project, **env)


class First(NamedTuple):
    """A project that was released once, and what the release printed."""

    project: Path
    ran: Ran

    def copy_to(self, folder: Path) -> Path:
        """Return a copy, for a test that changes it."""
        return Path(shutil.copytree(self.project, folder / "copy"))


@pytest.fixture(scope="module", params=["uv"])
def first(request: pytest.FixtureRequest, fatwheel: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> First:
    project = write_project(tmp_path_factory.mktemp("first") / "tiny")
    return First(project, release(fatwheel, project, FATWHEEL_INSTALLER=request.param))


@pytest.mark.parametrize("first", ["uv", "pip"], indirect=True)
def test_release_goes_all_the_way_and_prints_how_to_install(first: First) -> None:
    ran, index = first.ran, first.project / "dist/index"
    assert ran.status == 0, ran.stderr
    assert ran.stdout.rstrip().endswith(f"pip install --extra-index-url {(index / 'cpu').as_uri()} tiny==1.0")
    assert "nvidia-smi" in ran.stdout.split("not exercised")[-1]
    assert {path.name for path in index.iterdir()} >= {"tiny-1.0-py3-none-any.whl", "tiny-1.0.tar.gz"}


def test_a_second_release_builds_and_installs_nothing(fatwheel: CommandLine, first: First) -> None:
    before = {path: path.stat().st_mtime_ns for path in (first.project / "dist/index").rglob("*.whl")}
    again = release(fatwheel, first.project, **NO_NETWORK)
    assert again.status == 0, again.stderr
    assert "nothing was built" in again.stdout
    assert {path: path.stat().st_mtime_ns for path in (first.project / "dist/index").rglob("*.whl")} == before != {}


def test_a_change_builds_again_and_needs_replace_under_the_same_version(
    fatwheel: CommandLine, first: First, tmp_path: Path
) -> None:
    project = first.copy_to(tmp_path)
    with (project / "tiny/__init__.py").open("a") as file:
        file.write("# more\n")
    refused = release(fatwheel, project)
    assert (refused.status, "raise the version" in refused.stderr) == (2, True)
    assert release(fatwheel, project, "--replace").status == 0


@pytest.mark.long
def test_a_native_wheel_is_for_this_python_alone(fatwheel: CommandLine, native_project: Path) -> None:
    ran = release(fatwheel, native_project)
    assert ran.status == 0, ran.stderr
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert [path.name for path in (native_project / "dist/index/cpu").glob("*.whl")] == [
        f"tiny-1.0-{tag}-{tag}-linux_x86_64.whl"
    ]


def test_a_compile_error_shows_the_last_lines_and_the_log(fatwheel: CommandLine, native_project: Path) -> None:
    (native_project / "fast.cpp").write_text("this is not C++\n")
    ran = release(fatwheel, native_project)
    assert ran.status == 1
    assert "error:" in ran.stderr
    assert "dist/logs/linux-cpu-" in ran.stderr
    assert not list((native_project / "dist").glob("*linux*.whl"))


def test_a_name_that_the_newer_standard_library_has_as_well_gets_a_hint(
    fatwheel: CommandLine, native_project: Path
) -> None:
    """As nerfacc's lerp: C++20 has one in <cmath>, and the headers of C let it in."""
    library = "namespace library { float lerp(float); }\nusing library::lerp;\n"
    (native_project / "fast.cpp").write_text(f"{library}float lerp(float a) {{ return a; }}\n")
    ran = release(fatwheel, native_project)
    assert (ran.status, "-std=c++17" in ran.stderr) == (1, True), ran.stderr
    assert "looks after" not in ran.stderr  # who runs this is not on GitHub


@pytest.mark.long
def test_a_wheel_that_needs_a_newer_system_than_its_tag_says_fails(fatwheel: CommandLine, native_project: Path) -> None:
    config = native_project / "fatwheel.yml"
    config.write_text(config.read_text().replace("wheel-platform: linux", "wheel-platform: manylinux_2_5"))
    with (native_project / "fast.cpp").open("a") as file:
        file.write('#include <thread>\nextern "C" void wait() { std::thread([] {}).join(); }\n')
    ran = release(fatwheel, native_project)
    assert (ran.status, "does not keep to manylinux_2_5_x86_64, but to manylinux_2_" in ran.stderr) == (1, True)
    hint = r"hint: write `wheel-platform: manylinux_2_\d+` at linux-cpu, or build where the glibc is"
    assert re.search(hint, ran.stderr)


@pytest.mark.long
@pytest.mark.parametrize("to", ["> run.log 2>&1", "2>&1 | tee run.log", "2> run.log | cat"])
def test_a_log_in_the_project_is_no_change_of_its_source(to: str, project: Path) -> None:
    line = f'"$0" -m ci_tools release --to dir:dist/index {to}; test "${{PIPESTATUS[0]}}" = 0'
    for _ in range(2):  # the second time the log is there already
        subprocess.run(
            ["bash", "-c", line, sys.executable],
            cwd=project,
            check=True,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )
    names = subprocess.check_output(["tar", "-tzf", next(project.glob("dist/*.tar.gz"))], text=True)
    assert "run.log" not in names


def test_a_build_that_compiles_nothing_is_not_taken_for_the_planned_native_wheel(
    fatwheel: CommandLine, project: Path
) -> None:
    (project / "fast.cpp").write_text("int never_compiled;\n")
    ran = release(fatwheel, project)
    said = "compiled nothing: it made tiny-1.0-py3-none-any.whl, expected tiny-1.0-cp"
    assert (ran.status, said in ran.stderr) == (1, True)


def test_a_failed_import_publishes_nothing(fatwheel: CommandLine, project: Path) -> None:
    (project / "tiny/__init__.py").write_text('"""Tiny."""\n\nimport nowhere_to_be_found\n')
    ran = release(fatwheel, project)
    assert ran.status == 1
    assert "No module named 'nowhere_to_be_found'" in ran.stderr
    assert "validate: {requires: [nowhere-to-be-found]}" in ran.stderr
    assert not (project / "dist/index").exists()


def test_a_command_that_hangs_is_ended(fatwheel: CommandLine, project: Path) -> None:
    config = project / "fatwheel.yml"
    config.write_text(
        config.read_text().replace("    - {run: nvidia-smi, needs-gpu: true}", "    - sleep 600\n  timeout-seconds: 1")
    )
    ran = release(fatwheel, project)
    assert (ran.status, "took over 1 seconds" in ran.stderr) == (1, True)


def test_without_network_it_says_so_and_a_retry_goes_on(fatwheel: CommandLine, project: Path) -> None:
    ran = release(fatwheel, project, **NO_NETWORK)
    assert (ran.status, "check the network" in ran.stderr) == (3, True)
    assert fatwheel("build", "--job", "pure", "--out", "dist", cwd=project).status == 0


def test_a_full_disk_is_said_and_a_retry_goes_on(fatwheel: CommandLine, project: Path) -> None:
    limited = f"ulimit -f 8; exec {sys.executable} -m ci_tools release --to dir:dist/index"
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(["bash", "-c", limited], cwd=project, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode in {1, 3}, "Traceback" in done.stderr.split("the last lines")[0]) == (True, False), (
        done.stderr
    )
    assert release(fatwheel, project).status == 0


@pytest.mark.parametrize(
    "how", [signal.SIGKILL, *(pytest.param(how, marks=pytest.mark.long) for how in (signal.SIGTERM, signal.SIGINT))]
)
def test_a_killed_build_leaves_no_process_and_a_retry_finishes(
    fatwheel: CommandLine, native_project: Path, how: signal.Signals
) -> None:
    (native_project / "fast.cpp").write_text("#include <Python.h>\n" + SLOW_SOURCE)
    command = [sys.executable, "-m", "ci_tools", "release", "--to", "dir:dist/index"]
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(
        command, cwd=native_project, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        wait_for_compiler()
        process.send_signal(how)
    wait_until_no_compiler()
    (native_project / "fast.cpp").write_text(own_backend.CODE)
    job = f"linux-cpu-cp{sys.version_info.major}{sys.version_info.minor}"
    assert fatwheel("build", "--job", job, "--out", "dist", cwd=native_project).status == 0


SLOW_SOURCE = """
template <int N> struct Slow { static constexpr long value = Slow<N - 1>::value + Slow<N - 1>::value % 7; };
template <> struct Slow<0> { static constexpr long value = 1; };
#define A(n) long slow_##n() { return n; }
#include <regex>
#include <random>
#include <iostream>
std::regex make(const char* text) { return std::regex(text); }
"""


BUILT_IN = "fatwheel-build-tiny"  # of the path of a build of this project


def compilers() -> list[str]:
    return [line for line in map(command_line, Path("/proc").glob("[0-9]*")) if "cc1plus" in line and BUILT_IN in line]


def command_line(process: Path) -> str:
    """Return the command line of a process; "" of one that has ended, waited for or not."""
    with suppress(OSError):
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def wait_for_compiler() -> None:
    deadline = time.monotonic() + 60
    while not compilers():
        assert time.monotonic() < deadline, "no compiler was started"
        time.sleep(0.05)


def wait_until_no_compiler() -> None:
    deadline = time.monotonic() + 5
    while compilers():
        assert time.monotonic() < deadline, compilers()
        time.sleep(0.05)


def test_two_releases_at_once_both_finish(fatwheel: CommandLine, project: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(release, fatwheel, project) for _ in range(2)]
        both = [each.result() for each in running]
    assert [ran.status for ran in both] == [0, 0], [ran.stderr for ran in both]


def test_what_is_left_for_another_machine_stops_it_unless_here(fatwheel: CommandLine, native_project: Path) -> None:
    config = native_project / "fatwheel.yml"
    config.write_text(config.read_text() + "\n")
    config.write_text(
        config.read_text().replace("  linux-cpu:", "  macos-arm64: {owner: us, native: ['*.cpp']}\n  linux-cpu:")
    )
    refused = release(fatwheel, native_project)
    assert refused.status == 3
    assert "macos-arm64 wheels are built on macos-arm64" in refused.stderr
    assert not list((native_project / "dist").glob("*.whl"))
    gone_on = release(fatwheel, native_project, "--here")
    assert (gone_on.status, "left for another machine" in gone_on.stdout) == (0, True)


def test_a_plan_pins_what_is_built(fatwheel: CommandLine, project: Path) -> None:
    fatwheel("plan", "--out", "plan.json", cwd=project)
    (project / ".gitignore").write_text("plan.json\n")
    job = ("build", "--plan", "plan.json", "--job", "pure", "--out", "out")
    assert "plan.pins.source_sha256" in fatwheel(*job, cwd=project).stderr
    (project / ".gitignore").unlink()
    (project / "plan.json").rename(project.parent / "plan.json")
    ran = fatwheel("build", "--plan", "../plan.json", "--job", "pure", "--out", "../out", cwd=project)
    assert (ran.status, ran.stdout) == (0, "../out/tiny-1.0-py3-none-any.whl\n")


def _errors(stdout: str) -> list[str]:
    return [found["rule"] for found in json.loads(stdout) if found["level"] == "error"]


def test_publish_refuses_what_has_changed_since_it_was_built(
    fatwheel: CommandLine, first: First, tmp_path: Path
) -> None:
    project = first.copy_to(tmp_path)
    with zipfile.ZipFile(project / "dist/tiny-1.0-py3-none-any.whl", "a") as wheel:
        wheel.writestr("tiny/more.py", "")
    ran = fatwheel("publish", "dist", "--to", "dir:elsewhere", cwd=project)
    assert (ran.status, "has no receipt of its present bytes" in ran.stderr) == (2, True)
    audited = fatwheel("audit", "dist/tiny-1.0-py3-none-any.whl", "--format", "json", cwd=project)
    assert (audited.status, _errors(audited.stdout)) == (1, ["record"])


def test_publish_takes_what_a_release_made(fatwheel: CommandLine, first: First, tmp_path: Path) -> None:
    project = first.copy_to(tmp_path)
    audited = fatwheel("audit", "dist/tiny-1.0-py3-none-any.whl", cwd=project)  # without its plan
    ran = fatwheel("publish", "dist", "--to", "dir:elsewhere", cwd=project)
    assert (audited.status, ran.status) == (0, 0), ran.stderr
    assert {path.name for path in (project / "elsewhere").iterdir()} >= {"tiny-1.0-py3-none-any.whl", "tiny-1.0.tar.gz"}


def test_validate_without_a_config_imports_what_the_wheel_installs(
    fatwheel: CommandLine, first: First, tmp_path: Path
) -> None:
    ran = fatwheel("validate", "dist/tiny-1.0-py3-none-any.whl", cwd=first.copy_to(tmp_path))
    assert (ran.status, "import tiny" in ran.stdout) == (0, True)


@pytest.mark.long
def test_a_manylinux2014_wheel_carries_both_names_of_its_level(fatwheel: CommandLine, native_project: Path) -> None:
    config = native_project / "fatwheel.yml"
    config.write_text(config.read_text().replace("wheel-platform: linux", "wheel-platform: manylinux_2_17"))
    ran = release(fatwheel, native_project)
    assert ran.status == 0, ran.stderr
    assert "-manylinux2014_x86_64.manylinux_2_17_x86_64.whl" in ran.stdout


def test_a_build_that_needs_torch_gets_the_jobs_own(fatwheel: CommandLine, native_project: Path) -> None:
    pyproject = native_project / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace("requires = []", 'requires = ["torch"]'))
    (native_project / "fast.cpp").write_text("#include <torch/extension.h>\n")
    config = native_project / "fatwheel.yml"
    config.write_text(config.read_text() + 'torch: ["2.10"]\n')
    (native_project / "pins.txt").write_text("torch==2.13.0\n")
    config.write_text(config.read_text() + "build: {constraints: pins.txt}\n")
    ran = release(fatwheel, native_project)
    assert (ran.status, "there is no torch==2.10.*,==2.13.0 for Linux" in ran.stderr) == (2, True), ran.stderr


def test_of_several_jobs_one_that_fails_stops_no_other_and_is_tried_nowhere(
    fatwheel: CommandLine, project: Path
) -> None:
    with (project / "fatwheel.yml").open("a") as file:
        file.write("build: { before: ['false'] }\n")
    ran = fatwheel("build", "--job", "pure,sdist", "--out", "dist", "--keep-going", cwd=project)
    assert (ran.status, "build.before (fatwheel.yml:13) failed" in ran.stderr) == (1, True), ran.stderr
    assert {path.name for path in (project / "dist/receipts").iterdir()} == {"tiny-1.0.tar.gz.json"}
    chosen = fatwheel("ci", "trials", "dist", "--plan", "dist/plan.json", cwd=project)
    assert (chosen.status, chosen.stdout) == (0, 'any=false\nsites={"include":[]}\n')
    assert "there is no wheel of pure, so none of its trials is started" in chosen.stderr


def test_several_sites_of_a_plan_are_tried_in_turn(fatwheel: CommandLine, project: Path) -> None:
    assert fatwheel("build", "--job", "pure,sdist", "--out", "dist", "--keep-going", cwd=project).status == 0
    ran = fatwheel("validate", "--plan", "dist/plan.json", "--site", "0", "--site", "1", cwd=project)
    assert (ran.status, ran.stdout.count("passed") > 2) == (0, True), ran.stderr
    receipts = [json.loads(path.read_text()) for path in sorted((project / "dist/receipts").iterdir())]
    assert {receipt["file"]: len(receipt["validated"]) for receipt in receipts} == {
        "tiny-1.0-py3-none-any.whl": 1,
        "tiny-1.0.tar.gz": 1,
    }
    refused = fatwheel("validate", "--plan", "dist/plan.json", "--site", "7", cwd=project)
    assert (refused.status, 'the plan has no site "7"' in refused.stderr) == (2, True)


def test_a_changed_source_of_a_version_that_is_there_is_refused_before_anything_is_compiled(
    fatwheel: CommandLine, native_project: Path, first: First
) -> None:
    shutil.copytree(first.project / "dist/index", native_project.parent / "index")
    with (native_project / "fast.cpp").open("a") as file:
        file.write("this is not C++\n")
    command = ("release", "--to", "dir:../index")
    refused = fatwheel(*command, cwd=native_project)
    assert (refused.status, "raise the version" in refused.stderr, "build tiny-1.0-cp" in refused.stderr) == (
        2,
        True,
        False,
    ), refused.stderr
    assert "error:" in fatwheel(*command, "--replace", cwd=native_project).stderr  # the compiler's
