"""What the tests of our workflows share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.workflows import repositories

if TYPE_CHECKING:
    from tests.workflows.repositories import Repository


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A copy of this repository, for others to call."""
    return repositories.copy_ours(tmp_path_factory.mktemp("ours"))
