"""What a command is given, without starting one."""

from __future__ import annotations

from ci_tools.machine.process import clean_environment, output


def test_a_command_sees_few_of_the_caller_s_variables() -> None:
    seen = {
        "PATH": "/bin",
        "CFLAGS": "-O0",
        "PIP_INDEX_URL": "x",
        "PIP_TARGET": "y",
        "PIP_DRY_RUN": "1",
        "PIP_ROOT": "/elsewhere",
        "PIP_IGNORE_REQUIRES_PYTHON": "1",
        "PIP_CONFIG_SETTINGS": "a=b",
        "PIP_NO_INDEX": "1",
        "PYTHONPATH": "z",
        "HTTPS_PROXY": "p",
    }
    assert clean_environment(seen, {"CUDA_HOME": "/cuda"}) == {
        "PATH": "/bin",
        "PIP_INDEX_URL": "x",
        "PIP_NO_INDEX": "1",
        "HTTPS_PROXY": "p",
        "PYTHONNOUSERSITE": "1",
        "CUDA_HOME": "/cuda",
    }


def test_what_is_asked_for_wins() -> None:
    assert clean_environment({"PATH": "/bin"}, {"PATH": "/own"})["PATH"] == "/own"


def test_output_of_a_missing_command_is_none() -> None:
    assert output(["no-such-command"]) is None
