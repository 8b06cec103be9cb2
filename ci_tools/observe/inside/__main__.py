"""Runs one build of one cell and records what it does: `python -s -S __main__.py REQUEST.json`.

The request names the copy of the source, the backend, the cell's facts and variables, and the journal: a FIFO to which
every event is written when it happens. The answer comes last, sealed with a secret word that only this process gets.
With more arguments this is a Python that the build starts: it runs them as Python would, and records their questions.

`--serve REQUEST SCRIPT DESCRIPTOR` prepares a process from which SCRIPT forks another for each build: it has imported
what every build needs, and no project has run in it. Its REQUEST, in JSON, is the part that all builds share.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

REQUEST = 1
SERVE = "--serve"
WORD = "FATWHEEL_WORD"  # the variable that passes the secret word


def main() -> None:
    """Observe the build that the request describes, or a Python that it starts."""
    gc.disable()  # until the project's code runs: nothing that is imported before becomes garbage
    del sys.path[0]  # this folder
    if sys.argv[1] == SERVE:
        _serve(*sys.argv[2:])
        return
    word = _take_word()
    request = _read_request()
    arguments = sys.argv[REQUEST + 1 :]
    observed = _prepare(request)
    if arguments:
        observed.observe_child(request, arguments)
    else:
        observed.observe_build(request, word)


def _prepare(request: dict[str, Any]) -> Any:
    """Import and read what every build needs and no fact of a cell changes."""
    sys.path[:0] = request["path"]
    from ci_tools.observe.inside import observed

    observed.prepare(request)
    return observed


def _read_request() -> dict[str, Any]:
    request: dict[str, Any] = json.loads(Path(sys.argv[REQUEST]).read_text(encoding="utf-8"))
    return request


def _serve(request: str, script: str, descriptor: str) -> None:
    """Prepare this process, and let a script fork others from it."""
    observed = _prepare(json.loads(request))
    import runpy

    def run_forked(command: list[str]) -> None:
        sys.orig_argv = command  # as of a process that was started with it
        sys.argv[1:] = command[-1:]
        observed.observe_build(_read_request(), _take_word())

    runpy.run_path(script)["serve"](int(descriptor), run_forked)


def _take_word() -> bytes:
    """Return the word that seals the answer, and remove it from the environment."""
    return os.environ.pop(WORD, "").encode()  # also from `posix.environ`, which is the same table


if __name__ == "__main__":
    main()
