"""What fatwheel doctor mends by itself, and what it leaves to a person."""

from __future__ import annotations

import pytest

from tests.builders.doctored import GRANTS, RELEASE, command, doctor, replaced
from tests.servers.github import REPOSITORY, GitHub, refusal
from tests.servers.github_settings import REFUSALS, Settings

pytestmark = pytest.mark.slow


def test_what_the_api_allows_is_shown_then_mended_then_read_back(hub: GitHub, settings: Settings) -> None:
    settings.default = "write"
    settings.approves = True
    settings.environments.clear()
    settings.states[RELEASE] = "disabled_inactivity"
    told = doctor(hub, fix=True)
    assert [one["outcome"] for one in told.whole["fixed"]] == ["done"] * 3
    assert told.rules == ["approves"], told.stdout
    assert told.stderr.count("will ") == 3
    assert (settings.default, settings.approves, settings.states[RELEASE]) == ("read", True, "active")
    assert settings.policies == [("pypi", "main", "branch"), ("pypi", "v*", "tag")]


def test_nothing_is_written_without_being_asked(hub: GitHub, settings: Settings) -> None:
    settings.default = "write"
    assert doctor(hub).status == 1
    assert {request.partition(" ")[0] for request in hub.requests} == {"GET"}


def test_a_default_on_which_a_job_lives_is_left_until_it_has_its_own_grant(hub: GitHub, settings: Settings) -> None:
    settings.default = "write"
    settings.files[".github/workflows/ci.yml"] = b"on: push\njobs:\n  lint:\n    steps: []\n"
    told = doctor(hub, fix=True)
    finding = told.finding("default-write")
    assert (settings.default, told.whole["fixed"], finding["fix"]) == ("write", [], None)
    assert ".github/workflows/ci.yml:3" in finding["how"]


def test_a_default_is_never_widened(hub: GitHub, settings: Settings) -> None:
    replaced(settings, "permissions: {}", "")
    replaced(settings, GRANTS, "")
    told = doctor(hub, fix=True)
    assert (told.rules, settings.default, told.whole["fixed"]) == (["permissions"], "read", [])


def test_what_a_person_disabled_is_left_to_a_person(hub: GitHub, settings: Settings) -> None:
    settings.states[RELEASE] = "disabled_manually"
    assert (doctor(hub, fix=True).status, settings.states[RELEASE]) == (1, "disabled_manually")


def test_a_refusal_is_said_and_what_was_not_mended_is_found_again(hub: GitHub, settings: Settings) -> None:
    settings.states[RELEASE] = "disabled_inactivity"
    hub.routes.insert(0, ("PUT", ".*/enable", lambda *_: refusal(403, REFUSALS[0])))
    told = doctor(hub, fix=True)
    assert (told.status, told.rules) == (1, ["disabled"])
    assert "Actions: write" in told.whole["fixed"][0]["outcome"]


def test_an_organisation_may_decide_otherwise(hub: GitHub, settings: Settings) -> None:
    settings.default = "write"
    conflict = refusal(409, "Conflict")
    hub.routes.insert(0, ("PUT", ".*/permissions/workflow", lambda *_: conflict))
    told = command(hub, REPOSITORY, "--fix")
    assert (told.status, "refused" in told.stdout) == (1, True)
