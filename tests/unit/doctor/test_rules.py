"""What follows from the facts of a repository."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.doctor.report import (
    FINDINGS,
    Default,
    DoctorFinding,
    GithubEnvironment,
    Kind,
    Policy,
    RepositoryFacts,
    RepositoryTag,
    Unseen,
    Weight,
)
from ci_tools.doctor.rules import diagnose
from ci_tools.doctor.rules.expressions import MISTAKES
from tests.builders.repository_facts import CALLED, FACTS, FATWHEEL, NEW, OLD, found, with_job, workflow

ROOT = Path(__file__).parents[3]


def test_nothing_is_wrong() -> None:
    assert found(FACTS) == []


@pytest.mark.parametrize(
    ("patterns", "verified", "rules"),
    [
        pytest.param(("octo-tools/fatwheel/**@*",), False, [], id="all-of-a-repository"),
        pytest.param(("OCTO-tools/Fatwheel/.github/workflows/*@" + NEW,), False, [], id="one-commit-in-other-letters"),
        pytest.param(("*",), False, [], id="everything"),
        pytest.param(("octo-tools/**",), False, [], id="all-of-an-owner"),
        pytest.param(("octo-tools/*",), False, [("unseen", "not seen")], id="a-star-that-may-stop-at-a-slash"),
        pytest.param((), True, [("unseen", "not seen")], id="perhaps-verified"),
        pytest.param((), False, [("not-allowed", "error")], id="nothing"),
        pytest.param(("octo-tools/fatwheel@*",), False, [("not-allowed", "error")], id="the-action-alone"),
        pytest.param(("*", "!octo-tools/**"), True, [("not-allowed", "error")], id="blocked"),
        pytest.param(("*", "!octo-tools/*"), True, [("unseen", "not seen")], id="perhaps-blocked"),
        pytest.param(("[", "(", "octo-tools/fatwheel/**"), False, [], id="no-pattern-breaks-it"),
    ],
)
def test_which_actions_a_list_lets_run(patterns: tuple[str, ...], verified: bool, rules: list[tuple[str, str]]) -> None:  # noqa: FBT001 - a table's column
    policy = Policy(is_enabled=True, allowed="selected", patterns=patterns, of_github=True, verified=verified)
    call = FATWHEEL.replace("octo/", "octo-tools/")
    facts = with_job(f"{{uses: '{call}', permissions: {{contents: write}}}}", policy=policy)
    key = ("octo-tools/fatwheel", "/.github/workflows/wheels.yml", NEW)
    assert found(replace(facts, called={key: CALLED})) == rules


@pytest.mark.parametrize(
    ("default", "rules"),
    [
        pytest.param(Default("read", approves=False), [("permissions", "error")], id="read"),
        pytest.param(Default("write", approves=False), [("default-write", "warning")], id="write"),
        pytest.param(Unseen("it", "x"), [("permissions", "warning"), ("unseen", "not seen")], id="not-seen"),
    ],
)
def test_a_job_without_grants_hangs_on_the_default(default: Default | Unseen, rules: list[tuple[str, str]]) -> None:
    assert found(with_job(f"{{uses: '{FATWHEEL}'}}", default=default)) == rules


def test_a_called_job_asks_for_what_it_says_and_not_for_what_its_steps_need() -> None:
    called = workflow("on: workflow_call\njobs: {a: {permissions: {}, steps: [{run: gh release create}]}}")
    facts = with_job(f"{{uses: '{FATWHEEL}', permissions: {{}}}}", called=dict.fromkeys(FACTS.called, called))
    assert found(facts) == []


def test_no_default_gives_an_identity() -> None:
    called = workflow("on: workflow_call\njobs: {a: {permissions: {id-token: write}}}")
    facts = with_job(f"{{uses: '{FATWHEEL}'}}", default=Default("write", approves=False))
    facts = replace(facts, called=dict.fromkeys(FACTS.called, called))
    assert ("permissions", "error") in found(facts)


def test_a_default_is_only_narrowed_where_nothing_lives_on_it() -> None:
    facts = replace(FACTS, default=Default("write", approves=False))
    assert [finding.fix and finding.fix.kind for finding in diagnose(facts)] == [Kind.READ_BY_DEFAULT]
    with_bare = replace(facts, workflows=(*facts.workflows, workflow("on: push\njobs: {lint: {}}")))
    unread = replace(facts, unread=(("x.yml", "no text"),))
    assert {finding.fix for changed in (with_bare, unread) for finding in diagnose(changed)} == {None}


def test_no_finding_ever_asks_for_a_wider_default() -> None:
    findings = diagnose(with_job(f"{{uses: '{FATWHEEL}'}}"))
    assert findings
    assert not any("default_workflow_permissions" in finding.how for finding in findings)


@pytest.mark.parametrize(
    ("environments", "rules"),
    [
        pytest.param({}, [("environment", "error")], id="missing"),
        pytest.param({"PyPI": GithubEnvironment(True, False, frozenset())}, [], id="approved"),  # noqa: FBT003 - a table
        pytest.param({"pypi": GithubEnvironment(False, True, frozenset())}, [], id="branches"),  # noqa: FBT003 - a table
        pytest.param(
            {"pypi": GithubEnvironment(False, False, frozenset())},  # noqa: FBT003 - a table
            [("environment-open", "warning")],
            id="open",
        ),
        pytest.param(Unseen("the environments", "x"), [("unseen", "not seen")], id="not-seen"),
    ],
)
def test_environments(environments: dict[str, GithubEnvironment] | Unseen, rules: list[tuple[str, str]]) -> None:
    text = f"{{uses: '{FATWHEEL}', permissions: {{contents: write}}, environment: pypi}}"
    assert found(with_job(text, environments=environments)) == rules


@pytest.mark.parametrize(
    ("of_environment", "of_repository", "is_known"),
    [
        pytest.param(frozenset({"KEY"}), frozenset(), True, id="of-the-environment"),
        pytest.param(frozenset(), frozenset({"key"}), True, id="of-the-repository"),
        pytest.param(frozenset(), frozenset(), False, id="of-nobody"),
        pytest.param(Unseen("it", "x"), frozenset(), None, id="environment-not-seen"),
        pytest.param(frozenset(), Unseen("it", "x"), None, id="repository-not-seen"),
    ],
)
def test_secrets(
    of_environment: frozenset[str] | Unseen, of_repository: frozenset[str] | Unseen, is_known: bool | None  # noqa: FBT001 - a table's column
) -> None:  # fmt: skip
    named = "environment: e, env: {A: '${{ secrets.key }}'}"
    text = f"{{uses: '{FATWHEEL}', permissions: {{contents: write}}, {named}}}"
    environments = {"e": GithubEnvironment(True, True, of_environment)}  # noqa: FBT003 - rules and branches
    rules = {True: [], False: [("secret", "error")], None: [("unseen", "not seen")]}
    assert found(with_job(text, environments=environments, secrets=of_repository)) == rules[is_known]


@pytest.mark.parametrize(
    ("ref", "tags", "words"),
    [
        pytest.param(
            "v1",
            (RepositoryTag("v2.0.0", OLD), RepositoryTag("v1.9.1", NEW), RepositoryTag("v1", NEW)),
            f"@{NEW} # v1.9.1",
            id="a-major",
        ),
        pytest.param(
            "release/v1",
            (RepositoryTag("v1.10.0", NEW), RepositoryTag("v1.9.0", OLD)),
            f"@{NEW} # v1.10.0",
            id="its-branch",
        ),
        pytest.param(
            "main", (RepositoryTag("v2.0.0", NEW), RepositoryTag("v1.0.0", OLD)), f"@{NEW} # v2.0.0", id="branch"
        ),
        pytest.param(
            "v3", (RepositoryTag("v3.0.0-rc1", NEW), RepositoryTag("nightly", NEW)), "@SHA # vX.Y.Z", id="no-release"
        ),
    ],
)
def test_what_moves_is_to_be_pinned_to_a_commit(ref: str, tags: tuple[RepositoryTag, ...], words: str) -> None:
    call = FATWHEEL.replace(NEW, ref)
    facts = with_job(f"{{uses: '{call}', permissions: {{contents: write}}}}", tags={"octo/fatwheel": tags})
    facts = replace(facts, called={("octo/fatwheel", "/.github/workflows/wheels.yml", ref): CALLED})
    [finding] = diagnose(facts)
    assert (finding.rule, finding.how.endswith(words)) == ("moving", True), finding


@pytest.mark.parametrize(
    ("used", "words"),
    [
        pytest.param("OWNER/fatwheel/.github/workflows/wheels.yml@SHA", "OWNER and SHA in OWNER/", id="as-it-is-shown"),
        pytest.param("OWNER/fatwheel/.github/workflows/wheels.yml@v1", "OWNER in OWNER/", id="no-owner"),
        pytest.param("octo/fatwheel/.github/workflows/wheels.yml@SHA", "SHA in octo/", id="no-commit"),
    ],
)
def test_a_placeholder_of_the_documentation_is_named(used: str, words: str) -> None:
    repository, ref = "/".join(used.split("/")[:2]), used.rpartition("@")[2]
    called = {(repository, "/.github/workflows/wheels.yml", ref): Unseen("it", "x")}
    [finding] = diagnose(with_job(f"{{uses: '{used}', permissions: {{contents: write}}}}", called=called))
    assert (finding.rule, finding.what.startswith(words)) == ("placeholder", True)


@pytest.mark.parametrize(
    ("tags", "what"),
    [
        pytest.param(
            (RepositoryTag("v1.1.0", OLD), RepositoryTag("v1.0.0", NEW)), "v1.0.0, 1 release behind v1.1.0", id="one"
        ),
        pytest.param(
            (RepositoryTag("v1.2.0", OLD), RepositoryTag("v1.1.0", "3" * 40), RepositoryTag("v1.0.0", NEW)),
            "2 releases behind v1.2.0",
            id="two",
        ),
        pytest.param((RepositoryTag("v2.0.0", OLD), RepositoryTag("v1.0.0", NEW)), "", id="another-major"),
        pytest.param((RepositoryTag("v1.1.0rc1", OLD), RepositoryTag("v1.0.0", NEW)), "", id="a-candidate"),
        pytest.param((), "", id="no-release"),
    ],
)
def test_how_far_a_pin_is_behind(tags: tuple[RepositoryTag, ...], what: str) -> None:
    findings = diagnose(replace(FACTS, tags={"octo/fatwheel": tags}))
    assert [finding.what.endswith(what) for finding in findings] == ([True] if what else []), findings


def test_what_is_not_of_fatwheel_is_behind_as_a_hint() -> None:
    text = f"\n    permissions: {{}}\n    steps: [{{uses: octo/x@{OLD}}}, {{uses: octo/fatwheel@{NEW}}}]"
    tags = {**FACTS.tags, "octo/x": (RepositoryTag("v1.1.0", NEW), RepositoryTag("v1.0.0", OLD))}
    assert found(with_job(text, tags=tags)) == [("behind", "hint")]


def test_the_worst_comes_first() -> None:
    facts = replace(FACTS, is_archived=True, is_immutable=False, default=Default("write", approves=True))
    assert [finding.weight for finding in diagnose(facts)] == [Weight.ERROR, Weight.WARNING, Weight.HINT, Weight.HINT]


def test_our_own_workflows_are_called_without_a_ref() -> None:
    text = "on: push\njobs: {it: {uses: ./.github/workflows/wheels.yml}, own: {steps: [{uses: ./}]}}"
    own = workflow(text, own="octo/fatwheel")
    called = {("octo/fatwheel", "/.github/workflows/wheels.yml", ""): CALLED}
    facts = replace(FACTS, repository="octo/fatwheel", workflows=(own,), called=called)
    assert ([job.is_build for job in own.jobs], found(facts)) == ([True, True], [("permissions", "error")])


def with_recipes(file: str, permissions: str, **facts: object) -> RepositoryFacts:
    """Return the facts of a repository of recipes, whose workflow calls ours as it stands."""
    ours = workflow((ROOT / ".github/workflows" / file).read_text(encoding="utf-8"), own="octo/fatwheel")
    call = f"octo/fatwheel/.github/workflows/{file}@{NEW}"
    job = f"{{uses: '{call}', permissions: {{{permissions}}}}}"
    return with_job(job, called={("octo/fatwheel", f"/.github/workflows/{file}", NEW): ours}, **facts)


ASKED = {
    "recipes.yml": "contents: write, id-token: write, attestations: write",
    "request.yml": "contents: write, issues: write, id-token: write, attestations: write",
}


@pytest.mark.parametrize("file", [*ASKED])
def test_a_workflow_of_recipes_needs_what_ours_asks_for(file: str) -> None:
    assert found(with_recipes(file, ASKED[file])) == []
    for left in ASKED[file].split(", "):
        fewer = ", ".join(one for one in ASKED[file].split(", ") if one != left)
        [finding] = diagnose(with_recipes(file, fewer))
        assert (finding.rule, finding.what) == ("permissions", f"it lacks `{left}`")


@pytest.mark.parametrize("file", [*ASKED])
def test_recipes_of_a_private_repository_choose_whether_they_are_attested(file: str) -> None:
    [finding] = diagnose(with_recipes(file, ASKED[file], is_private=True, is_organization=False))
    assert (finding.rule, finding.how) == ("attestation", "in that job: `attest: never`")


def test_a_call_of_recipes_that_is_not_there_is_an_error() -> None:
    facts = replace(with_recipes("recipes.yml", ASKED["recipes.yml"]), called={})
    assert ("not-there", "error") in found(facts)


def test_a_stranger_may_not_start_a_build() -> None:
    text = FACTS.workflows[0]
    facts = replace(FACTS, workflows=(replace(text, triggers=("pull_request_target",)),))
    assert found(facts) == [("target", "error")]


def test_every_finding_says_all_that_a_reader_needs() -> None:
    nothing = RepositoryFacts(
        repository="octo/demo",
        page="https://github.com/octo/demo",
        branch="main",
        is_archived=True,
        policy=Unseen("a", "b"),
        default=Unseen("a", "b"),
        is_immutable=Unseen("a", "b"),
        states=Unseen("a", "b"),
        environments=Unseen("a", "b"),
        secrets=Unseen("a", "b"),
        called={},
        tags={},
        behind={},
    )
    findings = diagnose(nothing)
    assert len(findings) > 4
    assert all(all(finding[: DoctorFinding._fields.index("fix")]) for finding in findings)


def test_the_guide_has_every_rule() -> None:
    guide = (ROOT / "docs/how-to/check-a-repository.md").read_text(encoding="utf-8")
    modules = [*(ROOT / "ci_tools/doctor/rules").glob("*.py"), ROOT / "ci_tools/github/workflow_keys.py"]
    code = "\n".join(path.read_text(encoding="utf-8") for path in modules)
    rules = {*re.findall(r'(?:Finding|Flaw)\(\s*"([a-z-]+)"', code), *(name.partition("/")[0] for name in FINDINGS)}
    rows = re.findall(r"^\| ((?:`[a-z-]+`(?:, )?)+) \|", guide, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"[a-z-]+", row)} == rules
    said = [*re.findall(r'report\(\s*f?"([a-z-]+)', code), *(row.get("rule", "comparison") for row in MISTAKES)]
    assert {name.partition("/")[0] for name in said} | {"unseen"} == {name.partition("/")[0] for name in FINDINGS}
