"""What bash and shellcheck find in the `run:` of every step, each at the line of its file."""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.workflows import rules

SHELLS = ("bash", "sh")


def findings(files: rules.Project) -> Iterator[rules.Finding]:
    """Yield what is wrong with the commands of some files; raise FileNotFoundError without shellcheck."""
    for file in files.values():
        for step in file.steps:
            shell = _shell(file, step)
            if "run" in step.value and shell in SHELLS:
                yield from _in_command(file, (*step.keys, "run"), step.value["run"], shell)


def _shell(file: rules.File, step: rules.Step) -> str:
    """Return what runs a step: by its own word, its job's or its file's; a shell with options is the same shell."""
    job = file.jobs[str(step.keys[1])] if step.keys[0] == "jobs" else {}
    defaults = (place.get("defaults", {}).get("run", {}).get("shell") for place in (job, file.value))
    return next(filter(None, (step.value.get("shell"), *defaults)), "bash").split()[0]


def _in_command(file: rules.File, keys: rules.Keys, command: str, shell: str) -> Iterator[rules.Finding]:
    checked = subprocess.run([shell, "-n"], input=command, capture_output=True, text=True, check=False)
    if checked.returncode:
        yield file.finding(keys, f"{shell} cannot read it: {checked.stderr.strip().splitlines()[-1]}")
    for one in _shellcheck(command, shell):
        yield file.finding(keys, f"shellcheck: {one['message']} (SC{one['code']})")


def _shellcheck(command: str, shell: str) -> list[dict[str, Any]]:
    name = program()
    if name is None:
        msg = "shellcheck"
        raise FileNotFoundError(msg)
    asked = [name, "--norc", f"--shell={shell}", "--format=json", "-"]
    done = subprocess.run(asked, input=command, capture_output=True, text=True, check=False)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def program() -> str | None:
    """Return the path of shellcheck, the one beside this Python first; None where there is none."""
    return shutil.which("shellcheck", path=sysconfig.get_path("scripts")) or shutil.which("shellcheck")
