"""Processes that are forked from a prepared one."""

from __future__ import annotations

import sys
import threading
from contextlib import closing

import pytest

from ci_tools.errors import MachineError
from ci_tools.sandbox.groups import ForkServer
from tests.builders.cages import DAEMON, PREPARED, Cage, confines, eventually

pytestmark = pytest.mark.slow  # many real processes


@confines
def test_a_command_ends_with_the_process_that_forked_it(cage: Cage) -> None:
    with closing(ForkServer([sys.executable, "-I", "-S", "-c", PREPARED], {})) as server:
        cage = cage._replace(server=server)
        killer = threading.Thread(target=lambda: eventually((cage.folder / "started").exists) and server.process.kill())
        killer.start()
        with pytest.raises(MachineError, match="builds is gone: it was killed by SIGKILL"):
            cage.run(DAEMON + "    time.sleep(600)\n")
        killer.join()
    assert eventually(lambda: not cage.processes())


def test_a_prepared_process_says_why_it_cannot_serve() -> None:
    with pytest.raises(MachineError, match="builds is gone: ModuleNotFoundError: No module named 'a'"):
        ForkServer([sys.executable, "-I", "-S", "-c", "import a"], {})
    with pytest.raises(MachineError, match="no-such-command cannot be started: No such file or directory"):
        ForkServer(["no-such-command"], {})


@confines
def test_one_forked_process_knows_nothing_of_another(cage: Cage, server: ForkServer) -> None:
    cage = cage._replace(server=server)
    cage.run("import random; sys.left = 1; print('left', end=''); open('left', 'w')", LEFT="1")
    ended = cage.run("print(hasattr(sys, 'left'), 'LEFT' in os.environ, 'random' in sys.modules)")
    assert cage.said(ended) == "False False False\n"
