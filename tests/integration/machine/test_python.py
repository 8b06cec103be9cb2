from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ci_tools.errors import FatwheelError, MachineError, Rejected
from ci_tools.machine.installers import INSTALLER
from ci_tools.machine.python import Environment, create
from tests.builders import wheels

# ---------------------------------------------------------------- environments


@pytest.fixture(scope="module", params=["pip", "uv"])
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("environment")
    environ = {**os.environ, "CFLAGS": "-O0", "PIP_NO_INDEX": "1", INSTALLER: request.param}
    return create(Path(sys.executable), folder / "env", folder / "log", environ, {"CUDA_HOME": "/cuda"})


@pytest.mark.slow
def test_a_wheel_is_installed_there(environment: Environment, tmp_path: Path) -> None:
    environment.install("--no-deps", wheels.make(tmp_path, files={"demo.py": b"print('hello')\n"}))
    done = subprocess.run(
        [environment.python, "-m", "demo"], env=environment.variables, capture_output=True, check=True
    )
    assert done.stdout == b"hello\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "kind", "sentence"),
    [
        pytest.param(
            "Requires-Python: >=9\n", Rejected, "(requires a different Python|Python>=9)", id="another-python"
        ),
        pytest.param(
            "Requires-Dist: no-such-thing\n", MachineError, "(versions: none|not found)", id="nothing-to-be-had"
        ),
    ],
)
def test_a_refusal_shows_the_last_lines_of_the_log(
    fields: str, kind: type[FatwheelError], sentence: str, environment: Environment, tmp_path: Path
) -> None:
    wheel = wheels.make(tmp_path, "other-1.0-py3-none-any.whl", fields=fields)
    with pytest.raises(
        kind, match=f"(?s)^(pip|uv) cannot install --no-index {wheel.name}; the last lines of .*{sentence}"
    ):
        environment.install("--no-index", wheel)
