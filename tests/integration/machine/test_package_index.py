from __future__ import annotations

import pytest

from ci_tools.machine import package_index


@pytest.mark.slow
def test_the_user_s_index_is_asked() -> None:
    assert package_index.users_index({"PIP_INDEX_URL": "http://127.0.0.1/simple/"}).url == "http://127.0.0.1/simple/"


@pytest.mark.slow
def test_there_is_always_an_index() -> None:
    assert package_index.users_index({}).url.startswith("http")
