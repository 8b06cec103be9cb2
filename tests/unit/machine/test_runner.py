from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from ci_tools import catalog
from ci_tools.cli.main import main
from ci_tools.config import loader
from ci_tools.errors import InputError, MachineError
from ci_tools.machine import runner
from ci_tools.machine.process import output, run
from ci_tools.model.request import HOSTED_MINUTES, NO_CARE, Care
from ci_tools.plan import plan_file, plan_reader
from tests.builders.sources import demo, plan_of, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_tools.model.plan import Plan

GIB = 1 << 30
HOSTED = {"GITHUB_ACTIONS": "true", "RUNNER_ENVIRONMENT": "github-hosted", "RUNNER_OS": "Linux"}
SWAPS = "Filename Type Size Used Priority\n/dev/sda2 partition 4194300 0 -2\n"
FACTS = runner._facts()  # noqa: SLF001 - the data file itself
FREE = Care(free_disk=True)


@dataclass
class Recorder:
    """Runs each command for real, but for those that only root on a machine of its own may run, and keeps it."""

    root: Path
    failing: str = ""
    commands: list[list[str]] = field(default_factory=list)

    def __call__(self, command: Sequence[str]) -> str:
        self.commands.append([part.replace(str(self.root), "") for part in command])
        if command[0] == self.failing:
            return "it did not work"
        if command[0] in {"swapon", "swapoff"}:
            return ""
        return "" if output(command) is not None else f"{command[0]} failed"

    @property
    def programs(self) -> list[str]:
        return [command[0] for command in self.commands]


@dataclass
class Runner:
    """A hosted runner: a folder tree as its disk, and what it said and ran."""

    root: Path
    said: list[str] = field(default_factory=list)
    recorder: Recorder = field(init=False)

    def __post_init__(self) -> None:
        self.recorder = Recorder(self.root)

    def prepare(self, care: Care, **environ: str) -> list[str]:
        """Prepare it, and return what it says now."""
        before = len(self.said)
        host = runner.Host(environ={**HOSTED, **environ}, say=self.said.append, call=self.recorder, root=self.root)
        runner.prepare(care, host)
        return self.said[before:]

    def swaps(self, gib: int) -> None:
        """Say in /proc/swaps that our own file is in use."""
        size = gib * (1 << 20) - 4
        write(self.root, {"proc/swaps": f"{SWAPS}{self.root}/mnt/fatwheel.swap   file\t\t{size}\t0\t-3\n"})


@pytest.fixture
def hosted(tmp_path: Path) -> Runner:
    """Return a runner with two of the known folders, one file behind each, and a disk at /mnt."""
    files = {"usr/share/dotnet/sdk/x": "x", "usr/local/julia1.11.2/bin/julia": "x", "mnt/x": "", "proc/swaps": SWAPS}
    return Runner(write(tmp_path / "disk", files))


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


def test_a_kernel_without_swap_has_none(tmp_path: Path) -> None:
    found = runner.machine(write(tmp_path, {"proc/meminfo": f"MemTotal:  {1 << 20} kB\n"}))
    assert found == (os.cpu_count(), GIB, 0)


def test_this_machine_has_memory() -> None:
    assert runner.machine().memory > GIB // 4


# ---------------------------------------------------------------- what the plan says

CONFIG = """\
package: demo
python: ["3.12"]
platforms:
  linux-cpu: { enabled: true, owner: me, swap-gib: 32 }
  linux-aarch64: { enabled: true, owner: me, runner: [self-hosted, arm], timeout-minutes: 900 }
  macos-arm64: { enabled: true, owner: me }
  windows:
build: { free-disk: true, swap-gib: 16, job-memory-gib: 4, timeout-minutes: 90 }
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(demo(tmp_path / "a", {"fatwheel.yml": CONFIG}))


@pytest.mark.parametrize(
    ("name", "care", "minutes"),
    [
        pytest.param("pure", NO_CARE, 90, id="the-pure-wheel-needs-nothing"),
        pytest.param(
            "linux-cpu-cp312", Care(free_disk=True, swap_gib=32, job_memory_gib=4), 90, id="its-own-goes-first"
        ),
        pytest.param("linux-aarch64-cp312", Care(job_memory_gib=4), 900, id="a-machine-of-ones-own"),
        pytest.param("macos-arm64-cp312", Care(job_memory_gib=4), 90, id="another-system"),
    ],
)
def test_the_plan_says_what_each_job_gets(plan: Plan, name: str, care: Care, minutes: int) -> None:
    job = next(job for job in plan.jobs if job.name == name)
    assert (job.care, job.minutes) == (care, minutes)
    row = next(row for row in plan_file.to_json(plan)["jobs"] if row["name"] == name)
    assert (row["care"], row["minutes"]) == (care._asdict(), minutes)


def test_a_plan_that_is_read_again_says_the_same(plan: Plan) -> None:
    again = plan_reader.plan_of(plan_file.to_json(plan))
    assert [(job.care, job.minutes) for job in again.jobs] == [(job.care, job.minutes) for job in plan.jobs]


def test_a_job_without_a_limit_of_its_own_gets_what_one_of_its_kind_takes(tmp_path: Path) -> None:
    cuda = "{ owner: me, native: ['*.cu'], cuda: ['13.0'], archs: ['9.0'] }"
    platforms = f"{{ linux-cuda: {cuda}, windows: {{ enabled: true, owner: me }}, linux-cpu: }}"
    text = f"package: demo\npython: ['3.12']\nplatforms: {platforms}\n"
    folder = demo(tmp_path / "a", {"fatwheel.yml": text, "k.cu": "int f;\n"})
    found = {job.name: job.minutes for job in plan_of(folder).jobs}
    known = catalog.load().minutes
    assert found == {"pure": known.pure, "linux-cuda-cu130-cp312": known.accelerator, "windows-cp312": known.native}
    assert known.pure < known.native < known.accelerator < HOSTED_MINUTES


def test_the_pure_job_is_never_longer_than_a_hosted_runner_lets_it(tmp_path: Path) -> None:
    text = "package: demo\npython: ['3.12']\nplatforms: {linux-cpu: {runner: big}}\nbuild: {timeout-minutes: 900}\n"
    assert [job.minutes for job in plan_of(demo(tmp_path / "a", {"fatwheel.yml": text})).jobs] == [360]


def test_several_jobs_get_what_any_of_them_needs(plan: Plan) -> None:
    assert runner.care_of(plan, ["sdist", "linux-aarch64-cp312", "pure"]) == Care(job_memory_gib=4)
    assert runner.care_of(plan, ["pure", "linux-cpu-cp312"]) == Care(free_disk=True, swap_gib=32, job_memory_gib=4)


def test_a_job_that_the_plan_has_not_is_refused(plan: Plan) -> None:
    with pytest.raises(InputError, match='the plan has no job "linux-cpu", did you mean "linux-cpu-cp312"'):
        runner.care_of(plan, ["linux-cpu"])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param("timeout-minutes: 90 }", "timeout-minutes: 361 }",
                     ["8:77: a hosted runner ends a job after 360 minutes, and builds linux-cpu, macos-arm64, windows"],
                     id="for-every-platform"),
        pytest.param("swap-gib: 32", "timeout-minutes: 361",
                     ["4:59: a hosted runner ends a job after 360 minutes, and builds linux-cpu: expected 360 or less"],
                     id="for-one-platform"),
        pytest.param("[self-hosted, arm]", "ubuntu-24.04-arm",
                     ["5:89: a hosted runner ends a job after 360 minutes, and builds linux-aarch64: expected 360"],
                     id="for-a-label-of-github"),
        pytest.param("swap-gib: 32", "swap-gib: 257",
                     ["4:52: 257 is not allowed, expected GiB of swap that a native job gets on a hosted Linux runner"],
                     id="more-swap-than-any-disk"),
        pytest.param("job-memory-gib: 4", "job-memory-gib: 0",
                     ["8:57: 0 is not allowed, expected GiB that one compiler takes at most, 1 to 1024"],
                     id="compilers-that-take-nothing"),
        pytest.param("free-disk: true", "free-disk: 40",
                     ["8:21: 40 is not allowed, expected true to remove, before a native job on a hosted Linux runner"],
                     id="a-size-to-free"),
    ],
)  # fmt: skip
def test_what_no_runner_can_give_is_refused(tmp_path: Path, old: str, new: str, expected: list[str]) -> None:
    assert old in CONFIG
    write(tmp_path, {"fatwheel.yml": CONFIG.replace(old, new)})
    with pytest.raises(InputError) as caught:
        loader.load(tmp_path / "fatwheel.yml", catalog.load())
    found = caught.value.message.replace(f"{tmp_path}/fatwheel.yml:", "").splitlines()
    assert [line[: len(start)] for line, start in zip(found, expected, strict=True)] == expected


@pytest.mark.parametrize(
    "old",
    [
        pytest.param("[self-hosted, arm]", id="self-hosted"),
        pytest.param("big-arm", id="a-label-that-is-not-known"),
        pytest.param("[self-hosted, ubuntu-24.04-arm]", id="self-hosted-that-is-called-like-a-hosted-one"),
        pytest.param("ubuntu-24.04-arm, enabled: false", id="switched-off"),
    ],
)
def test_a_machine_of_ones_own_may_take_longer(tmp_path: Path, old: str) -> None:
    text = CONFIG.replace("enabled: true, owner: me, runner: [self-hosted, arm]", f"owner: me, runner: {old}")
    write(tmp_path, {"fatwheel.yml": text})
    assert loader.load(tmp_path / "fatwheel.yml", catalog.load()).platforms[1].minutes == 900


@pytest.mark.parametrize("platform", sorted(catalog.load().platforms))
def test_the_runners_of_the_catalog_are_hosted(platform: str) -> None:
    assert runner.is_hosted([catalog.load().platforms[platform].runner])  # type: ignore[index]  # sorted as text


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


# ---------------------------------------------------------------- the swap

needs_mkswap = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not (shutil.which("mkswap") and shutil.which("fallocate")),
    reason="mkswap and fallocate come with util-linux",
)
needs_room = pytest.mark.skipif(
    shutil.disk_usage(Path(__file__)).free < 6 * GIB, reason="1 GiB of swap needs 5 GiB of free disk"
)


@needs_mkswap
@needs_room
def test_a_swap_file_is_made_whole_before_it_is_used(hosted: Runner) -> None:
    (said,) = hosted.prepare(Care(swap_gib=1))
    assert said.startswith(f"1 GiB of swap are in use: {hosted.root}/mnt/fatwheel.swap; the disk has ")
    made = hosted.root / "mnt/fatwheel.swap"
    assert (made.stat().st_size, made.stat().st_mode & 0o777) == (GIB, 0o600)
    with made.open("rb") as file:
        assert file.read(4096).endswith(b"SWAPSPACE2")
    assert hosted.recorder.commands[-2:] == [
        ["mv", "--", "/mnt/fatwheel.swap.partial", "/mnt/fatwheel.swap"],
        ["swapon", "/mnt/fatwheel.swap"],
    ]


def test_swap_that_is_in_use_is_not_made_again(hosted: Runner) -> None:
    hosted.swaps(16)
    assert hosted.prepare(Care(swap_gib=16)) == ["16 GiB of swap are in use already"]
    assert hosted.recorder.programs == ["true"]


@needs_mkswap
@needs_room
def test_swap_that_is_too_small_is_made_anew(hosted: Runner) -> None:
    write(hosted.root, {"proc/swaps": f"{SWAPS}{hosted.root}/mnt/fatwheel.swap file 1024 0 -3\n"})
    hosted.prepare(Care(swap_gib=1))
    assert hosted.recorder.commands[1] == ["swapoff", "/mnt/fatwheel.swap"]
    assert hosted.recorder.programs[-1] == "swapon"


@needs_mkswap
@needs_room
@pytest.mark.parametrize("name", ["fatwheel.swap.partial", "fatwheel.swap"])
def test_what_a_killed_run_left_is_never_used(hosted: Runner, name: str) -> None:
    write(hosted.root, {f"mnt/{name}": "half a swap file"})
    hosted.prepare(Care(swap_gib=1))
    assert hosted.recorder.commands[1] == ["rm", "-f", "--", f"/mnt/{name}"]
    assert sorted(path.name for path in (hosted.root / "mnt").iterdir()) == ["fatwheel.swap", "x"]


@needs_mkswap
@needs_room
@pytest.mark.parametrize("program", ["install", "fallocate", "mkswap", "mv", "swapon"])
def test_a_step_that_fails_leaves_nothing(hosted: Runner, program: str) -> None:
    hosted.recorder.failing = program
    with pytest.raises(MachineError, match=f"no swap could be made: `{program} .*` failed: it did not work"):
        hosted.prepare(Care(swap_gib=1))
    assert [path.name for path in (hosted.root / "mnt").iterdir()] == ["x"]


@needs_room
def test_a_kill_leaves_nothing(hosted: Runner) -> None:
    def killed(command: Sequence[str]) -> str:
        if command[0] == "mkswap":
            raise KeyboardInterrupt
        return hosted.recorder(command)

    host = runner.Host(environ=HOSTED, say=hosted.said.append, call=killed, root=hosted.root)
    with pytest.raises(KeyboardInterrupt):
        runner.prepare(Care(swap_gib=1), host)
    assert [path.name for path in (hosted.root / "mnt").iterdir()] == ["x"]


def test_a_kernel_without_swap_is_told(hosted: Runner) -> None:
    (hosted.root / "proc/swaps").unlink()
    with pytest.raises(MachineError, match=r"there is no .*/proc/swaps, so its kernel knows none"):
        hosted.prepare(Care(swap_gib=1))


def test_a_disk_that_would_not_hold_the_swap_is_told(hosted: Runner) -> None:
    with pytest.raises(MachineError, match=r"no disk holds 1000000 GiB of swap with 4.0 GiB left for the build: free"):
        hosted.prepare(Care(swap_gib=1_000_000))
    assert hosted.recorder.programs == ["true"]


# ---------------------------------------------------------------- the verb


def test_the_verb_says_that_it_leaves_this_machine_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.delenv("RUNNER_ENVIRONMENT", raising=False)
    (tmp_path / "plan.json").write_text(plan_file.dumps(plan_of(demo(tmp_path / "a", {"fatwheel.yml": CONFIG}))))
    assert main(["ci", "prepare", "--plan", str(tmp_path / "plan.json"), "--job", "linux-cpu-cp312"]) == 0
    out, err = capsys.readouterr()
    assert (out, " ".join(err.split())) == (
        "",
        "nothing is done to this machine: it is not one of GitHub's own runners (RUNNER_ENVIRONMENT is not set)",
    )


def test_the_verb_refuses_a_job_that_the_plan_has_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.json").write_text(plan_file.dumps(plan_of(demo(tmp_path / "a", {"fatwheel.yml": CONFIG}))))
    assert main(["ci", "prepare", "--plan", str(tmp_path / "plan.json"), "--job", "sdist,linux"]) == 2
    assert capsys.readouterr().err.startswith('fatwheel: the plan has no job "linux"')


def test_with_rights_a_command_says_why_it_failed(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("another user's sudo may ask for a password")
    call = runner.make_root_call(tmp_path / "log")
    assert (call(["true"]), call(["false"])) == ("", "status 1")
    assert call(["sh", "-c", "echo no >&2; exit 3"]) == "no"
