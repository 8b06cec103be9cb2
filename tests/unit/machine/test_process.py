"""What a command is given, without starting one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ci_tools.machine.process import NOWHERE, anchor, clean_environment, output, run, start_module
from tests.builders.sources import write


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


def test_a_module_is_found_where_fatwheel_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after `pip install --user`: Python that is isolated does not look there by itself."""
    write(tmp_path / "site", {"helper/__init__.py": "", "helper/__main__.py": "import sys; print(*sys.argv[1:])"})
    monkeypatch.syspath_prepend(tmp_path / "site")
    command = start_module("helper")
    assert command[:2] == (sys.executable, "-I")
    assert output([*command, "a", "b"]) == "a b"
    assert start_module("pip") == (sys.executable, "-I", "-m", "pip")


def test_a_path_of_the_user_s_is_the_same_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wheels").mkdir()
    environ = {
        "PATH": f".:{os.pathsep.join(['', '/bin', 'tools'])}",
        "PIP_CERT": "certs/own.pem",
        "PIP_FIND_LINKS": "wheels https://host/links none",
    }
    anchor(environ)
    assert environ == {
        "PATH": "/bin",
        "PIP_CERT": f"{tmp_path}/certs/own.pem",
        "PIP_FIND_LINKS": f"{tmp_path}/wheels https://host/links none",
    }


def test_a_program_stands_outside_and_its_paths_are_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write(tmp_path, {"deep/file": "here"}))
    assert output(["pwd"]) == str(NOWHERE)
    assert output(["cat", Path("deep/file")]) == "here"
    monkeypatch.chdir("deep")
    assert run([Path("cat"), Path("file")], log=Path("log")).status == 0
