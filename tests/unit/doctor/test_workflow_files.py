"""What is read in workflow files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.doctor.documents import access, lacking, one_line, unite_grants
from ci_tools.doctor.workflows import INHERITED, Used
from ci_tools.errors import InputError
from tests.builders.repository_facts import FATWHEEL, NEW, PATH, job, workflow

ROOT = Path(__file__).parents[3]


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
    assert workflow(f"on: push\n{written}\njobs: {{it: {{}}}}").jobs[0].grants == grants


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
            "{run: gh release create, env: {GH_TOKEN: '${{ secrets.GITHUB_TOKEN }}'}}",
            {"contents": "write"},
            id="jobs-token",
        ),
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
        pytest.param("", "is empty", id="empty"),
        pytest.param("on: [push\njobs: {}", f"{PATH}:2:", id="broken"),
        pytest.param('on: "\\UFFFFFFFF"', "an escape in it is of no character", id="no-character"),
        pytest.param("jobs: {'a b': {}}", "is not a valid name for a job", id="name"),
        pytest.param("jobs: {" + "".join(f"j{n}: {{}}," for n in range(600)) + "}", "at most 500", id="jobs"),
        pytest.param("- push", "no jobs", id="list"),
    ],
)
def test_what_is_no_workflow(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
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
        own = workflow(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
        bare = [job for job in own.jobs if job.grants is None]
        assert [job.where for job in bare if own.triggers != ("workflow_call",)] == []
        assert all(job.name == "publish" for job in bare)  # which may do what its caller grants


def test_a_uses_reads_as_it_is_written() -> None:
    assert [str(Used("a/b", "/c", "v1", "")), str(Used("a/b", "/c", "", ""))] == ["a/b/c@v1", "a/b/c"]
