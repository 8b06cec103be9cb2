from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import pytest

from ci_tools.errors import MachineError
from ci_tools.machine import runner
from ci_tools.machine.process import run
from ci_tools.model.request import NO_CARE, Care
from tests.builders.hosted_runner import GIB, HOSTED, Runner, make_runner
from tests.builders.sources import write

FACTS = runner._facts()  # noqa: SLF001 - the data file itself
FREE = Care(free_disk=True)


@pytest.fixture
def hosted(tmp_path: Path) -> Runner:
    return make_runner(tmp_path / "disk")


# ---------------------------------------------------------------- how many compilers


def has(cores: int, memory: float, swap: float = 0) -> runner.Machine:
    return runner.Machine(cores, int(memory * GIB), int(swap * GIB))


@pytest.mark.parametrize(
    ("machine", "job_memory", "most", "number", "reason"),
    [
        pytest.param(has(4, 15.6), 0, 0, 4, "", id="memory-not-named-is-one-per-core"),
        pytest.param(has(4, 15.6), 0, 16, 16, "", id="memory-not-named-is-as-many-as-said"),
        pytest.param(has(4, 15.6), 4, 0, 3,
                     "3 compilers at a time: 4 cores, 15.6 GiB of memory and 0.0 GiB of swap, 4 GiB for each",
                     id="a-hosted-runner"),
        pytest.param(has(4, 15.6, 16), 4, 0, 4,
                     "4 compilers at a time: 4 cores, 15.6 GiB of memory and 16.0 GiB of swap, 4 GiB for each",
                     id="with-swap"),
        pytest.param(has(64, 500), 4, 8, 8,
                     "8 compilers at a time: 64 cores, 500.0 GiB of memory and 0.0 GiB of swap, 4 GiB for each, "
                     "`max-jobs: 8`", id="never-over-max-jobs"),
        pytest.param(has(2, 500), 4, 8, 2,
                     "2 compilers at a time: 2 cores, 500.0 GiB of memory and 0.0 GiB of swap, 4 GiB for each, "
                     "`max-jobs: 8`", id="never-over-the-cores"),
        pytest.param(has(4, 4.0), 4, 0, 1,
                     "1 compiler at a time: 4 cores, 4.0 GiB of memory and 0.0 GiB of swap, 4 GiB for each",
                     id="just-enough-for-one"),
        pytest.param(has(4, 1.9, 1), 4, 0, 1,
                     "warning: 1.9 GiB of memory and 1.0 GiB of swap are less than the 4 GiB that one compiler takes "
                     "(`job-memory-gib`): one runs at a time, and may run out of memory", id="too-little-for-one"),
        pytest.param(runner.Machine(4, 0, 0), 4, 0, 4, "", id="memory-not-known"),
    ],
)  # fmt: skip
def test_compilers_are_as_many_as_memory_holds(
    machine: runner.Machine, job_memory: int, most: int, number: int, reason: str
) -> None:
    assert runner.compilers(machine, job_memory, most) == (number, reason)


@pytest.mark.parametrize(
    ("files", "memory", "swap"),
    [
        pytest.param({}, 16, 4, id="a-machine"),
        pytest.param({"sys/fs/cgroup/memory.max": "max\n"}, 16, 4, id="a-container-without-limits"),
        pytest.param({"sys/fs/cgroup/memory.max": f"{8 * GIB}\n", "sys/fs/cgroup/memory.swap.max": "0\n"}, 8, 0,
                     id="a-container-with-limits"),
        pytest.param({"sys/fs/cgroup/memory.max": f"{99 * GIB}\n"}, 16, 4, id="a-limit-above-what-there-is"),
    ],
)  # fmt: skip
def test_a_machine_has_what_it_or_its_container_has(
    tmp_path: Path, files: dict[str, str], memory: int, swap: int
) -> None:
    text = f"MemTotal:  {16 << 20} kB\nMemFree:  1 kB\nSwapTotal:  {4 << 20} kB\nHugePages_Total:  0\n"
    found = runner.machine(write(tmp_path, {"proc/meminfo": text, **files}))
    assert found == (os.cpu_count(), memory * GIB, swap * GIB)


V2 = {"proc/self/cgroup": "0::/jobs/mine\n", "sys/fs/cgroup/jobs/mine/memory.max": "max\n"}
V1 = {"proc/self/cgroup": "4:memory:/mine\n0::/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{1 << 62}\n"}
STAT = f"cache 1\ninactive_file {GIB // 2}\nactive_file {GIB // 2}\n"


@pytest.mark.parametrize(
    ("files", "total", "available"),
    [
        pytest.param({}, 16, 12, id="a-machine"),
        pytest.param({**V2, "sys/fs/cgroup/jobs/memory.max": f"{8 * GIB}\n",
                      "sys/fs/cgroup/jobs/memory.current": f"{6 * GIB}\n",
                      "sys/fs/cgroup/jobs/memory.stat": STAT}, 8, 3, id="a-limit-above-its-cgroup"),
        pytest.param({**V2, "sys/fs/cgroup/jobs/mine/memory.high": f"{4 * GIB}\n",
                      "sys/fs/cgroup/jobs/mine/memory.current": f"{5 * GIB}\n"}, 4, 0, id="over-its-limit"),
        pytest.param({**V1, "sys/fs/cgroup/memory/mine/memory.limit_in_bytes": f"{6 * GIB}\n",
                      "sys/fs/cgroup/memory/mine/memory.usage_in_bytes": f"{4 * GIB}\n",
                      "sys/fs/cgroup/memory/mine/memory.stat": f"{STAT}total_inactive_file {GIB}\n"}, 6, 3, id="v1"),
    ],
)  # fmt: skip
def test_memory_is_available_as_far_as_each_cgroup_allows(
    tmp_path: Path, files: dict[str, str], total: int, available: int
) -> None:
    sizes = {"MemTotal": 16, "MemAvailable": 12, "SwapTotal": 4, "SwapFree": 3}
    text = "".join(f"{name}:  {size << 20} kB\n" for name, size in sizes.items())
    found = runner.measure_memory(write(tmp_path, {"proc/meminfo": text, **files}))
    assert found == (total * GIB, available * GIB, GIB)


def test_a_kernel_without_swap_has_none(tmp_path: Path) -> None:
    found = runner.machine(write(tmp_path, {"proc/meminfo": f"MemTotal:  {1 << 20} kB\n"}))
    assert found == (os.cpu_count(), GIB, 0)


def test_this_machine_has_memory() -> None:
    assert runner.machine().memory > GIB // 4


# ---------------------------------------------------------------- where nothing is done


@pytest.mark.parametrize(
    ("care", "environ", "why"),
    [
        pytest.param(NO_CARE, {}, "its job asks for neither `free-disk` nor `swap-gib`", id="nothing-is-asked-for"),
        pytest.param(Care(job_memory_gib=4), {}, "its job asks for neither", id="only-memory-is-named"),
        pytest.param(FREE, {"RUNNER_ENVIRONMENT": "self-hosted"},
                     "it is not one of GitHub's own runners (RUNNER_ENVIRONMENT is self-hosted)", id="self-hosted"),
        pytest.param(FREE, {"RUNNER_ENVIRONMENT": ""},
                     "it is not one of GitHub's own runners (RUNNER_ENVIRONMENT is not set)", id="no-environment"),
        pytest.param(FREE, {"GITHUB_ACTIONS": ""}, "it is not one of GitHub's own runners", id="no-workflow"),
        pytest.param(FREE, {"ACT": "true"}, "it is not one of GitHub's own runners", id="act-on-ones-own-machine"),
        pytest.param(FREE, {"RUNNER_OS": "macOS"}, "it does not run Linux", id="macos"),
    ],
)  # fmt: skip
def test_a_machine_is_left_alone(hosted: Runner, care: Care, environ: dict[str, str], why: str) -> None:
    (said,) = hosted.prepare(care, **environ)
    assert said.startswith(f"nothing is done to this machine: {why}")
    assert hosted.recorder.commands == []


def test_a_container_is_left_alone(hosted: Runner) -> None:
    write(hosted.root, {".dockerenv": ""})
    assert hosted.prepare(FREE) == [
        "nothing is done to this machine: this is a container, and the disk and the swap are its host's"
    ]


def test_a_user_without_rights_is_told(hosted: Runner) -> None:
    hosted.recorder.failing = "true"
    with pytest.raises(MachineError, match="cannot be prepared: we are not root, and sudo does not let us be"):
        hosted.prepare(FREE)
    assert hosted.recorder.programs == ["true"]


def test_a_user_without_sudo_is_told(hosted: Runner, tmp_path: Path) -> None:
    def call(command: Sequence[str]) -> str:
        return str(run(["sudo-that-is-not-there", *command], log=tmp_path / "log").status)

    host = runner.Host(environ=HOSTED, say=hosted.said.append, call=call, root=hosted.root)
    with pytest.raises(MachineError, match="we are not root, and sudo-that-is-not-there cannot be started: there is"):
        runner.prepare(FREE, host)


# ---------------------------------------------------------------- the disk


def test_known_folders_are_removed_and_the_figures_told(hosted: Runner) -> None:
    free, removed = hosted.prepare(FREE)
    assert re.fullmatch(r"free disk: [\d.]+ GiB before, [\d.]+ GiB after", free)
    assert removed == "removed .NET (/usr/share/dotnet), Julia (/usr/local/julia1.11.2)"
    left = sorted(str(path.relative_to(hosted.root)) for path in hosted.root.rglob("*") if path.is_file())
    assert left == ["mnt/x", "proc/swaps"]


def test_a_second_run_removes_nothing(hosted: Runner) -> None:
    hosted.prepare(FREE)
    assert hosted.prepare(FREE)[-1] == "there was nothing to remove"


def test_a_link_is_not_followed(hosted: Runner, tmp_path: Path) -> None:
    write(tmp_path, {"mine/x": "x"})
    shutil.rmtree(hosted.root / "usr/share/dotnet")
    (hosted.root / "usr/share/dotnet").symlink_to(tmp_path / "mine")
    said = hosted.prepare(FREE)
    assert said[0] == f"/usr/share/dotnet stays: it is a link, or is reached through one, to {tmp_path}/mine"
    assert (tmp_path / "mine/x").exists()
    assert (hosted.root / "usr/share/dotnet").is_symlink()


def test_a_folder_behind_a_link_is_not_removed(hosted: Runner, tmp_path: Path) -> None:
    write(tmp_path, {"share/swift/x": "x"})
    shutil.rmtree(hosted.root / "usr/share")
    (hosted.root / "usr/share").symlink_to(tmp_path / "share")
    assert any(line.startswith("/usr/share/swift stays: it is a link") for line in hosted.prepare(FREE))
    assert (tmp_path / "share/swift/x").exists()


def test_what_this_run_needs_is_not_removed(hosted: Runner) -> None:
    home = hosted.root / "usr/share/dotnet/home"
    home.mkdir()
    assert hosted.prepare(FREE, HOME=str(home))[0] == f"/usr/share/dotnet stays: this run needs {home}"


def test_a_folder_that_cannot_be_removed_stays_and_is_told(hosted: Runner) -> None:
    hosted.recorder.failing = "rm"
    said = hosted.prepare(FREE)
    assert said[0] == "/usr/share/dotnet stays: it did not work"
    assert said[-1] == "there was nothing to remove"


@pytest.mark.parametrize("folder", FACTS["folder"], ids=lambda folder: folder["path"])
def test_a_known_folder_is_deep_and_no_home_of_python(folder: dict[str, str]) -> None:
    path = PurePosixPath(folder["path"])
    assert folder["what"]
    assert path.is_absolute()
    assert len(path.parts) > 2
    assert ".." not in path.parts
    assert "*" not in str(path.parent)
    assert not PurePosixPath("/opt/hostedtoolcache/Python").is_relative_to(path)


# ---------------------------------------------------------------- the rights
