"""GitHub's API, on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.servers.github import GitHub, github_server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def hub() -> Iterator[GitHub]:
    with github_server() as server:
        yield server
