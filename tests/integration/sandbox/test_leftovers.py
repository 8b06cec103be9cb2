"""What a command made is removed, whatever it is."""

from __future__ import annotations

import sys

import pytest

from ci_tools.errors import MachineError
from ci_tools.sandbox import run_in_sandbox
from ci_tools.sandbox.leftovers import clear
from tests.builders.cages import SOME, Cage, confines, with_imports

pytestmark = pytest.mark.slow  # many real processes


def test_whatever_a_command_made_can_be_removed(cage: Cage) -> None:
    cage.run("os.umask(0)\nfor _ in range(1200): os.mkdir('d'); os.chdir('d')\nos.mkdir('closed', 0)", trusted=True)
    clear(cage.folder)
    assert not cage.folder.exists()


def test_a_journal_that_cannot_be_made_is_the_machines_fault(cage: Cage) -> None:
    journal = cage.outside / "none" / "journal"
    with pytest.raises(MachineError, match="cannot be made, expected a folder that can have a FIFO"):
        run_in_sandbox(["true"], folder=cage.folder, readable=[], env={}, log=cage.log, limits=SOME, journal=journal)


@confines
def test_what_is_written_into_a_journal_stays(cage: Cage) -> None:
    journal = cage.outside / "journal"
    code = f"""
        os.write(os.open({str(journal)!r}, os.O_WRONLY), b'first')
        for change in (os.remove, os.chmod, lambda path: os.truncate(path, 0), lambda path: os.open(path, os.O_RDWR),
                       lambda path: os.open(path, os.O_RDONLY | os.O_NONBLOCK), lambda path: os.rename(path, 'a')):
            try: change({str(journal)!r})
            except (OSError, TypeError): pass
        os.write(os.open({str(journal)!r}, os.O_WRONLY), b' and last')
    """
    command = [sys.executable, "-I", "-S", "-c", with_imports(code)]
    ended = run_in_sandbox(command, folder=cage.folder, readable=[], env={}, log=cage.log, limits=SOME, journal=journal)
    assert (ended.status, ended.journal) == (0, b"first and last"), cage.said(ended)
