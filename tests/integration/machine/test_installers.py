"""The settings of pip, as pip itself lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.errors import MachineError
from ci_tools.machine import installers
from ci_tools.machine.installers import read_pip_settings
from tests.unit.machine.test_installers import UV

pytestmark = pytest.mark.slow


def test_a_configuration_file_of_pip_counts_and_a_variable_wins(tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = https://file\nfind-links = /a\n  /b\n[install]\ncert = /c.pem\n")
    found = UV.translate({"PIP_CONFIG_FILE": str(file), "HOME": str(tmp_path), "PIP_INDEX_URL": "https://variable"})
    assert (found["UV_DEFAULT_INDEX"], found["SSL_CERT_FILE"]) == ("https://variable", "/c.pem")
    assert found["UV_FIND_LINKS"].endswith("/a,/b")


def test_settings_that_pip_cannot_list_are_no_reason_to_ask_other_indexes(tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text("index-url = https://outside-of-any-section\n")
    with pytest.raises(MachineError, match="pip does not list its settings"):
        UV.translate({"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "HOME": str(tmp_path)})


def test_the_files_are_those_that_pip_finds_and_it_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own" / "pip").mkdir(parents=True)
    settings = (
        "[global]\nextra-index-url =\n    https://one.example/simple\n    https://two.example/simple\ntimeout = 7\n"
    )
    (tmp_path / "own" / "pip" / "pip.conf").write_text(settings + "[install]\ntimeout = 9\n[download]\ntimeout = 11\n")
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "own")}
    found = read_pip_settings(environ)
    assert found["PIP_EXTRA_INDEX_URL"] == "https://one.example/simple https://two.example/simple"
    assert (found["PIP_TIMEOUT"], found["HOME"]) == ("9", environ["HOME"])
    monkeypatch.setattr(installers, "output", None)
    assert read_pip_settings({**environ, "PIP_TIMEOUT": "3"})["PIP_TIMEOUT"] == "3"
