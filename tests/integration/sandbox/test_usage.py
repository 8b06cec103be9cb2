"""Which processes of a group are alive."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from ci_tools.sandbox.usage import living, living_by_ps
from tests.builders.cages import eventually

pytestmark = pytest.mark.slow  # many real processes


def test_ps_and_proc_see_the_same_group() -> None:
    process = subprocess.Popen(["sh", "-c", "sleep 60 & sleep 60"], start_new_session=True)
    assert eventually(lambda: len(living(process.pid)) == 3)
    seen = [{task.pid for task in look(process.pid)} for look in (living, living_by_ps)]
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert (seen[0] == seen[1], eventually(lambda: not living(process.pid))) == (True, True)
