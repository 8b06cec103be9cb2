"""The page about installers says what they do: each of its cells is tried."""

from __future__ import annotations

import pytest

from tests.proof.installers import (
    CLIENTS,
    PAGE,
    PYTHONS,
    TAKEN,
    TRIALS,
    call_on,
    tried,
    tried_on,
    tried_together,
    written,
)

pytestmark = pytest.mark.slow
IN_EVERY_RUN = ("pip", "uv")


def cells() -> dict[tuple[str, str], str]:
    """Return what the page says of each client and trial, and under "" of each Python."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text("utf-8").splitlines()]
    tables = [row for row in rows if row and row[0].startswith(("`", "constraints"))]
    *trials, pythons = tables
    said = {(client, row[0]): cell for row in trials for client, cell in zip(CLIENTS, row[1:], strict=True)}
    return said | {("", python): cell for python, cell in zip(PYTHONS, pythons[1:], strict=True)}


def pairs() -> list[object]:
    """Return each client and trial as parameters; old clients only in long runs."""
    return [
        pytest.param(client, trial, id=f"{client}: {trial}", marks=() if client in IN_EVERY_RUN else pytest.mark.long)
        for client in CLIENTS
        for trial in TRIALS
    ]


@pytest.mark.parametrize(("client", "trial"), pairs())
def test_an_installer_does_what_the_page_says(client: str, trial: str) -> None:
    assert tried(client, trial) == cells()[client, trial]


@pytest.mark.parametrize("client", IN_EVERY_RUN)
def test_all_options_of_an_installer_take_the_wheel_together(client: str) -> None:
    assert tried_together(client) == TAKEN


@pytest.mark.parametrize("python", PYTHONS)
def test_the_hooks_run_on_every_python(python: str) -> None:
    try:
        found = call_on(python)
    except LookupError as error:
        pytest.skip(str(error))
    assert found.startswith("kind = 'prebuilt'\n")


@pytest.mark.parametrize("python", PYTHONS)
def test_the_newest_uv_installs_for_every_python(python: str) -> None:
    try:
        found = tried_on(python)
    except LookupError as error:
        pytest.skip(str(error))
    assert found == cells()["", python]


def test_the_page_is_as_it_is_written() -> None:
    said = cells()
    pythons = {python: said["", python] for python in PYTHONS}
    assert written({key: cell for key, cell in said.items() if key[0]}, pythons) == PAGE.read_text("utf-8")
