"""Finds the scripts of a source that its config's commands run, and checks that the source has them."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from ci_tools.errors import Problem, RejectedInput, close_names, nearest
from ci_tools.model.request import Build, Request

ENDINGS = (".sh", ".py")
INTERPRETERS = frozenset({"bash", "python", "python3", "sh"})
MAX_NAMED = 8  # scripts named in a message if none has a name like the missing one


def script_of(command: str) -> str:
    """Return the script of the source that a command runs, as a path below its root, judged by its words.

    It is the first word if that is a path, or the file that a shell or Python is given to run. Returns "" if the
    command runs a program of the machine, or the words do not show what it runs.
    """
    word, *rest = shlex.split(command)
    if posixpath.basename(word) in INTERPRETERS:
        word = next(iter(rest), "")
        is_script = word.endswith(ENDINGS)
    else:
        is_script = "/" in word or word.endswith(ENDINGS)  # as a shell decides between a path and a name to look up
    return posixpath.normpath(word) if is_script and not word.startswith(("-", "/")) else ""


def explain_wrong(text: str) -> str:
    """Return why a text is not a valid shell command, or "" if it is."""
    try:
        words = shlex.split(text)  # raises for a quote that is left open
    except ValueError as error:
        return f"this is not a command: {str(error).lower()}, expected one such as python -m demo"
    return "" if words else "this is not a command: it is blank, expected one such as python -m demo"


def refuse_missing(request: Request, root: Path, files: Sequence[str]) -> None:
    """Raise InputError with every build hook whose script is not in the source's `files`."""
    problems = [
        Problem(hook.where, f"{key} runs {script}, {missing(script, root, files)}")
        for key, hooks in (("build.before", request.build.before), ("build.after", request.build.after))
        for hook in hooks
        if (script := script_of(hook.run)) and script not in files
    ]
    if problems:
        raise RejectedInput(problems)


def missing(script: str, root: Path, files: Sequence[str]) -> str:
    """Return a phrase for a script that the source does not have, with the nearest one."""
    if (root / script).is_file():
        return "which is not in the source: git ignores it, or `source: include` does not name it"
    alike = [name for name in files if posixpath.splitext(name)[1] == posixpath.splitext(script)[1]]
    close = close_names(script, alike, cutoff=0.5)
    elsewhere = [name for name in alike if posixpath.basename(name) == posixpath.basename(script)]
    known = close or elsewhere[:1] or alike[:MAX_NAMED]  # a name alike, the same name elsewhere, any
    return f"which the source does not have{', ' + nearest(script, known) if known else ''}"


def resolve_script(command: str, root: Path | None) -> list[str]:
    """Return a command's words, with the script's full path, so that it runs from any folder."""
    words = shlex.split(command)
    script = script_of(command)
    if root is None or not script or not (root / script).is_file():
        return words
    at = next(index for index, word in enumerate(words) if posixpath.normpath(word) == script)  # a shell may be first
    return [*words[:at], str(root / script), *words[at + 1 :]]


def warnings(build: Build) -> Iterator[str]:
    """Yield what a plan cannot see: its evidence is from the source before the build's hooks have run."""
    if build.before:
        where = build.before[0].where
        changes = "runs before the build and can change what is compiled; what the plan shows is the source without it"
        yield f"build.before ({where}) {changes}"
