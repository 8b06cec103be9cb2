"""fatwheel doctor, against a GitHub on this machine that keeps to GitHub's own description of its API."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from ci_tools.errors import FatwheelError
from ci_tools.github.client import Hub
from ci_tools.github.doctor.check import check, status, to_json
from ci_tools.machine.context import Outside, Silent
from tests.servers.github import REPOSITORY, TOKEN, Answer, Fault, GitHub, github_server, rate_limited, refusal
from tests.servers.github_settings import REFUSALS, Elsewhere, Settings, settle
from tests.servers.prepared import run_prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.slow

NEW, OLD, LOOSE = "1" * 40, "2" * 40, "3" * 40
RELEASE = ".github/workflows/release.yml"
CALLER = f"""
name: release
on:
  push: {{ tags: ["v*"] }}
  schedule: [{{ cron: "0 4 * * 1" }}]
permissions: {{}}
jobs:
  wheels:
    permissions: {{ contents: read, id-token: write, attestations: write }}
    uses: octo-tools/fatwheel/.github/workflows/wheels.yml@{NEW} # v1.4.0
    with: {{ config: fatwheel.yml }}
  publish:
    needs: wheels
    permissions: {{ contents: write, id-token: write }}
    uses: octo-tools/fatwheel/.github/workflows/publish.yml@{NEW} # v1.4.0
    secrets: {{ S3_KEY: "${{{{ secrets.S3_KEY }}}}" }}
  pypi:
    needs: publish
    runs-on: ubuntu-latest
    environment: pypi
    permissions: {{ id-token: write }}
    steps:
      - uses: pypa/gh-action-pypi-publish@{NEW} # v1.14.0
"""
WHEELS = f"""
on: {{ workflow_call: {{}} }}
permissions: {{}}
jobs:
  plan:
    permissions: {{ contents: read }}
    steps: [{{ uses: actions/checkout@{NEW} }}]
  attest:
    permissions: {{ id-token: write, attestations: write }}
    steps: []
"""
PUBLISH = """
on: { workflow_call: { secrets: { S3_KEY: { required: true } } } }
permissions: {}
jobs:
  publish:
    permissions: { contents: write, id-token: write }
    steps: []
"""


class Told(NamedTuple):
    """What was said."""

    status: int
    stdout: str
    stderr: str

    @property
    def whole(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.stdout)
        return document

    @property
    def rules(self) -> list[str]:
        return [finding["rule"] for finding in self.whole["findings"]]

    def finding(self, rule: str) -> dict[str, Any]:
        return next(finding for finding in self.whole["findings"] if finding["rule"] == rule)


class Recorder(Silent):
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def hub() -> Iterator[GitHub]:
    with github_server() as server:
        yield server


@pytest.fixture
def settings(hub: GitHub) -> Settings:
    """A repository in which nothing is wrong."""
    settings = settle(hub)
    settings.files[RELEASE] = CALLER.encode()
    settings.environments["pypi"] = {
        "protection_rules": [{"id": 1, "node_id": "text", "type": "required_reviewers"}],
        "deployment_branch_policy": None,
    }
    settings.secrets.add("S3_KEY")
    tags = {"v2.0.0": "4" * 40, "v1.4.0": NEW, "v1.3.0": "5" * 40, "v1.2.0": OLD, "v1": NEW}
    files = {(ref, ".github/workflows/wheels.yml"): WHEELS for ref in (NEW, OLD, LOOSE, "v1")}
    files |= {(ref, ".github/workflows/publish.yml"): PUBLISH for ref in (NEW, OLD, LOOSE, "v1")}
    settings.elsewhere["octo-tools/fatwheel"] = Elsewhere(tags, files, {LOOSE: 7})
    settings.elsewhere["pypa/gh-action-pypi-publish"] = Elsewhere({"v1.14.0": NEW})
    return settings


def doctor(hub: GitHub, repository: str = REPOSITORY, *, fix: bool = False, **environ: str) -> Told:
    """Return what is found, and what a user is told where nothing could be."""
    recorder = Recorder()
    variables = {"GH_TOKEN": TOKEN, "GITHUB_API_URL": hub.url, **environ}
    outside = Outside(environ=variables, cache=Path("nowhere"), reporter=recorder)
    try:
        checked = check(Hub(repository, outside, pause=0.01, patience=5), fix=fix)
    except FatwheelError as error:
        return Told(error.status, "", str(error))
    return Told(status(checked), json.dumps(to_json(checked), indent=1, ensure_ascii=False), "\n".join(recorder.lines))


def command(hub: GitHub, *arguments: str, **environ: str) -> Told:
    """Return what the command line says."""
    variables = {**os.environ, "GH_TOKEN": TOKEN, "GITHUB_API_URL": hub.url, "NO_COLOR": "1", **environ}
    ran = run_prepared(["doctor", *arguments], env=variables, timeout=100)
    return Told(ran.returncode, ran.stdout, ran.stderr)


def replaced(settings: Settings, old: str, new: str, path: str = RELEASE) -> None:
    text = settings.files[path].decode()
    assert old in text
    settings.files[path] = text.replace(old, new).encode()


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


FATWHEEL = "octo-tools/fatwheel/**@*"
GRANTS = "permissions: { contents: read, id-token: write, attestations: write }"
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
    settings.files[RELEASE] = b"on: push\njobs: {a: {steps: [{uses: ./x}]}, b: {uses: ./.github/workflows/wheels.yml}}"
    assert doctor(hub).rules == ["no-caller"]


def test_a_ref_that_github_cannot_process(hub: GitHub, settings: Settings) -> None:
    replaced(settings, f"wheels.yml@{NEW}", "wheels.yml@a..b")
    hub.routes.insert(0, ("GET", "/repos/octo-tools/fatwheel/contents/.*/wheels.yml", lambda *_: refusal(422, "no")))
    told = doctor(hub)
    assert (told.status, set(told.rules)) == (1, {"unseen", "moving"})


def test_many_files_many_tags_and_many_secrets_are_read_page_by_page(hub: GitHub, settings: Settings) -> None:
    settings.files |= {f".github/workflows/x{n}.yml": b"on: push\njobs: {a: {permissions: {}}}" for n in range(110)}
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
    "secrets-inherited": edit('secrets: { S3_KEY: "${{ secrets.S3_KEY }}" }', "secrets: inherit"),
    "the-grants-of-the-workflow": lambda settings: (
        edit("permissions: {}", "permissions: { contents: write, id-token: write, attestations: write }")(settings),
        edit(f"    {GRANTS}", "")(settings),
    ),
    "a-password-in-place-of-trust": lambda settings: (
        edit("environment: pypi", "")(settings),
        edit("# v1.14.0", '\n        with: { password: "${{ secrets.S3_KEY }}" }')(settings),
    ),
    "another-workflow-without-grants": lambda settings: settings.files.update(
        {".github/workflows/ci.yml": b"on: push\njobs: {lint: {steps: [{uses: actions/checkout@v4}]}}"}
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


# -- fixing


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


# -- wrong names, weak networks


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
@pytest.mark.parametrize("fault", [Fault.CLOSE, Fault.CUT, rate_limited(), refusal(502, "Bad Gateway")])
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


# -- hostile files

HOSTILE = {
    "aliases": b"a: &a [x, x]\n" + b"".join(b"b%d: &b%d [*a, *a]\n" % (n, n) for n in range(2000)) + b"jobs: {x: {}}",
    "laughs": b"a0: &a0 [x]\n" + b"".join(b"a%d: &a%d [*a%d, *a%d]\n" % (n, n, n - 1, n - 1) for n in range(1, 90)),
    "loop": b"on: push\njobs: &j {x: &x {steps: [*x], with: *j}}",
    "deep": b"[" * 200_000,
    "keys": b"{" * 50_000,
    "huge": b"#" * 2_000_000,
    "no-text": b"\xff\xfe\x00jobs",
    "no-character": b'on: "\\UFFFFFFFF"',
    "no-code-point": b'on: "\\U00110000"',
    "tags": b"on: !!python/object/apply:os.system [echo pwned]\njobs: {x: {steps: !!binary aGk=}}",
    "commands": b'on: push\njobs:\n  x: {uses: "a/fatwheel/::error::@##[error]\\e[31m", secrets: {"\\n::error::x": y}}',
    "names": b'on: push\njobs: {"x\\n::error::pwned": {uses: a/fatwheel@v1}}',
    "outside": b"on: push\njobs: {x: {uses: ../..%2f/fatwheel/../../user@v1, steps: [{uses: a/..@v1}]}}",
    "expressions": b"on: push\njobs: {x: {uses: a/fatwheel@v1, env: {A: '" + b"${{" * 50_000 + b"'}}}",
    "environment": b"on: push\njobs: {x: {uses: a/fatwheel@v1, environment: 'x; rm -rf $HOME', "
    b"env: {A: '${{secrets.B}}'}}}",
    "steps": b"x: &s {run: '"
    + b"gh release " * 5_000
    + b"'}\non: push\njobs: {x: {steps: ["
    + b"*s," * 20_000
    + b"]}}",
    "script": b"x: &r '"
    + b"fatwheel publish " * 6_000
    + b"'\non: push\njobs: {x: {steps: ["
    + b"{run: *r}," * 10_000
    + b"]}}",
    "merged": b"on: push\njobs: {x: {<<: *nowhere}}",
    "two": b"on: push\n---\non: push",
    "empty": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_hurt_nobody(name: str, hub: GitHub, settings: Settings) -> None:
    settings.files[f".github/workflows/{name}.yml"] = HOSTILE[name]
    told = doctor(hub)
    assert (told.status in {0, 1}, command_like(told)) == (True, []), told.stderr


def test_no_hostile_file_tells_a_runner_or_a_terminal_anything(hub: GitHub, settings: Settings) -> None:
    settings.files |= {f".github/workflows/{name}.yml": data for name, data in HOSTILE.items()}
    told = command(hub, REPOSITORY)
    assert (told.status, "Traceback" in told.stderr, command_like(told)) == (1, False, []), told.stderr


def command_like(told: Told) -> list[str]:
    """Return the lines that a runner would take for a command, and those that move a cursor."""
    lines = (told.stdout + told.stderr).splitlines()
    return [line for line in lines if line.lstrip().startswith("::") or "##[" in line or "\x1b" in line]


def test_a_name_of_a_hostile_environment_is_quoted_in_a_command(hub: GitHub, settings: Settings) -> None:
    settings.files[".github/workflows/x.yml"] = HOSTILE["environment"]
    assert "--env 'x; rm -rf $HOME'" in doctor(hub).finding("secret")["how"]


def test_no_secret_and_no_token_is_ever_shown(hub: GitHub, settings: Settings, tmp_path: Path) -> None:
    settings.secrets.clear()
    replaced(settings, "environment: pypi", f"environment: pypi\n    env: {{ PASSWORD: hunter2 }} # {tmp_path}")
    told = command(hub, REPOSITORY)
    assert TOKEN not in told.stdout + told.stderr
    assert "hunter2" not in told.stdout + told.stderr


@pytest.mark.parametrize(
    ("project", "rules"),
    [
        pytest.param('[project]\ndependencies = ["fatwheel-plugin"]\n', [], id="only-its-name"),
        pytest.param("# fatwheel\n[project\n", ["unseen"], id="no-toml"),
        pytest.param("[tool.fatwheel.platforms]\nlinux-rocm.own-workflow = true\n", ["own-workflow"], id="a-table"),
    ],
)
def test_a_config_in_pyproject_is_read_where_there_is_one(
    project: str, rules: list[str], hub: GitHub, settings: Settings
) -> None:
    without = doctor(hub).rules
    settings.files["pyproject.toml"] = project.encode()
    assert sorted(doctor(hub).rules) == sorted([*without, *rules])
