"""A cage for each test, and the process that forks for all tests of a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ci_tools.sandbox.groups import ForkServer
from tests.builders.cages import KINDS, PREPARED, REASON, Cage, made_cage


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer | None]:
    if REASON:
        yield None
        return
    script = tmp_path_factory.mktemp("server") / "prepared.py"
    script.write_text(PREPARED)
    with closing(ForkServer([sys.executable, "-I", "-S", script], {})) as server:
        yield server


@pytest.fixture(params=KINDS)
def cage(request: pytest.FixtureRequest, tmp_path: Path, server: ForkServer | None) -> Iterator[Cage]:
    with made_cage(tmp_path, server if request.param == "forked" else None) as cage:
        yield cage
