"""What is read in workflow files, and what follows from the facts of a repository."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.errors import InputError, RejectedInput
from ci_tools.github.doctor.grants import access, lacking, unite_grants
from ci_tools.github.doctor.nodes import one_line
from ci_tools.github.doctor.report import (
    Default,
    Environment,
    Facts,
    Finding,
    Kind,
    Policy,
    Tag,
    Unseen,
    Weight,
)
from ci_tools.github.doctor.rules import diagnose
from ci_tools.github.doctor.workflow_files import read_config, read_included, read_workflow
from ci_tools.github.doctor.workflows import INHERITED, Job, Used, Workflow, qualify_calls

ROOT = Path(__file__).parents[4]
PATH = ".github/workflows/release.yml"
NEW, OLD = "1" * 40, "2" * 40
FATWHEEL = f"octo/fatwheel/.github/workflows/wheels.yml@{NEW}"


def workflow(text: str) -> Workflow:
    return read_workflow(text, PATH)


def job(text: str) -> Job:
    return workflow(f"on: push\njobs:\n  it: {text}\n").jobs[0]


# -- reading


@pytest.mark.parametrize(
    ("written", "grants"),
    [
        pytest.param("", None, id="none"),
        pytest.param("permissions: {}", {}, id="empty"),
        pytest.param("permissions:", {}, id="null"),
        pytest.param("permissions: read-all", {"*": "read"}, id="read-all"),
        pytest.param("permissions: write-all", {"*": "write"}, id="write-all"),
        pytest.param("permissions: { pages: write, checks: none }", {"pages": "write", "checks": "none"}, id="one"),
        pytest.param("permissions: { contents: admin }", {}, id="no-such-access"),
    ],
)  # fmt: skip
def test_permissions_are_read_as_github_reads_them(written: str, grants: dict[str, str] | None) -> None:
    assert workflow(f"on: push\n{written}\njobs: {{it: {{}}}}").grants == grants


@pytest.mark.parametrize(
    ("written", "used"),
    [
        pytest.param(FATWHEEL, ("octo/fatwheel", "/.github/workflows/wheels.yml", NEW), id="workflow"),
        pytest.param("Octo/fatwheel@v1", ("Octo/fatwheel", "", "v1"), id="action"),
        pytest.param("octo/x/sub/@release/v1", ("octo/x", "/sub", "release/v1"), id="folder-and-branch"),
        pytest.param("./.github/workflows/wheels.yml", ("", "/.github/workflows/wheels.yml", ""), id="own"),
        pytest.param("$/.github/actions/setup", ("", "/.github/actions/setup", ""), id="own-where-it-is-called"),
        pytest.param("docker://alpine:3", None, id="container"),
        pytest.param("octo/fatwheel", None, id="without-ref"),
        pytest.param("octo/..@v1", None, id="parent"),
        pytest.param("octo/x/../../user@v1", None, id="path-upwards"),
        pytest.param("octo/x y@v1", None, id="space"),
    ],
)
def test_what_a_uses_names(written: str, used: tuple[str, str, str] | None) -> None:
    call = job(f"{{uses: '{written}'}}").call
    assert (call and call[:3]) == used


@pytest.mark.parametrize(
    ("written", "needs"),
    [
        pytest.param("uses: pypa/gh-action-pypi-publish@v1", {"id-token": "write"}, id="trusted-publishing"),
        pytest.param(
            "{uses: PyPA/gh-action-pypi-publish@v1, with: {password: '${{ secrets.PYPI }}'}}", {}, id="password"
        ),
        pytest.param("run: gh release upload v1 x.whl", {"contents": "write"}, id="gh"),
        pytest.param("run: gh release list", {}, id="gh-that-reads"),
        pytest.param("run: fatwheel publish dist --to github:octo/demo", {"contents": "write"}, id="fatwheel"),
        pytest.param("run: fatwheel publish dist --to s3://x", {}, id="fatwheel-elsewhere"),
        pytest.param("{run: gh release create, env: {GH_TOKEN: '${{ secrets.PAT }}'}}", {}, id="own-token"),
        pytest.param(
            "uses: actions/attest-build-provenance@v3", {"attestations": "write", "id-token": "write"}, id="attest"
        ),
    ],
)
def test_what_a_step_needs_of_the_token(written: str, needs: dict[str, str]) -> None:
    assert job(f"\n    steps:\n      - {written}").needs == needs


@pytest.mark.parametrize(
    ("written", "names"),
    [
        pytest.param("${{ secrets.A }}", {"A"}, id="dot"),
        pytest.param("${{ secrets['b-c'] || secrets [ \"D\" ] }}", {"B", "D"}, id="brackets"),
        pytest.param("${{secrets.a}}${{ toJSON(secrets.b) }}", {"A", "B"}, id="two"),
        pytest.param("${{ secrets.GITHUB_TOKEN }}", set(), id="the-run-has-it"),
        pytest.param("python -c 'import secrets; secrets.token_hex()'", set(), id="no-expression"),
        pytest.param("${{ mysecrets.A }}", set(), id="another-name"),
        pytest.param("${{ secrets.A", {"A"}, id="unclosed"),
    ],
)
def test_which_secrets_are_named(written: str, names: set[str]) -> None:
    quoted = written.replace("'", "''")
    assert job(f"{{env: {{X: '{quoted}'}}}}").secrets == names


@pytest.mark.parametrize(
    ("written", "environment"),
    [
        pytest.param("{environment: pypi}", "pypi", id="text"),
        pytest.param("{environment: {name: pypi, url: x}}", "pypi", id="mapping"),
        pytest.param("{with: {environment: release}}", "release", id="told-to-fatwheel"),
        pytest.param("{}", "", id="none"),
    ],
)
def test_the_environment_of_a_job(written: str, environment: str) -> None:
    assert job(written).environment == environment


@pytest.mark.parametrize(
    ("written", "triggers"),
    [
        pytest.param("push", ("push",), id="one"),
        pytest.param("[push, schedule]", ("push", "schedule"), id="list"),
        pytest.param("{pull_request_target: {}, push: }", ("pull_request_target", "push"), id="mapping"),
    ],
)
def test_the_events_that_start_a_workflow(written: str, triggers: tuple[str, ...]) -> None:
    assert workflow(f"on: {written}\njobs: {{it: {{}}}}").triggers == triggers


def test_a_job_says_where_it_stands_and_one_of_an_alias_too() -> None:
    read_jobs = workflow("on: push\njobs:\n  one: &it\n    # a comment\n    steps: []\n  two: *it\n").jobs
    assert [(job.name, job.where) for job in read_jobs] == [("one", f"{PATH}:3"), ("two", f"{PATH}:6")]


def test_what_is_passed_and_what_is_required() -> None:
    called = "on: {workflow_call: {secrets: {A: {required: true}, B: {required: false}, C: }}}\njobs: {it: {}}"
    assert workflow(called).required == {"A"}
    assert job("{secrets: inherit}").passed == {INHERITED}
    assert job("{secrets: {A: x}}").passed == {"A"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", "no jobs", id="empty"),
        pytest.param("on: [push\njobs: {}", f"{PATH}:2:", id="broken"),
        pytest.param('on: "\\UFFFFFFFF"', "an escape in it is of no character", id="no-character"),
        pytest.param("jobs: {'a b': {}}", "is not a valid name for a job", id="name"),
        pytest.param("jobs: {" + "".join(f"j{n}: {{}}," for n in range(600)) + "}", "at most 500", id="jobs"),
        pytest.param("- push", "no jobs", id="list"),
    ],
)
def test_what_is_no_workflow(text: str, words: str) -> None:
    with pytest.raises(RejectedInput, match=words):
        workflow(text)


def test_a_name_of_others_is_one_line_that_commands_nobody() -> None:
    assert one_line("a\n::error::b\x1b[31m##[warning]c") == "a ::error::b [31m# #[warning]c"
    assert one_line("x" * 300) == "x" * 200 + "…"


def test_grants_are_compared_and_united() -> None:
    assert [access({"*": "read"}, "contents"), access({}, "contents")] == ["read", "none"]
    assert unite_grants([{"a": "read", "b": "none"}, {"a": "write"}]) == {"a": "write"}
    assert lacking({"*": "read", "id-token": "write"}, {"contents": "write", "id-token": "write"}) == {
        "contents": "write"
    }


def test_our_own_workflows_are_read_and_need_no_default() -> None:
    for path in sorted((ROOT / ".github/workflows").glob("*.yml")):
        own = read_workflow(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
        bare = [job for job in own.jobs if own.grants_of(job) is None]
        assert [job.where for job in bare if own.triggers != ("workflow_call",)] == []
        assert all(job.name == "publish" for job in bare)  # which may do what its caller grants


# -- judging

CALLED = workflow("on: workflow_call\npermissions: {}\njobs: {a: {permissions: {contents: write}}}")
FACTS = Facts(
    repository="octo/demo",
    page="https://github.com/octo/demo",
    branch="main",
    policy=Policy(is_enabled=True),
    default=Default("read", approves=False),
    is_immutable=True,
    workflows=(workflow(f"on: push\njobs: {{it: {{uses: '{FATWHEEL}', permissions: {{contents: write}}}}}}"),),
    states={},
    environments={},
    secrets=frozenset(),
    called={("octo/fatwheel", "/.github/workflows/wheels.yml", NEW): CALLED},
    tags={"octo/fatwheel": (Tag("v1.1.0", NEW), Tag("v1.0.0", OLD), Tag("v1", NEW))},
    behind={},
)


def found(facts: Facts) -> list[tuple[str, str]]:
    return [(finding.rule, str(finding.weight)) for finding in diagnose(facts)]


def with_job(text: str, **facts: object) -> Facts:
    return replace(FACTS, workflows=(workflow(f"on: push\njobs:\n  it: {text}"),), **facts)  # type: ignore[arg-type]


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
        pytest.param({"PyPI": Environment(True, False, frozenset())}, [], id="approved"),  # noqa: FBT003 - a table
        pytest.param({"pypi": Environment(False, True, frozenset())}, [], id="branches"),  # noqa: FBT003 - a table
        pytest.param({"pypi": Environment(False, False, frozenset())}, [("environment-open", "warning")], id="open"),  # noqa: FBT003 - a table
        pytest.param(Unseen("the environments", "x"), [("unseen", "not seen")], id="not-seen"),
    ],
)  # fmt: skip
def test_environments(environments: dict[str, Environment] | Unseen, rules: list[tuple[str, str]]) -> None:
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
    environments = {"e": Environment(True, True, of_environment)}  # noqa: FBT003 - rules and branches
    rules = {True: [], False: [("secret", "error")], None: [("unseen", "not seen")]}
    assert found(with_job(text, environments=environments, secrets=of_repository)) == rules[is_known]


@pytest.mark.parametrize(
    ("ref", "tags", "words"),
    [
        pytest.param("v1", (Tag("v2.0.0", OLD), Tag("v1.9.1", NEW), Tag("v1", NEW)), f"@{NEW} # v1.9.1", id="a-major"),
        pytest.param("release/v1", (Tag("v1.10.0", NEW), Tag("v1.9.0", OLD)), f"@{NEW} # v1.10.0", id="its-branch"),
        pytest.param("main", (Tag("v2.0.0", NEW), Tag("v1.0.0", OLD)), f"@{NEW} # v2.0.0", id="branch"),
        pytest.param("v3", (Tag("v3.0.0-rc1", NEW), Tag("nightly", NEW)), "@SHA # vX.Y.Z", id="no-release"),
    ],
)  # fmt: skip
def test_what_moves_is_to_be_pinned_to_a_commit(ref: str, tags: tuple[Tag, ...], words: str) -> None:
    call = FATWHEEL.replace(NEW, ref)
    facts = with_job(f"{{uses: '{call}', permissions: {{contents: write}}}}", tags={"octo/fatwheel": tags})
    facts = replace(facts, called={("octo/fatwheel", "/.github/workflows/wheels.yml", ref): CALLED})
    [finding] = diagnose(facts)
    assert (finding.rule, finding.how.endswith(words)) == ("moving", True), finding


@pytest.mark.parametrize(
    ("tags", "what"),
    [
        pytest.param((Tag("v1.1.0", OLD), Tag("v1.0.0", NEW)), "v1.0.0, 1 release behind v1.1.0", id="one"),
        pytest.param(
            (Tag("v1.2.0", OLD), Tag("v1.1.0", "3" * 40), Tag("v1.0.0", NEW)), "2 releases behind v1.2.0", id="two"
        ),
        pytest.param((Tag("v2.0.0", OLD), Tag("v1.0.0", NEW)), "", id="another-major"),
        pytest.param((Tag("v1.1.0rc1", OLD), Tag("v1.0.0", NEW)), "", id="a-candidate"),
        pytest.param((), "", id="no-release"),
    ],
)
def test_how_far_a_pin_is_behind(tags: tuple[Tag, ...], what: str) -> None:
    findings = diagnose(replace(FACTS, tags={"octo/fatwheel": tags}))
    assert [finding.what.endswith(what) for finding in findings] == ([True] if what else []), findings


def test_what_is_not_of_fatwheel_is_behind_as_a_hint() -> None:
    text = f"\n    permissions: {{}}\n    steps: [{{uses: octo/x@{OLD}}}, {{uses: octo/fatwheel@{NEW}}}]"
    tags = {**FACTS.tags, "octo/x": (Tag("v1.1.0", NEW), Tag("v1.0.0", OLD))}
    assert found(with_job(text, tags=tags)) == [("behind", "hint")]


def test_the_worst_comes_first() -> None:
    facts = replace(FACTS, is_archived=True, is_immutable=False, default=Default("write", approves=True))
    assert [finding.weight for finding in diagnose(facts)] == [Weight.ERROR, Weight.WARNING, Weight.HINT, Weight.HINT]


def test_our_own_workflows_are_called_without_a_ref() -> None:
    text = "on: push\njobs: {it: {uses: ./.github/workflows/wheels.yml}, own: {steps: [{uses: ./}]}}"
    own = qualify_calls(workflow(text), "octo/fatwheel")
    called = {("octo/fatwheel", "/.github/workflows/wheels.yml", ""): CALLED}
    facts = replace(FACTS, repository="octo/fatwheel", workflows=(own,), called=called)
    assert ([job.is_build for job in own.jobs], found(facts)) == ([True, True], [("permissions", "error")])


def with_recipes(file: str, permissions: str, **facts: object) -> Facts:
    """Return the facts of a repository of recipes, whose workflow calls ours as it stands."""
    ours = qualify_calls(workflow((ROOT / ".github/workflows" / file).read_text(encoding="utf-8")), "octo/fatwheel")
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
    nothing = Facts(
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
    assert all(all(finding[: Finding._fields.index("fix")]) for finding in findings)


def test_the_guide_has_every_rule() -> None:
    guide = (ROOT / "docs/how-to/check-a-repository.md").read_text(encoding="utf-8")
    modules = sorted((ROOT / "ci_tools/github/doctor/rules").glob("*.py"))
    code = "\n".join(path.read_text(encoding="utf-8") for path in modules)
    rules = set(re.findall(r'Finding\("([a-z-]+)"', code))
    assert set(re.findall(r"^\| `([a-z-]+)` \|", guide, re.MULTILINE)) == rules


def test_a_uses_reads_as_it_is_written() -> None:
    assert [str(Used("a/b", "/c", "v1", "")), str(Used("a/b", "/c", "", ""))] == ["a/b/c@v1", "a/b/c"]


CALL = f"uses: octo/fatwheel/.github/workflows/publish.yml@{'a' * 40}"
CHOSEN = "${{ needs.wheels.outputs.channel != 'nightly' && 'release' || '' }}"


@pytest.mark.parametrize(
    ("written", "rules"),
    [
        pytest.param(f'with: {{environment: "{CHOSEN}"}}', set(), id="what-the-guide-shows"),
        pytest.param(
            "with: {environment: \"${{ github.event_name == 'push' && 'release' || '' }}\"}",
            {"environment-by-event"},
            id="no-approval-by-hand",
        ),
        pytest.param("if: github.ref_type == 'tag'", {"published-by-event"}, id="every-tag"),
        pytest.param(
            "if: github.event_name != 'pull_request' && needs.wheels.outputs.channel != 'none'", set(), id="channel-too"
        ),
    ],
)
def test_what_is_released_hangs_on_no_event(written: str, rules: set[str]) -> None:
    said = {rule for rule, _ in found(with_job(f"\n    {CALL}\n    {written}"))}
    assert said & {"environment-by-event", "published-by-event"} == rules


def test_the_environment_of_all_but_nightlies_is_looked_for_by_its_name() -> None:
    facts = with_job(f'\n    {CALL}\n    with: {{environment: "{CHOSEN}"}}', environments={})
    assert [finding.what for finding in diagnose(facts) if finding.rule == "environment"] == [
        'there is no environment "release"'
    ]


# -- what is published, and from where

PINNED = "octo-tools/fatwheel/.github/workflows/{}.yml@" + NEW
PUBLISH = read_workflow("on: workflow_call\njobs:\n  publish: {steps: []}\n", ".github/workflows/publish.yml")
PLATFORM = read_workflow(
    "on: workflow_call\njobs:\n  tell: {permissions: {issues: write}}\n"
    "  publish: {uses: $/.github/workflows/publish.yml}\n",
    ".github/workflows/platform.yml",
)
WHEELS = read_workflow(
    "on: workflow_call\njobs:\n  attest: {permissions: {id-token: write}}\n", ".github/workflows/wheels.yml"
)
NAMED = {"publish": PUBLISH, "platform": PLATFORM, "wheels": WHEELS}
CONFIG = """\
platforms:
  linux-cpu:
  linux-rocm: { own-workflow: true }
  linux-xpu: { enabled: false, own-workflow: true }
publish: { targets: ["s3://wheels/whl", "github:octo/demo"] }
"""


def calling(*jobs: str, config: str = CONFIG, **more: object) -> Facts:
    """Return the facts of a repository with jobs that call Fatwheel: each a workflow's name, and the rest in YAML."""
    lines = [
        f"  j{number}: {{uses: {PINNED.format(name)}, {rest}}}"
        for number, (name, _, rest) in enumerate(text.partition(" ") for text in jobs)
    ]
    made = workflow("on: push\njobs:\n" + "\n".join(lines))
    called = {("octo-tools/fatwheel", f"/.github/workflows/{name}.yml", NEW): one for name, one in NAMED.items()}
    configs = {"fatwheel.yml": read_config(config, "fatwheel.yml")}
    return replace(FACTS, workflows=(made,), called=called, configs=configs, **more)  # type: ignore[arg-type]


BUILDS = "wheels permissions: {id-token: write}"
ROCM = "platform permissions: {id-token: write, issues: write}, with: {platform: linux-rocm}"


@pytest.mark.parametrize(
    ("job", "rules"),
    [
        pytest.param("permissions: {attestations: read, contents: write}", [], id="by-the-config"),
        pytest.param("permissions: {attestations: read}, with: {to: s3://x}", [], id="keys"),
        pytest.param(
            "permissions: {attestations: read, id-token: write}, with: {to: s3://x, aws-role: arn}", [], id="a-role"
        ),
        pytest.param("permissions: {}, with: {to: s3://x, attest: never}", ["attestation-differs"], id="unsigned"),
        pytest.param(
            "permissions: {actions: read, attestations: read}, with: {to: s3://x, run-id: 7}", [], id="another-run"
        ),
        pytest.param("permissions: {attestations: read}, with: {to: 'github:o/r'}", ["permissions"], id="no-release"),
        pytest.param("permissions: {contents: write}, with: {to: 'github:o/r'}", ["permissions"], id="no-attestation"),
        pytest.param(
            "permissions: {attestations: read, contents: write}, with: {to: s3://x}", ["permissions-in-vain"], id="more"
        ),
        pytest.param(
            "permissions: {attestations: read, contents: write}, with: {to: '${{ vars.X }}'}", [], id="not-known"
        ),
        pytest.param("permissions: {attestations: read}, with: {to: 'dir:x s3://x'}", ["folder"], id="a-folder"),
    ],
)
def test_publishing_is_granted_what_its_targets_need(job: str, rules: list[str]) -> None:
    assert [rule for rule, _ in found(calling(BUILDS, ROCM, f"publish {job}"))] == rules


@pytest.mark.parametrize(
    ("attest", "organization", "rules"),
    [
        pytest.param("", True, ["attestation"], id="not-chosen"),
        pytest.param("always", True, [], id="on-the-plan-that-can"),
        pytest.param("always", False, ["attestation"], id="no-person-has-that-plan"),
        pytest.param("never", False, [], id="without"),
        pytest.param("${{ vars.ATTEST }}", True, [], id="not-known"),
    ],
)
def test_a_private_repository_has_to_choose_whether_it_attests(
    attest: str,
    organization: bool,  # noqa: FBT001 - a table's column
    rules: list[str],
) -> None:
    job = f"{BUILDS}, with: {{attest: '{attest}'}}"
    facts = calling(job, config="platforms: {linux-cpu: }", is_private=True, is_organization=organization)
    assert [rule for rule, _ in found(facts)] == rules
    assert found(replace(facts, is_private=False)) == []


@pytest.mark.parametrize(
    ("config", "jobs", "rules"),
    [
        pytest.param(CONFIG, (BUILDS, ROCM), [], id="each-once"),
        pytest.param(CONFIG, (BUILDS,), ["own-workflow"], id="built-by-nobody"),
        pytest.param(CONFIG.replace("own-workflow: true", ""), (BUILDS, ROCM), ["built-twice"], id="built-twice"),
        pytest.param(CONFIG.replace("own-workflow: true", ""), (ROCM,), [], id="alone"),
        pytest.param(CONFIG, (BUILDS, ROCM.replace("linux-rocm", "'${{ matrix.x }}'")), [], id="not-known"),
    ],
)
def test_a_platform_is_built_by_one_workflow(config: str, jobs: tuple[str, ...], rules: list[str]) -> None:
    assert [rule for rule, _ in found(calling(*jobs, config=config))] == rules


def test_a_config_that_cannot_be_read_is_not_called_good() -> None:
    facts = replace(calling(BUILDS), configs={"fatwheel.yml": Unseen("what fatwheel.yml asks for", "YAML")})
    assert found(facts) == [("unseen", "not seen")]


def test_a_config_in_pyproject_has_the_same_outline() -> None:
    text = (
        '[tool.fatwheel]\npublish.targets = ["s3://a/b"]\n[tool.fatwheel.platforms]\nlinux-rocm.own-workflow = true\n'
    )
    outline = read_config(text, "pyproject.toml")
    assert (outline.targets, outline.platforms) == (("s3://a/b",), {"linux-rocm": True})


def test_the_table_of_a_platform_may_lie_in_a_file_of_its_own() -> None:
    outline = read_config("platforms: {linux-rocm: {include: ci/rocm.yml}}", "fatwheel.yml")
    assert (outline.platforms, outline.included) == ({"linux-rocm": False}, {"linux-rocm": "ci/rocm.yml"})
    assert read_included("own-workflow: true\n", "ci/rocm.yml")


def test_a_pyproject_without_the_table_is_no_config() -> None:
    with pytest.raises(InputError, match=r"^pyproject.toml has no table \[tool.fatwheel\], expected a config there"):
        read_config("[project]\nname = 'fatwheel-plugin'\n", "pyproject.toml")
