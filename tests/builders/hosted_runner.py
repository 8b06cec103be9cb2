"""A hosted runner for tests: a folder tree as its disk, and a record of the commands that prepare it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ci_tools.machine import runner
from ci_tools.machine.process import output
from ci_tools.model.request import Care
from tests.builders.sources import write

GIB = 1 << 30


HOSTED = {"GITHUB_ACTIONS": "true", "RUNNER_ENVIRONMENT": "github-hosted", "RUNNER_OS": "Linux"}


SWAPS = "Filename Type Size Used Priority\n/dev/sda2 partition 4194300 0 -2\n"


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


def make_runner(disk: Path) -> Runner:
    """Return a runner with two of the known folders, one file behind each, and a disk at /mnt."""
    files = {"usr/share/dotnet/sdk/x": "x", "usr/local/julia1.11.2/bin/julia": "x", "mnt/x": "", "proc/swaps": SWAPS}
    return Runner(write(disk, files))
