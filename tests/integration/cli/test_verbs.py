"""Every verb has its two functions and its help, and whoever mistypes one is told the nearest."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ci_tools.cli.verbs import VERBS


@pytest.mark.slow
def test_a_verb_waits_for_no_other_verbs_modules() -> None:
    code = "import sys; from ci_tools.cli import main; print(*[name for name in sys.modules if name in sys.argv])"
    never = [f"ci_tools.cli.verbs.{name}" for name in sorted({verb.module for verb in VERBS.values()})]
    done = subprocess.run([sys.executable, "-c", code, *never], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
