"""The completion of a shell knows every verb and option; bash itself is asked."""

from __future__ import annotations

import pytest
import shtab

from ci_tools.cli import verbs
from ci_tools.cli.main import main
from ci_tools.cli.verbs.completion import SHELLS

GROUPS = sorted({verb.partition(" ")[0] for verb in verbs.VERBS if " " in verb})


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "trust-source" in capsys.readouterr().out


def test_the_shells_are_those_of_shtab() -> None:
    assert set(SHELLS) == set(shtab.SUPPORTED_SHELLS)


def test_an_unknown_shell_is_refused_with_those_that_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "ksh"]) == 2
    said = capsys.readouterr().err
    assert [shell for shell in SHELLS if shell not in said] == []
