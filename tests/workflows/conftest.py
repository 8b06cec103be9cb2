"""What the tests of our workflows share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.workflows import api, repositories
from tests.workflows.api import Api
from tests.workflows.repositories import Repository


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A copy of this repository, for others to call."""
    return repositories.copy_ours(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def github(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A stand-in for GitHub, for the tests of one file."""
    with api.opened(tmp_path_factory.mktemp("ours")) as opened:
        yield opened
