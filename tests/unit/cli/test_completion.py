"""The completion of a shell knows every verb and option; bash itself is asked."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

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


@pytest.fixture
def script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["completion", "bash"]) == 0
    (tmp_path / "fatwheel.bash").write_text(capsys.readouterr().out)
    return tmp_path / "fatwheel.bash"


def complete(script: Path, *words: str) -> set[str]:
    """Return what bash offers for the last word of a command line."""
    program = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_fatwheel; echo "${COMPREPLY[@]}"'
    command = ["bash", "--norc", "-c", program, "bash", str(script), "fatwheel", *words]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_verbs_groups_and_options(script: Path) -> None:
    assert complete(script, "") == {verb for verb in verbs.VERBS if " " not in verb} | set(GROUPS)
    for group in GROUPS:
        of_group = {verb.partition(" ")[2] for verb in verbs.VERBS if verb.startswith(f"{group} ")}
        assert complete(script, group, "") == of_group
    options = {option for action in verbs.parser_of("plan")._actions for option in action.option_strings}  # noqa: SLF001
    assert complete(script, "plan", "-") == options
    assert complete(script, "plan", "--format", "") == {"table", "json", "github", "markdown"}
