"""fatwheel doctor with a wrong name, a wrong token, and a weak network."""

from __future__ import annotations

import pytest

from tests.builders.doctored import doctor
from tests.servers.github import Answer, Fault, GitHub, rate_limited, refusal
from tests.servers.github_settings import Settings

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["demo", "octo/", "octo/demo/", "../x", "octo/demo;ls", "octo/a b", "::error::/x"])
def test_a_name_that_is_none(name: str, hub: GitHub) -> None:
    told = doctor(hub, name)
    assert (told.status, "expected OWNER/REPO" in told.stderr) == (2, True)


def test_a_repository_that_is_not_there(hub: GitHub) -> None:
    told = doctor(hub, "octo/nowhere")
    assert (told.status, "does not exist on 127.0.0.1" in told.stderr) == (2, True)


def test_no_token(hub: GitHub) -> None:
    told = doctor(hub, GH_TOKEN="")
    assert (told.status, "reading the settings of octo/demo needs a token" in told.stderr) == (2, True)


def test_a_wrong_token_is_not_shown(hub: GitHub) -> None:
    told = doctor(hub, GH_TOKEN="ghp_wrong_and_secret")  # noqa: S106 - it is none
    assert (told.status, "ghp_wrong" in told.stderr + told.stdout) == (2, False)


def test_nobody_answers(hub: GitHub) -> None:
    told = doctor(hub, GITHUB_API_URL="http://127.0.0.1:1")
    assert (told.status, told.stdout) == (3, "")


@pytest.mark.parametrize(
    "number", [1, 5, pytest.param(2, marks=pytest.mark.long), pytest.param(9, marks=pytest.mark.long)]
)
@pytest.mark.parametrize("fault", [Fault.CLOSE, Fault.CUT, rate_limited(0), refusal(502, "Bad Gateway")])
def test_a_fault_is_waited_out(number: int, fault: Fault | Answer, hub: GitHub, settings: Settings) -> None:
    hub.fail_at(number, fault)
    assert doctor(hub).status == 0, settings


@pytest.mark.parametrize("body", [b"[]", b"{}", b'"x"', b"<html>", b'{"secrets": 3}'])
@pytest.mark.usefixtures("settings")
def test_a_server_of_another_kind_is_no_traceback(body: bytes, hub: GitHub) -> None:
    hub.routes.insert(0, ("GET", ".*/actions/secrets", lambda *_: Answer(200, body)))
    told = doctor(hub)
    hub.problems.clear()  # the answer was meant to be wrong
    assert told.status == 3, told.stderr
