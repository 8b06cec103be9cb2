"""A GitHub, and one that has a release."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import wheels
from tests.builders.github_units import LOCAL, PLAIN, publish, unit
from tests.servers.github import GitHub, github_server


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    wheels.make(folder, PLAIN, fields="Requires-Python: >=3.9\n")
    wheels.make(folder, LOCAL, fields="Requires-Python: >=3.9\n")
    wheels.make(folder, PLAIN.replace("py3-none-any", "py3-none-win_amd64"))
    return folder


@pytest.fixture(scope="session")
def whole(made: Path) -> GitHub:
    """Return a repository to which the release was published, which is only copied."""
    with github_server() as server:
        publish(server.url, unit(made))
    return server


@pytest.fixture
def released(whole: GitHub, hub: GitHub) -> GitHub:
    """A copy of that repository, for one test alone."""
    hub.take_over(whole)
    return hub
