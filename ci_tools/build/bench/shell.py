"""One build in progress: its folder, its PATH, the commands that run there, and the causes of their failures."""

from __future__ import annotations

import math
import os
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple

from ci_tools.build.bench.copies import Copies
from ci_tools.build.toolchain import TORCH_INCLUDE
from ci_tools.catalog.failures import BUILD, INSTALL, explain
from ci_tools.errors import FatwheelError, Rejected, TimedOut
from ci_tools.machine.process import run, tail
from ci_tools.machine.python import Environment
from ci_tools.model import edition as editions
from ci_tools.model.plan import Plan
from ci_tools.model.request import Hook
from ci_tools.source.files import Tree

FEW = 12  # last lines of a log whose cause is known


class Bench(NamedTuple):
    """One build in progress: its plan, its source, its folder, its log and its time limit."""

    plan: Plan
    tree: Tree
    scratch: Path
    log: Path
    minutes: int  # the time limit of all its commands together
    copies: Copies
    deadline: float = math.inf  # of the commands, in the seconds of time.monotonic

    @property
    def torch_headers(self) -> Path:
        """The folder that the build finds torch's headers in."""
        return self.scratch / TORCH_INCLUDE.lower()

    @property
    def source(self) -> Path:
        """The copy of the source that the build sees."""
        return self.scratch / "source" / self.tree.prefix


class Shell(NamedTuple):
    """Runs the commands of one build in its environment, with output to the log, before one deadline."""

    isolated: Environment
    bench: Bench
    deadline: float  # in the seconds of time.monotonic
    told: Mapping[str, str] = {}  # variables of the project's own commands, not of requirements that pip builds

    def run(self, cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None) -> None:
        """Run a hook of the backend (the runner interface of pyproject_hooks)."""
        self.run_with_variables("the build", cmd, Path(cwd or self.bench.source), extra_environ or {})

    def run_hooks(self, key: str, hooks: Sequence[Hook], **told: str) -> None:
        """Run the config's own commands in the source's root, each with the variables in `told`."""
        for hook in hooks:
            what = f"{key} ({hook.where})"
            self.run_with_variables(what, _resolve_command(hook.run, what, self), self.bench.source, told)

    def run_with_variables(self, what: str, command: Sequence[str], cwd: Path, told: Mapping[str, str]) -> None:
        """Run one command; raise Rejected with the last lines of the log if it fails or reaches the deadline."""
        plan = self.bench.plan
        version = editions.variables(plan.project, plan.edition, plan.request.version, plan.pins.commit)  # not pip's
        variables = {**self.isolated.variables, **self.told, **version, **told}
        left = max(self.deadline - time.monotonic(), 1)
        ended = run(command, log=self.bench.log, cwd=cwd, env=variables, timeout=left)
        if ended.status:
            if ended.timed_out:
                msg = (
                    f"{what} took over {self.bench.minutes} minutes; the last lines of {ended.log}:\n{tail(ended.log)}"
                )
                raise TimedOut(msg, hint="`timeout-minutes` in the config allows more")
            end = f"{what} failed{f' ({ended.signal})' if ended.signal else ''}"
            raise build_error(ended.log, end, ended.start, self.bench.source)


def _resolve_command(command: str, what: str, shell: Shell) -> list[str]:
    """Return a command's words with its program's path: in the source, the build's environment or the machine."""
    program, *rest = shlex.split(command)
    own = shell.bench.source / program
    path = str(own) if "/" in program else shutil.which(program, path=shell.isolated.variables["PATH"])
    if path is None:
        msg = f"{what} cannot be started: there is no command {program}"
        raise Rejected(msg, hint="name the program that runs a script: `bash packaging/prepare.sh`")
    if "/" in program and not os.access(own, os.X_OK):  # a program on PATH was found because it can be run
        msg = f"{what} cannot be started: {program} is not executable"
        raise Rejected(msg, hint=f"`git update-index --chmod=+x {program}`, or run it by `bash` or `python`")
    return [path, *rest]


def run_after(wheel: Path, shell: Shell) -> None:
    """Run the config's `build.after` commands on a wheel; they may change the file, but not remove or rename it."""
    hooks = shell.bench.plan.request.build.after
    shell.run_hooks("build.after", hooks, FATWHEEL_WHEEL=str(wheel))
    if not wheel.is_file():
        msg = f"build.after ({hooks[-1].where}) left no {wheel.name}, expected the wheel where it was"
        raise Rejected(msg, hint=f"log: {shell.bench.log}")


def build_error(log: Path, what: str, start: int = 0, source: Path | None = None) -> Rejected:
    """Return the error of a failed build, whose output is in the log from the byte `start` on.

    With a known cause: the cause, the line that shows it, with paths relative to `source`, and a hint.
    """
    content = log.read_bytes()
    before, output = (part.decode(errors="replace") for part in (content[:start], content[start:]))
    found = explain(output)
    if found is None:
        return Rejected(f"{what}; the last lines of {log}:\n{tail(log, start=start)}")
    says, quote = (text.replace(f"{source}/", "") for text in (found.says, found.quote))
    place = f"line {before.count(chr(10)) + found.line} of {log}, whose last lines are:"
    shown = "\n".join(f"  {line}" for line in (*quote.splitlines(), place))
    message = f"{what}: {says}\n{shown}\n{tail(log, FEW, start)}"
    return Rejected(message, hint=found.hint, page=found.page)


def add_cause(error: FatwheelError) -> FatwheelError:
    """Return an error of an installer or of a backend's start, with the cause that its own words show, if known."""
    found = explain(error.message, INSTALL) or explain(error.message, BUILD)
    if found and not error.hint:  # the error's own hint knows more
        error.hint, error.page = f"{found.says}: {found.hint}", found.page
    return error


def search_path(path: str, shadows: Path, hidden: AbstractSet[str]) -> str:
    """Return a PATH without the programs of some names: a folder that has one is replaced by links to its others.

    A folder that is on PATH under several names, as /bin and /usr/bin often are, is replaced once. One that this user
    may not read stays: nobody finds a program there.
    """
    folders = [Path(folder) for folder in path.split(os.pathsep) if folder]
    places: dict[Path, Path] = {}
    for number, folder in enumerate(folders):
        if any(os.access(folder / name, os.F_OK) for name in hidden) and folder.resolve() not in places:
            places[folder.resolve()] = _hide(folder, shadows / str(number), hidden)
    return os.pathsep.join(str(places.get(folder.resolve(), folder)) for folder in folders)


def _hide(folder: Path, shadow: Path, hidden: AbstractSet[str]) -> Path:
    shadow.mkdir(parents=True, exist_ok=True)
    with os.scandir(folder) as programs:
        for program in programs:
            if program.name.lower() not in hidden:
                _stand_in(program, f"{shadow}{os.sep}{program.name}")
    return shadow


def _stand_in(program: os.DirEntry[str], place: str) -> None:
    """Make a link to a program; a copy where links are not allowed, as they are not to every user of Windows.

    There are a thousand in a folder, so these are names: to make a Path of one takes half as long as its link.
    """
    try:
        os.symlink(program.path, place)  # noqa: PTH211 - see above
    except OSError:
        if program.is_file():
            shutil.copy2(program.path, place)
