"""What bash and shellcheck find in the `run:` of every step, each at the line of its file."""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.workflows import rules

SHELLS = ("bash", "sh")


class Command(NamedTuple):
    """What a step runs: many steps run the same."""

    text: str
    shell: str


def findings(files: rules.Project) -> Iterator[rules.Finding]:
    """Yield what is wrong with the commands of some files; raise FileNotFoundError without shellcheck."""
    places = [
        (file, (*step.keys, "run"), Command(step.value["run"], shell))
        for file in files.values()
        for step in file.steps
        if "run" in step.value and (shell := _shell(file, step)) in SHELLS
    ]
    wrong = _faults({command for _, _, command in places})
    return (file.finding(keys, fault) for file, keys, command in places for fault in wrong[command])


def _shell(file: rules.File, step: rules.WorkflowStep) -> str:
    """Return what runs a step: by its own word, its job's or its file's; a shell with options is the same shell."""
    job = file.jobs[str(step.keys[1])] if step.keys[0] == "jobs" else {}
    defaults = (place.get("defaults", {}).get("run", {}).get("shell") for place in (job, file.value))
    return next(filter(None, (step.value.get("shell"), *defaults)), "bash").split()[0]


def _faults(commands: Collection[Command]) -> dict[Command, list[str]]:
    """Return what bash and shellcheck find in each of some commands: shellcheck starts once for all of a shell."""
    found = {command: list(_unreadable(command)) for command in commands}
    for shell in SHELLS:
        for command, fault in _shellcheck([command for command in commands if command.shell == shell], shell):
            found[command].append(fault)
    return found


def _unreadable(command: Command) -> Iterator[str]:
    checked = subprocess.run([command.shell, "-n"], input=command.text, capture_output=True, text=True, check=False)
    if checked.returncode:
        yield f"{command.shell} cannot read it: {checked.stderr.strip().splitlines()[-1]}"


def _shellcheck(commands: Sequence[Command], shell: str) -> Iterator[tuple[Command, str]]:
    name = program()
    if name is None:
        raise FileNotFoundError("shellcheck")
    with tempfile.TemporaryDirectory() as folder:
        paths = {str(Path(folder, str(number))): command for number, command in enumerate(commands)}
        for path, command in paths.items():
            Path(path).write_text(command.text, encoding="utf-8")
        asked = [name, "--norc", f"--shell={shell}", "--format=json", *paths]
        done = subprocess.run(asked, capture_output=True, text=True, check=False) if paths else None
    for one in json.loads(done.stdout) if done else ():
        yield paths[one["file"]], f"shellcheck: {one['message']} (SC{one['code']})"


def program() -> str | None:
    """Return the path of shellcheck, the one beside this Python first; None where there is none."""
    return shutil.which("shellcheck", path=sysconfig.get_path("scripts")) or shutil.which("shellcheck")
