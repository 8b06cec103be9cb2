"""GitHub's API, on this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.github import GitHub, github_server


@pytest.fixture
def hub() -> Iterator[GitHub]:
    with github_server() as server:
        yield server
