from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.machine import package_index


@pytest.mark.slow
def test_the_user_s_index_is_asked() -> None:
    assert package_index.users_index({"PIP_INDEX_URL": "http://127.0.0.1/simple/"}).url == "http://127.0.0.1/simple/"


@pytest.mark.slow
def test_there_is_always_an_index() -> None:
    assert package_index.users_index({}).url.startswith("http")


@pytest.mark.slow
def test_what_pip_is_configured_for_counts_and_a_variable_wins(tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = https://file/simple\nextra-index-url = /a\n  /b\n[install]\ncert = /c.pem\n")
    environ = {"PIP_CONFIG_FILE": str(file), "HOME": str(tmp_path)}
    assert package_index.users_index(environ) == package_index.Index("https://file/simple", "/c.pem")
    assert package_index.users_index({**environ, "PIP_INDEX_URL": "https://own"}).url == "https://own"
    assert package_index.users_places(environ).indexes[-2:] == ("/a", "/b")
