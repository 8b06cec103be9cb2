"""Programs that are started from a process that is kept: as confined as others, and one at a time."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ci_tools.sandbox import Confined, Limits, run_in_sandbox, why_not
from ci_tools.sandbox.groups import STARTERS, lend_starter

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=f"needs confinement: {why_not()}"),
]

LIMITS = Limits(seconds=60, memory=1 << 30, processes=8, written=1 << 20)


def run(folder: Path, script: str, **env: str) -> Confined:
    """Run a shell script in a folder from a kept process."""
    inside = folder / "inside"
    inside.mkdir(exist_ok=True)
    with lend_starter() as server:
        return run_in_sandbox(
            ["sh", "-c", script],
            folder=inside,
            readable=(),
            env={"PATH": os.defpath, **env},
            log=folder / "log",
            limits=LIMITS,
            server=server,
        )


def test_a_program_is_confined_and_has_its_folder_and_variables(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the secret")
    ended = run(tmp_path, 'cat ../secret; echo "$WORD" > made; env; read -r line; exit 3', WORD="a word")
    said = ended.log.read_text()
    assert ended.status == 3
    assert (tmp_path / "inside" / "made").read_text() == "a word\n"
    assert ("Permission denied" in said, "the secret" in said, "HOME=" in said) == (True, False, False)


def test_a_program_that_a_signal_ends_says_which(tmp_path: Path) -> None:
    assert run(tmp_path, "kill -TERM $$").status == 128 + signal.SIGTERM


def test_a_process_is_kept_for_the_next_program_and_replaced_once_it_has_ended(tmp_path: Path) -> None:
    with lend_starter() as first:
        pass
    with lend_starter() as again, lend_starter() as second:
        assert (again, second is again) == (first, False)
    first.process.kill()
    first.process.wait()
    second.process.kill()
    second.process.wait()
    assert run(tmp_path, "exit 0").status == 0
    STARTERS.empty()
    with lend_starter() as other:
        assert other not in {first, second}
