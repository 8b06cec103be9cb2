from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ci_tools.machine.python import find
from ci_tools.model.versions import Minor, Python

THIS = Python(Minor(*sys.version_info[:2]), free_threaded="free-threading" in sys.version)
NONE = {"PATH": "", "PYENV_ROOT": "/nowhere"}
NOT_READ = f"/{300 * 'n'}"  # too long a name: to ask for what is in there is an error, as in another user's folder


def script(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)
    return path


def test_this_interpreter_is_found_first() -> None:
    assert find(THIS, NONE) == Path(sys.executable)


def test_what_is_not_here_is_none() -> None:
    assert find(Python(Minor(3, 99)), NONE) is None


@pytest.mark.parametrize(
    ("says", "is_found"),
    [
        pytest.param("echo 3.99", True, id="the-version"),
        pytest.param("echo 3.99t", False, id="free-threaded"),
        pytest.param("echo 3.98", False, id="another-version"),
        pytest.param("echo 3.99; exit 1", False, id="broken"),
    ],
)
def test_an_interpreter_is_asked_what_it_is(says: str, is_found: bool, tmp_path: Path) -> None:  # noqa: FBT001
    path = script(tmp_path / "python3.99", says)
    assert find(Python(Minor(3, 99)), {**NONE, "PATH": os.pathsep.join(("/nowhere", NOT_READ, str(tmp_path)))}) == (
        path if is_found else None
    )


def test_pyenv_s_interpreters_are_found_newest_first(tmp_path: Path) -> None:
    for version in ("3.9.1", "3.99.1", "3.99.2"):
        newest = script(tmp_path / "versions" / version / "bin" / "python", "echo 3.99")
    assert find(Python(Minor(3, 99)), {"PATH": "", "PYENV_ROOT": str(tmp_path)}) == newest


def test_a_shim_of_pyenv_stands_for_its_interpreters(tmp_path: Path) -> None:
    script(tmp_path / "shims" / "python3.99", "echo 3.99")
    own = script(tmp_path / "versions" / "3.99.1" / "bin" / "python", "echo 3.99")
    script(tmp_path / "later" / "python3.99", "echo 3.99")
    path = os.pathsep.join([str(tmp_path / "shims"), str(tmp_path / "later")])
    assert find(Python(Minor(3, 99)), {"PATH": path, "PYENV_ROOT": str(tmp_path)}) == own


@pytest.mark.parametrize("text", ["3.99", "3.99t"])
def test_a_manylinux_image_s_interpreters_are_found(text: str, tmp_path: Path) -> None:
    script(tmp_path / "cp399-cp399" / "bin" / "python", "echo 3.99")
    script(tmp_path / "cp399-cp399t" / "bin" / "python", "echo 3.99t")
    found = find(Python.parse(text), NONE, tmp_path)
    assert found == tmp_path / f"cp399-cp{text.replace('.', '')}" / "bin" / "python"


# ---------------------------------------------------------------- environments
