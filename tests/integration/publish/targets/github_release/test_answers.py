"""GitHub Releases: what GitHub answers, and what a user is told of it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ci_tools.errors import InputError, MachineError
from ci_tools.github import client
from ci_tools.machine import waits
from tests.builders.github_units import BAD_GATEWAY, is_right, publish, target, unit
from tests.builders.releases import Words
from tests.servers.github import REPOSITORY, Answer, GitHub, asked_too_fast, rate_limited, refusal

pytestmark = pytest.mark.slow


class Recorder(Words):
    """A reporter that also keeps the title of each step, and how long it waits."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def waiting(self, seconds: float) -> None:
        self.waited.append(seconds)

    @contextmanager
    def step(self, title: str) -> Iterator[Recorder]:
        self.lines.append(title)
        yield self


REFUSALS = {
    "a token that ran out": (refusal(401, "Bad credentials"), "rejects the token in GH_TOKEN: Bad credentials"),
    "a workflow's token": (refusal(403, "Resource not accessible by integration"), "permissions: contents: write"),
    "a fine-grained token": (
        refusal(403, "Resource not accessible by personal access token"),
        "Contents: Read and write",
    ),
    "a scope": (refusal(403, "Forbidden", {"x-oauth-scopes": "gist, read:org"}), "gh auth refresh -s repo"),
    "single sign-on": (
        refusal(
            403, "Resource protected by organization SAML", {"x-github-sso": "required; url=https://x.invalid/sso"}
        ),
        "single sign-on: https://x.invalid/sso",
    ),
    "an organisation": (refusal(403, "`octo` forbids access via a personal access token"), "organisation octo decides"),
    "an archive": (refusal(403, "Repository was archived so is read-only."), "gh repo unarchive octo/demo"),
    "no role": (refusal(403, "Must have push access to repository"), "ask an owner of octo/demo"),
    "a private repository": (refusal(404, "Not Found"), "is private and the token in GH_TOKEN may not read it"),
    "a hostile text": (refusal(403, "\x1b[2J" + "x" * 5000), "permissions: contents: write"),
}


@pytest.mark.parametrize(("answer", "words"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_says_what_mends_it(hub: GitHub, made: Path, answer: Answer, words: str) -> None:
    hub.fail_at(1, answer)
    with pytest.raises(InputError) as refused:
        target(hub.url).check(unit(made))
    assert words in str(refused.value)
    assert "\x1b" not in str(refused.value)
    assert len(str(refused.value)) < 1000


def test_a_missing_token_comes_with_how_to_set_it(hub: GitHub, made: Path) -> None:
    with pytest.raises(InputError, match=r'export GH_TOKEN="\$\(gh auth token\)"'):
        target(hub.url, token="").check(unit(made))


def test_a_token_is_in_no_text(hub: GitHub, made: Path) -> None:
    own = target(hub.url, token="ghp_secret")  # noqa: S106 - it opens nothing
    with pytest.raises(InputError) as refused:
        own.check(unit(made))
    assert "ghp_secret" not in f"{refused.value} {own!r} {own.hub!r}"


@pytest.mark.parametrize("address", ["http://github.example.invalid", "ftp://127.0.0.1", "nowhere"])
def test_a_token_goes_to_no_address_that_anybody_can_listen_at(made: Path, address: str) -> None:
    with pytest.raises(InputError, match="a token cannot be sent to"):
        target(address).check(unit(made))


LIMITS = {
    "the limit of an hour": rate_limited(),
    "too much at once": asked_too_fast(),
    "too much at once, with its own status": asked_too_fast(status=429),
}


@pytest.mark.parametrize("answer", LIMITS.values(), ids=LIMITS)
def test_a_limit_is_waited_for_with_a_countdown(hub: GitHub, made: Path, answer: Answer) -> None:
    recorder = Recorder()
    hub.fail_at(3, answer)
    publish(hub.url, unit(made), recorder)
    assert any("GitHub's rate limit is reached, waiting" in line for line in recorder.lines)
    assert recorder.waited
    assert recorder.waited == sorted(recorder.waited, reverse=True)
    assert is_right(hub, unit(made))


def test_a_server_that_does_not_answer_is_waited_for_with_words(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "EVERY", 0.2)
    monkeypatch.setattr(client, "TIMEOUT", 1)
    monkeypatch.setattr(client, "TRIES", 1)
    recorder = Recorder()
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(MachineError, match="the connection failed"):
        publish(f"http://127.0.0.1:{silent.getsockname()[1]}", unit(made), recorder)
    assert recorder.lines[0] == f"waiting for 127.0.0.1 to answer for {REPOSITORY}: 0 s"


def test_a_limit_of_an_hour_ends_the_run_and_says_that_it_goes_on(hub: GitHub, made: Path) -> None:
    hub.fail_at(3, rate_limited(3600))
    with pytest.raises(
        MachineError, match=r"asks to wait 3601 s more\n  hint: nothing is lost: the same command continues"
    ):
        publish(hub.url, unit(made))


def test_a_server_that_goes_on_failing_ends_the_run_and_says_that_it_goes_on(hub: GitHub, made: Path) -> None:
    for number in range(1, 20):
        hub.fail_at(number, BAD_GATEWAY)
    with pytest.raises(MachineError, match=r"GitHub answers 502\n  hint: nothing is lost: the same command continues"):
        target(hub.url).check(unit(made))
