"""Our repository with a toolkit that asks the tests' GitHub: act sets GITHUB_API_URL, whatever a run is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.servers.github import GitHub, github_server
from tests.servers.github_issues import Talk, settle
from tests.workflows import harness, repositories
from tests.workflows.repositories import Repository


class Api(NamedTuple):
    """A GitHub, what is said there, and our repository, whose toolkit asks it."""

    hub: GitHub
    talk: Talk
    ours: Repository


@contextmanager
def opened(home: Path, files: Mapping[str, str] | None = None) -> Iterator[Api]:
    """Run a GitHub, and copy our repository, with `files` over it, so that its toolkit asks there."""
    with github_server() as hub:
        hub.tokens.add(harness.TOKEN)
        asks = f"sed -i '2i export GITHUB_API_URL={hub.url}' \"$RUNNER_TEMP/fatwheel/bin/fatwheel\"\n"
        ours = repositories.copy_ours(home, files=files, setup=asks)
        yield Api(hub, settle(hub), ours)
