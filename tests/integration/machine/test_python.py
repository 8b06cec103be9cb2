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
from tests.builders.sources import write

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["pip", "uv"])
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("environment")
    environ = {**os.environ, "CFLAGS": "-O0", "PIP_NO_INDEX": "1", INSTALLER: request.param}
    return create(Path(sys.executable), folder / "env", folder / "log", environ, {"CUDA_HOME": "/cuda"})


def test_an_environment_is_empty_and_its_own(environment: Environment) -> None:
    script = "import sys, importlib.util as u; print(sys.prefix, u.find_spec('pip'), u.find_spec('pytest'))"
    done = subprocess.run(
        [environment.python, "-c", script], env=environment.variables, capture_output=True, check=True
    )
    assert done.stdout.decode().split() == [str(environment.path), "None", "None"]


def test_its_commands_come_first_and_see_few_variables(environment: Environment) -> None:
    assert environment.variables["PATH"].split(os.pathsep)[0] == str(environment.scripts)
    assert environment.variables["VIRTUAL_ENV"] == str(environment.path)
    assert environment.variables["CUDA_HOME"] == "/cuda"
    assert "CFLAGS" not in environment.variables


def test_an_environment_is_made_from_nothing(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "old").write_text("")
    made = create(environment.python, tmp_path / "env", tmp_path / "log", os.environ)
    assert not (made.path / "old").exists()
    assert made.python.exists()


def test_what_makes_no_environment_is_one_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "python3.99"
    broken.write_text("#!/bin/sh\necho No module named ensurepip; exit 1\n")
    broken.chmod(0o755)
    with pytest.raises(MachineError, match=r"cannot make an environment:\n.*No module named ensurepip") as refused:
        create(broken, tmp_path / "env", tmp_path / "log", {**os.environ, INSTALLER: "pip"})
    assert "python3-venv" in refused.value.hint


def test_an_index_that_does_not_answer_is_one_sentence_without_its_password(environment: Environment) -> None:
    said = r"(: no answer from the index: \[Errno 111\] Connection refused; its log: /\S+\n|; the .*\n.*\nerror: Req)"
    variables = {"PIP_RETRIES": "1", "PIP_NO_INDEX": "0", "PIP_FIND_LINKS": ""}
    with pytest.raises(
        MachineError, match=rf"^(pip|uv) cannot install --index-url http://\*\*\*@127\.0\.0\.1:1 demo{said}"
    ) as refused:
        environment.install("--index-url", "http://me:s3cret@127.0.0.1:1", "demo", variables=variables)
    assert "s3cret" not in f"{refused.value}{environment.log.read_text()}"


def test_what_is_installed_is_named_as_a_person_would(environment: Environment, tmp_path: Path) -> None:
    write(tmp_path, {"wanted.txt": "no-such-thing==1\nnor-this\n", "limits.txt": "nor-this<1\n"})
    with pytest.raises(MachineError, match="cannot install no-such-thing==1 nor-this; the last lines"):
        environment.install("-r", tmp_path / "wanted.txt", "-c", tmp_path / "limits.txt")


def test_a_wheel_is_installed_there(environment: Environment, tmp_path: Path) -> None:
    environment.install("--no-deps", wheels.make(tmp_path, files={"demo.py": b"print('hello')\n"}))
    done = subprocess.run(
        [environment.python, "-m", "demo"], env=environment.variables, capture_output=True, check=True
    )
    assert done.stdout == b"hello\n"


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
