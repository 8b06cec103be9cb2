"""fatwheel doctor, against a GitHub on this machine that keeps to GitHub's own description of its API."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.builders.doctored import FATWHEEL, GRANTS, LOOSE, NEW, OLD, RELEASE, command, doctor, replaced
from tests.servers.github import REPOSITORY, TOKEN, GitHub, refusal
from tests.servers.github_settings import REFUSALS, Settings

pytestmark = pytest.mark.slow


def test_nothing_is_wrong(hub: GitHub, settings: Settings) -> None:
    told = doctor(hub)
    assert (told.status, told.whole["findings"]) == (0, []), settings


def test_a_person_is_told_that_nothing_is_wrong(hub: GitHub, settings: Settings) -> None:
    told = command(hub, REPOSITORY)
    assert (told.status, told.stdout.strip()) == (0, "octo/demo: nothing is wrong"), settings


class Case(NamedTuple):
    """Something that is wrong, the rule that says so, and words of its finding."""

    spoil: Callable[[Settings], object]
    rule: str
    words: str


def put(**values: object) -> Callable[[Settings], object]:
    return lambda settings: settings.put(values)


def edit(old: str, new: str) -> Callable[[Settings], object]:
    return lambda settings: replaced(settings, old, new)


def selected(*patterns: str, of_github: bool = True, verified: bool = False) -> Callable[[Settings], object]:
    chosen = {"github_owned_allowed": of_github, "verified_allowed": verified, "patterns_allowed": list(patterns)}
    return put(allowed="selected", selected=chosen)


CASES = {
    "archived": Case(put(is_archived=True), "archived", "gh repo unarchive octo/demo"),
    "actions-off": Case(put(is_enabled=False), "actions-disabled", "-F enabled=true"),
    "own-actions-alone": Case(put(allowed="local_only"), "not-allowed", "octo-tools/fatwheel/**@**"),
    "a-list-without-pypi": Case(selected(FATWHEEL), "not-allowed", 'allow "pypa/gh-action-pypi-publish@**"'),
    "a-list-without-github": Case(selected(FATWHEEL, "pypa/*", of_github=False), "not-allowed", "actions/checkout"),
    "a-list-that-blocks": Case(selected(FATWHEEL, "pypa/*", "!pypa/*"), "not-allowed", "pypa/gh-action-pypi-publish"),
    "perhaps-verified": Case(selected(FATWHEEL, verified=True), "unseen", "whether its creator is verified"),
    "a-star-before-a-slash": Case(selected("octo-tools/*", "pypa/*"), "unseen", "whether octo-tools/fatwheel may run"),
    "full-commits-alone": Case(
        lambda settings: (put(pins=True)(settings), edit(f"publish@{NEW}", "publish@release/v1")(settings)),
        "sha-required",
        "gh-action-pypi-publish@release/v1 is not a full commit SHA",
    ),
    "jobs-write-by-default": Case(put(default="write"), "default-write", "default_workflow_permissions=read"),
    "workflows-approve": Case(put(approves=True), "approves", "approve pull requests"),
    "releases-change": Case(put(is_immutable=False), "mutable", "Enable release immutability"),
    "a-grant-too-few": Case(
        edit("contents: write, id-token: write", "contents: read, id-token: write"),
        "permissions",
        "publish lacks `contents: write`",
    ),
    "no-grant-at-all": Case(
        lambda settings: (edit("permissions: {}", "")(settings), edit(GRANTS, "")(settings)),
        "permissions",
        "`permissions: { attestations: write, contents: read, id-token: write }`",
    ),
    "the-trap-in-an-own-job": Case(
        edit(f"- uses: pypa/gh-action-pypi-publish@{NEW}", "- run: gh release upload v1 dist/*"),
        "permissions",
        "Resource not accessible by integration",
    ),
    "write-all": Case(edit("{ contents: write, id-token: write }", "write-all"), "write-all", "may write everything"),
    "no-environment": Case(put(environments={}), "environment", 'no environment "pypi"'),
    "an-open-environment": Case(put(environments={"pypi": {}}), "environment-open", "without approval"),
    "pypi-without-environment": Case(edit("environment: pypi", ""), "publisher", "without an environment"),
    "an-environment-made-at-run-time": Case(
        edit("environment: pypi", "environment: '${{ inputs.x }}'"), "unseen", "computed by the run"
    ),
    "a-secret-of-no-organisation": Case(
        put(secrets=set(), shared_secrets={"S3_KEY"}, owner="User"), "secret", "there is no secret S3_KEY"
    ),
    "an-environment-that-waits": Case(
        put(environments={"pypi": {"protection_rules": [{"id": 1, "node_id": "text", "type": "wait_timer"}]}}),
        "environment-open",
        "without approval",
    ),
    "no-secret": Case(put(secrets=set()), "secret", "gh secret set S3_KEY -R octo/demo"),
    "a-secret-not-passed": Case(
        edit('secrets: { S3_KEY: "${{ secrets.S3_KEY }}" }', ""), "secret-not-passed", "does not pass the secret S3_KEY"
    ),
    "asleep": Case(put(states={RELEASE: "disabled_inactivity"}), "disabled", "60 days without activity"),
    "disabled-by-hand": Case(put(states={RELEASE: "disabled_manually"}), "disabled", "gh workflow enable release.yml"),
    "a-moving-tag": Case(edit(f"wheels.yml@{NEW}", "wheels.yml@v1"), "moving", f"wheels.yml@{NEW} # v1.4.0"),
    "behind": Case(edit(f"wheels.yml@{NEW}", f"wheels.yml@{OLD}"), "behind", "v1.2.0, 2 releases behind v1.4.0"),
    "behind-by-commits": Case(edit(f"wheels.yml@{NEW}", f"wheels.yml@{LOOSE}"), "behind", "7 behind v2.0.0"),
    "no-such-commit": Case(edit(f"publish@{NEW}", "publish@" + "9" * 40), "no-commit", "has no commit 999999999999"),
    "no-such-workflow": Case(edit(f"wheels.yml@{NEW}", "wheels.yml@" + "9" * 40), "not-there", "does not exist"),
    "a-strangers-code": Case(edit("  push:", "  pull_request_target: {}\n  push:"), "target", "`on: pull_request`"),
    "no-caller": Case(put(files={".github/workflows/ci.yml": b"on: push\njobs: {a: {}}"}), "no-caller", "uses: OWNER"),
    "no-workflows": Case(put(files={}), "no-caller", "on main"),
    "no-yaml": Case(put(files={RELEASE: b"on: [push\njobs:"}), "unread", f"{RELEASE}:2:"),
}


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_what_is_wrong_is_said(case: Case, hub: GitHub, settings: Settings) -> None:
    case.spoil(settings)
    told = doctor(hub)
    hints_alone = all(finding["weight"] == "hint" for finding in told.whole["findings"])
    assert case.rule in told.rules, told.stdout
    assert any(case.words in " ".join(map(str, one.values())) for one in told.whole["findings"]), told.stdout
    assert told.status == (0 if hints_alone else 1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("permission", "words"),
    [
        pytest.param("administration", "the default permissions of jobs", id="administration"),
        pytest.param("administration", "which actions may run", id="policy"),
        pytest.param("administration", "whether releases can be changed", id="immutable"),
        pytest.param("actions", "whether workflows are disabled", id="actions"),
        pytest.param("actions", "the environments", id="environments"),
        pytest.param("secrets", "the names of the secrets", id="secrets"),
        pytest.param("contents", "Contents: read", id="contents"),
    ],
)
@pytest.mark.parametrize("said", REFUSALS)
def test_what_the_token_does_not_show_is_never_good(
    permission: str, words: str, said: str, hub: GitHub, settings: Settings
) -> None:
    settings.sees.remove(permission)
    settings.refusal = said
    told = doctor(hub)
    assert (told.status, any(words in json.dumps(one) for one in told.whole["findings"])) == (1, True), told.stdout


def test_a_repository_of_fatwheels_that_nobody_sees(hub: GitHub, settings: Settings) -> None:
    settings.elsewhere.clear()
    told = doctor(hub)
    assert (told.status, set(told.rules)) == (1, {"unseen"})
    assert "permissions that .github/workflows/wheels.yml" in told.stdout


def test_a_workflow_of_its_own_with_our_name_is_not_ours(hub: GitHub, settings: Settings) -> None:
    a = b"{runs-on: ubuntu-24.04, steps: [{uses: ./x}]}"
    settings.files[RELEASE] = b"on: push\njobs: {a: %s, b: {uses: ./.github/workflows/wheels.yml}}" % a
    assert doctor(hub).rules == ["not-there", "no-caller"]


def test_a_ref_that_github_cannot_process(hub: GitHub, settings: Settings) -> None:
    replaced(settings, f"wheels.yml@{NEW}", "wheels.yml@a..b")
    hub.routes.insert(0, ("GET", "/repos/octo-tools/fatwheel/contents/.*/wheels.yml", lambda *_: refusal(422, "no")))
    told = doctor(hub)
    assert (told.status, set(told.rules)) == (1, {"unseen", "moving"})


def test_many_files_many_tags_and_many_secrets_are_read_page_by_page(hub: GitHub, settings: Settings) -> None:
    content = b"on: push\njobs: {a: {runs-on: ubuntu-24.04, permissions: {}, steps: [{run: ls}]}}"
    settings.files |= {f".github/workflows/x{n}.yml": content for n in range(110)}
    settings.secrets |= {f"A{n}" for n in range(250)}
    tags = settings.elsewhere["octo-tools/fatwheel"].tags
    settings.elsewhere["octo-tools/fatwheel"].tags = {**{f"v1.3.{n}": "6" * 40 for n in range(1, 150)}, **tags}
    told = doctor(hub)
    assert told.rules == ["unread"]
    assert "111 files, of which 100 were read" in told.stdout


SEEN = {
    "everything-of-githubs-and-a-list": selected(FATWHEEL, "pypa/gh-action-pypi-publish@*"),
    "everything-but-one": selected("*", "!octo/else@*"),
    "full-commits": put(pins=True),
    "a-secret-of-the-organisation": put(secrets=set(), shared_secrets={"S3_KEY"}),
    "branches-in-place-of-reviewers": put(
        environments={
            "PyPI": {"deployment_branch_policy": {"protected_branches": True, "custom_branch_policies": False}}
        }
    ),
    "the-grants-of-the-workflow": lambda settings: (
        edit("permissions: {}", "permissions: { contents: write, id-token: write, attestations: write }")(settings),
        edit(f"    {GRANTS}", "")(settings),
    ),
    "a-password-in-place-of-trust": lambda settings: (
        edit("environment: pypi", "")(settings),
        edit("# v1.14.0", '\n        with: { password: "${{ secrets.S3_KEY }}" }')(settings),
    ),
    "another-workflow-without-grants": lambda settings: settings.files.update(
        {".github/workflows/ci.yml": b"on: push\njobs: {lint: {runs-on: x, steps: [{uses: actions/checkout@v4}]}}"}
    ),
    "a-schedule-of-another-workflow": put(states={".github/workflows/old.yml": "disabled_inactivity"}),
}


@pytest.mark.long
@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in SEEN.items()])
def test_what_is_right_in_another_way_is_no_finding(
    change: Callable[[Settings], object], hub: GitHub, settings: Settings
) -> None:
    change(settings)
    told = doctor(hub)
    assert (told.status, told.whole["findings"]) == (0, [])


def test_no_secret_and_no_token_is_ever_shown(hub: GitHub, settings: Settings, tmp_path: Path) -> None:
    settings.secrets.clear()
    replaced(settings, "environment: pypi", f"environment: pypi\n    env: {{ PASSWORD: hunter2 }} # {tmp_path}")
    told = command(hub, REPOSITORY)
    assert TOKEN not in told.stdout + told.stderr
    assert "hunter2" not in told.stdout + told.stderr
