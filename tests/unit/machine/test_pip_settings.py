"""What pip's files say is read as pip reads it, and asked for once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ci_tools.errors import MachineError
from ci_tools.machine import pip_settings
from ci_tools.machine.pip_settings import read_pip_settings

if TYPE_CHECKING:
    from pathlib import Path

GLOBAL = "[global]\nextra-index-url =\n    https://one.example/simple\n    https://two.example/simple\ntimeout = 7\n"
INSTALL = "[install]\ntimeout = 9\n[download]\ntimeout = 11\n"


def write(folder: Path, text: str = GLOBAL) -> Path:
    (folder / "pip").mkdir(parents=True)
    file = folder / "pip" / "pip.conf"
    file.write_text(text)
    return file


def test_the_files_are_those_that_pip_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "own", GLOBAL + INSTALL)
    environ = {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "own")}
    settings = read_pip_settings(environ)
    assert settings["PIP_EXTRA_INDEX_URL"] == "https://one.example/simple https://two.example/simple"
    assert settings["PIP_TIMEOUT"] == "9"  # what a command's own section says wins
    assert settings["HOME"] == environ["HOME"]

    monkeypatch.setattr(pip_settings, "output", None)  # pip is asked once
    assert read_pip_settings({**environ, "PIP_TIMEOUT": "3"})["PIP_TIMEOUT"] == "3"


def test_no_file_is_read_where_pip_reads_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pip_settings, "output", None)
    environ = {"PIP_CONFIG_FILE": os.devnull}
    assert read_pip_settings(environ) == environ


def test_a_pip_that_does_not_answer_is_the_machine_s_fault(tmp_path: Path) -> None:
    broken = write(tmp_path, "timeout = 7\n")  # no section
    with pytest.raises(MachineError, match="pip does not list its settings"):
        read_pip_settings({"HOME": str(tmp_path), "PIP_CONFIG_FILE": str(broken)})
