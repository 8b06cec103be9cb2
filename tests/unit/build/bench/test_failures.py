from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_tools.build.bench.failures import add_cause, build_error
from ci_tools.errors import MachineError, Rejected

if TYPE_CHECKING:
    from pathlib import Path

EARLIER = "gcc: fatal error: Killed signal terminated program cc1\n"


def failed(folder: Path, said: str) -> Rejected:
    """Return the error of a command that printed `said`, after another of the same log."""
    log = folder / "job.log"
    log.write_text(f"{EARLIER}{said}", encoding="utf-8")
    return build_error(log, "the build failed", len(EARLIER), folder / "source")


def test_a_known_cause_is_said_first_with_its_line_and_what_helps(tmp_path: Path) -> None:
    line = f"{tmp_path}/source/a.c:2:10: fatal error: x.h: No such file or directory"
    error = failed(tmp_path, f"running build_ext\n{line}\ncompilation terminated.\nninja: build stopped\n")
    assert error.message.splitlines()[:3] == [
        "the build failed: x.h, which the source includes, is not there",
        "  a.c:2:10: fatal error: x.h: No such file or directory",
        f"  line 3 of {tmp_path}/job.log, whose last lines are:",
    ]
    assert error.hint.startswith("if it is the project's own")
    assert error.page == "reference/build-failures.md#missing-header"


def test_an_unknown_cause_has_the_last_lines_and_no_hint(tmp_path: Path) -> None:
    error = failed(tmp_path, "AssertionError: the widths differ\n")
    what = f"the build failed; the last lines of {tmp_path}/job.log:\nAssertionError: the widths differ"
    assert (error.message, error.hint, error.page) == (what, "", "")


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        pytest.param(
            Rejected("Backend 'mesonpy' is not available."), "the build backend mesonpy is not there", id="backend"
        ),
        pytest.param(Rejected("error: subprocess-exited-with-error"), "a requirement has no wheel", id="requirement"),
        pytest.param(MachineError("No space left on device", hint="free some"), "free some", id="has-a-hint"),
        pytest.param(Rejected("odd"), "", id="unknown"),
    ],
)
def test_an_error_gets_the_cause_that_its_words_show(error: Rejected, hint: str) -> None:
    assert add_cause(error).hint.startswith(hint)
    assert bool(error.hint) == bool(hint)
