"""What a command made is removed, whatever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_tools.sandbox.leftovers import clear

if TYPE_CHECKING:
    from tests.builders.cages import Cage

pytestmark = pytest.mark.slow  # many real processes


def test_whatever_a_command_made_can_be_removed(cage: Cage) -> None:
    cage.run("os.umask(0)\nfor _ in range(1200): os.mkdir('d'); os.chdir('d')\nos.mkdir('closed', 0)", trusted=True)
    clear(cage.folder)
    assert not cage.folder.exists()
