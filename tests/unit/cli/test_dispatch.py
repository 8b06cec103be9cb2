"""Every verb of the parser has a function, which takes what every verb takes."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from ci_tools.cli import dispatch
from docs import generate


def test_every_verb_of_the_parser_has_a_function() -> None:
    assert dispatch.VERBS.keys() == generate.verbs().keys()


@pytest.mark.parametrize("name", dispatch.VERBS)
def test_a_verb_takes_its_options_and_the_context(name: str) -> None:
    assert [*inspect.signature(dispatch.find_verb(name)).parameters] == ["options", "outside"]


@pytest.mark.slow
def test_a_verb_waits_for_no_other_verbs_modules() -> None:
    code = "import sys; from ci_tools.cli import main; print(*[name for name in sys.modules if name in sys.argv])"
    never = [f"ci_tools.cli.{name}" for name in sorted({*dispatch.VERBS.values()})]
    done = subprocess.run([sys.executable, "-c", code, *never], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
