"""Which program installs, and under which names it gets pip's settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_tools.errors import InputError
from ci_tools.machine import installers
from ci_tools.machine.installers import INSTALLER, PIP, choose_installer, read_pip_settings

NO_FILE = {"PIP_CONFIG_FILE": os.devnull}
UV = choose_installer({INSTALLER: "uv", "PATH": os.environ["PATH"]})


@pytest.mark.parametrize("environ", [{}, {INSTALLER: ""}, {INSTALLER: "pip"}])
def test_pip_installs_by_default(environ: dict[str, str]) -> None:
    assert choose_installer(environ) is PIP


def test_an_unknown_installer_is_refused() -> None:
    with pytest.raises(InputError, match=r'^FATWHEEL_INSTALLER is "conda"; expected pip or uv$'):
        choose_installer({INSTALLER: "conda"})


@pytest.mark.parametrize(
    ("settings", "translated"),
    [
        pytest.param({"PIP_INDEX_URL": "https://a/simple"}, {"UV_DEFAULT_INDEX": "https://a/simple"}, id="index"),
        pytest.param({"PIP_EXTRA_INDEX_URL": "https://a https://b"}, {"UV_INDEX": "https://a https://b"}, id="extra"),
        pytest.param({"PIP_FIND_LINKS": "/a /b"}, {"UV_FIND_LINKS": "/a,/b"}, id="links"),
        pytest.param({"PIP_CERT": "/a.pem"}, {"SSL_CERT_FILE": "/a.pem"}, id="certificates"),
        pytest.param(
            {"PIP_CERT": "/a.pem", "REQUESTS_CA_BUNDLE": "/b.pem"}, {"SSL_CERT_FILE": "/a.pem"}, id="pip-s-own-first"
        ),
        pytest.param({"PIP_EXTRA_INDEX_URL": ""}, {}, id="switched-off"),
    ],
)
def test_uv_gets_the_settings_of_pip(settings: dict[str, str], translated: dict[str, str]) -> None:
    given = {**NO_FILE, **settings}
    found = UV.translate(given)
    assert {name: value for name, value in found.items() if name not in given} == {
        "UV_PYTHON_DOWNLOADS": "never",
        **translated,
    }


@pytest.mark.parametrize(("value", "is_offline"), [("1", True), ("true", True), ("0", False), ("", False)])
def test_no_index_is_an_option_of_uv(value: str, is_offline: bool) -> None:  # noqa: FBT001 - a parameter
    assert ("--no-index" in UV.install(Path("python"), (), {"PIP_NO_INDEX": value})) == is_offline


def test_no_index_is_said_once() -> None:
    command = UV.install(Path("python"), ("--no-index", "demo.whl"), {"PIP_NO_INDEX": "1"})
    assert command.count("--no-index") == 1


def test_files_are_copied_since_a_build_may_change_them() -> None:
    assert "--link-mode=copy" in UV.install(Path("python"), (), {})


def test_no_file_is_read_where_pip_reads_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installers, "output", None)
    assert read_pip_settings(NO_FILE) == NO_FILE
