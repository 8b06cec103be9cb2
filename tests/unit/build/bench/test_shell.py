from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ci_tools.build.bench.copies import Copies
from ci_tools.build.bench.shell import Bench, Shell
from ci_tools.errors import Rejected
from ci_tools.machine.python import Environment
from ci_tools.model.request import Hook
from ci_tools.plan import make
from tests.builders.sources import demo, shared_world

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("command", "said"),
    [
        pytest.param("no-such-program x", "there is no command no-such-program", id="no-such-program"),
        pytest.param("./set.sh", "./set.sh is not executable", id="not-executable"),
    ],
)
def test_a_command_that_cannot_start_says_so(tmp_path: Path, command: str, said: str) -> None:
    planned = make.make_plan(demo(tmp_path / "source", {"set.sh": "true\n"}) / "fatwheel.yml", shared_world())
    isolated = Environment(path=tmp_path, variables={"PATH": os.environ["PATH"]}, log=tmp_path / "log")
    shell = Shell(
        isolated, Bench(planned.plan, planned.tree, tmp_path, isolated.log, 1, Copies(tmp_path)), deadline=1.0
    )
    with pytest.raises(Rejected) as refused:
        shell.run_hooks("build.before", [Hook(command, "fatwheel.yml:14")])
    assert refused.value.message == f"build.before (fatwheel.yml:14) cannot be started: {said}"
