"""The harness itself: that it tells what came of a run, and fails where act passes in silence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.workflows import harness, rules
from tests.workflows.harness import Event, World
from tests.workflows.startup import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = pytest.mark.slow

UPLOAD = "actions/upload-artifact@043fb46d1a93c77aae656e7c1c64a875d1fc6a0a # v7.0.1"
DOWNLOAD = "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c # v8.0.1"
CHECKOUT = "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1"
PYTHON = "actions/setup-python@5fda3b95a4ea91299a34e894583c3862153e4b97 # v7.0.0"
ATTEST = "actions/attest@1e69f48acb82d1966a394da916b4c1698aa569d6 # v4.2.2"
RESTORE = "actions/cache/restore@55cc8345863c7cc4c66a329aec7e433d2d1c52a9 # v6.1.0"
DEPLOY = "actions/deploy-pages@cd2ce8fcbc39b97be8ca5fce6e763baed58fa128 # v5.0.0"
SAVE = "actions/cache/save@55cc8345863c7cc4c66a329aec7e433d2d1c52a9 # v6.1.0"


def ran(
    home: Path, jobs: str, *, on: str = "push:", event: Event | None = None, world: World | None = None
) -> harness.Run:
    """Run the jobs of a workflow in a repository of its own."""
    workflow = f"name: Main\non:\n  {on}\npermissions: {{}}\njobs:\n{jobs}"
    mine = harness.repository(home / "mine", name="me/mine", files={".github/workflows/main.yml": workflow})
    return harness.run("main.yml", event or Event.push(), home / "run", mine, world=world)


def job(name: str, *steps: str, more: str = "", runner: str = "ubuntu-latest") -> str:
    """Return a job of steps, each either a command or the lines of a step."""
    lines = [step if re.match("(name|id|uses): ", step) else f"run: {step}" for step in steps]
    texts = (line.strip().replace("\n", "\n        ") for line in lines)
    body = "".join(f"      - {text}\n" for text in texts)
    keys = "".join(f"    {line}\n" for line in more.splitlines())
    return f"  {name}:\n    name: {name.title()}\n    runs-on: {runner}\n{keys}    steps:\n{body}"


def step(uses: str, **given: str) -> str:
    lines = "".join(f"\n  {name.replace('_', '-')}: {value}" for name, value in given.items())
    return f"uses: {uses}\nwith:{lines}" if given else f"uses: {uses}\nenv: {{}}"


def test_an_artifact_goes_from_a_job_to_another(tmp_path: Path) -> None:
    run = ran(
        tmp_path,
        job(
            "build",
            "mkdir -p dist/sub && echo wheel >dist/a.whl && echo log >dist/sub/b.log",
            step(UPLOAD, name="wheels", path="dist"),
        )
        + job(
            "test",
            step(DOWNLOAD, name="wheels", path="here"),
            'echo "got $(cat here/a.whl here/sub/b.log)"',
            more="needs: build",
        ),
    )
    assert (run.succeeded, run.results) == (True, {"Build": "success", "Test": "success"})
    assert (run.artifacts / "wheels" / "sub" / "b.log").read_text() == "log\n"
    assert "got wheel\nlog\n" in run.job("Test").log


@pytest.mark.parametrize(
    ("given", "files", "result"),
    [
        pytest.param({"path": "dist/*.whl"}, ["a.whl"], "success", id="pattern"),
        pytest.param({"path": "dist/a.whl"}, ["a.whl"], "success", id="file", marks=pytest.mark.long),
        pytest.param(
            {"path": '"dist/*.whl\\nout/c.txt"'},
            ["dist/a.whl", "out/c.txt"],
            "success",
            id="two-folders",
            marks=pytest.mark.long,
        ),
        pytest.param({"path": '"dist\\n!dist/*.whl"'}, ["b.log"], "success", id="exclusion", marks=pytest.mark.long),
        pytest.param(
            {"path": "dist", "include_hidden_files": "true"},
            [".h", "a.whl", "b.log"],
            "success",
            id="hidden",
            marks=pytest.mark.long,
        ),
        pytest.param({"path": "none"}, None, "success", id="nothing-warns", marks=pytest.mark.long),
        pytest.param({"path": "none", "if_no_files_found": "error"}, None, "failure", id="nothing-fails"),
        pytest.param(
            {"path": "dist", "name": "a/b"}, None, "failure", id="a-name-with-a-slash", marks=pytest.mark.long
        ),
    ],
)
def test_an_artifact_holds_what_its_patterns_name(
    given: Mapping[str, str], files: list[str] | None, result: str, tmp_path: Path
) -> None:
    make = "mkdir dist out && touch dist/a.whl dist/b.log dist/.h out/c.txt"
    run = ran(tmp_path, job("build", make, step(UPLOAD, **{"name": "it", **given})))
    folder = run.artifacts / "it"
    assert run.results == {"Build": result}
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert found == (files or [])


def test_artifacts_are_merged_by_a_pattern_and_none_is_uploaded_twice(tmp_path: Path) -> None:
    build = job(
        "build",
        'echo "$NAME" >"$NAME.whl"\nenv:\n  NAME: wheel-${{ matrix.python }}',
        step(UPLOAD, name="wheel-${{ matrix.python }}", path='"*.whl"'),
        more="strategy:\n  matrix:\n    python: [one, two]",
    )
    both = job(
        "both", step(DOWNLOAD, pattern='"wheel-*"', merge_multiple="true", path="d"), "ls d", more="needs: build"
    )
    named = job(
        "named",
        step(DOWNLOAD, pattern='"wheel-{two,three}"', merge_multiple="true", path="d"),
        "ls d",
        more="needs: build",
    )
    twice = job("twice", "touch x.whl", step(UPLOAD, name="wheel-one", path="x.whl"), more="needs: build")
    run = ran(tmp_path, build + both + named + twice)
    assert run.job("Both").log.split()[-2:] == ["wheel-one.whl", "wheel-two.whl"]
    assert run.job("Named").log.split()[-1:] == ["wheel-two.whl"]
    assert run.job("Twice").result == "failure"
    assert "409" in run.annotations[0].message


def test_a_matrix_is_a_job_for_each_of_its_values(tmp_path: Path) -> None:
    matrix = (
        "strategy:\n  matrix:\n    include:\n      - {v: 1, runner: macos-15}\n      - {v: 2, runner: ubuntu-24.04}"
    )
    run = ran(
        tmp_path,
        job("build", "exit $(( V - 1 ))\nenv:\n  V: ${{ matrix.v }}", more=matrix, runner="${{ matrix.runner }}"),
    )
    assert [(it.matrix["v"], it.result) for it in sorted(run.jobs, key=lambda it: it.matrix["v"])] == [
        (1, "success"),
        (2, "failure"),
    ]
    assert (run.status, run.succeeded) == (1, False)


def test_a_run_tells_summaries_annotations_outputs_and_steps(tmp_path: Path) -> None:
    run = ran(
        tmp_path,
        job(
            "build",
            'echo "## Wheels" >>"$GITHUB_STEP_SUMMARY"',
            'name: Find\nid: find\nrun: echo "version=1.2" >>"$GITHUB_OUTPUT"',
            'name: Warn\nrun: echo "::error file=k.cu,line=3,title=Rule::too many registers"',
            "name: Fail\nrun: exit 3",
            "name: Never\nrun: echo never",
        )
        + job("after", "echo after", more="needs: build"),
    )
    build = run.job("Build")
    assert run.summary == "## Wheels\n"
    assert build.outputs == {"version": "1.2"}
    assert run.annotations == (("error", "too many registers", "k.cu", "3", "Rule"),)
    assert [(it.name, it.result) for it in build.steps[1:4]] == [
        ("Find", "success"),
        ("Warn", "success"),
        ("Fail", "failure"),
    ]
    assert run.results == {"Build": "failure", "After": "skipped"}
    assert "never" not in build.log


def test_a_label_without_a_runner_is_a_problem(tmp_path: Path) -> None:
    run = ran(
        tmp_path,
        job("build", "echo never", runner="ubuntu-lastest") + job("gpu", "echo yes", runner="h100"),
        world=World(labels=("h100",)),
    )
    assert run.status == 0
    assert run.results == {"Build": "no runner", "Gpu": "success"}
    assert run.problems == ("the job Main/Build has no runner for its label",)


def test_an_empty_matrix_is_a_problem(tmp_path: Path) -> None:
    run = ran(tmp_path, job("build", "echo once", more="strategy:\n  matrix:\n    include: ${{ fromJSON('[]') }}"))
    assert run.problems == ("the job Main/Build ran with an empty matrix, which GitHub refuses",)


CALLED = f"""\
name: Called
on:
  workflow_call:
    inputs:
      config:
        type: string
        required: true
    secrets:
      token:
        required: true
    outputs:
      said:
        value: ${{{{ jobs.say.outputs.said }}}}
permissions: {{}}
jobs:
  say:
    name: Say
    runs-on: ubuntu-24.04
    container: ghcr.io/nobody/nothing:latest
    permissions:
      contents: read
    outputs:
      said: ${{{{ steps.say.outputs.said }}}}
    steps:
      - uses: {CHECKOUT}
      - uses: $/.github/actions/setup
      - id: say
        run: echo "said=$CONFIG $(cat "$CONFIG") ${{#TOKEN}}" >>"$GITHUB_OUTPUT"
        env:
          CONFIG: ${{{{ inputs.config }}}}
          TOKEN: ${{{{ secrets.token }}}}
  deeper:
    name: Deeper
    needs: say
    uses: $/.github/workflows/deeper.yml
"""
DEEPER = "name: Deep\non:\n  workflow_call:\njobs:\n" + job("deep", "echo from below")
SETUP = """\
name: Set up
description: Says a word.
runs:
  using: composite
  steps:
    - run: cat "$GITHUB_ACTION_PATH/word.txt"
      shell: bash
"""
LIBRARY = {
    ".github/workflows/called.yml": CALLED,
    ".github/workflows/deeper.yml": DEEPER,
    ".github/actions/setup/action.yml": SETUP,
    ".github/actions/setup/word.txt": "the library's own file\n",
}
CALL = """\
  call:
    name: Call
    permissions:
      contents: read
    uses: their/library/.github/workflows/called.yml@PIN
    with:
      config: mine.yml
    secrets:
      token: ${{ secrets.TOKEN }}
"""


def called(home: Path, call: str, *, after: str = "") -> harness.Run:
    """Run a workflow that calls one of another repository."""
    library = harness.repository(home / "library", name="their/library", files=LIBRARY)
    workflow = "name: Main\non:\n  push:\npermissions: {}\njobs:\n" + call.replace("PIN", library.pin) + after
    files = {".github/workflows/main.yml": workflow, "mine.yml": "the caller's file\n"}
    caller = harness.repository(home / "caller", name="me/mine", files=files)
    return harness.run(
        "main.yml", Event.push(), home / "run", caller, library, world=World(secrets={"TOKEN": "hunter2"})
    )


def test_a_workflow_of_another_repository_is_called(tmp_path: Path) -> None:
    after = job("after", 'echo "$SAID"\nenv:\n  SAID: ${{ needs.call.outputs.said }}', more="needs: call")
    run = called(tmp_path, CALL, after=after)
    assert (run.status, run.problems) == (0, ()), run.log
    assert run.results == dict.fromkeys(("Say", "Deep", "After", "Call", "Deeper"), "success")
    assert "the library's own file" in run.job("Say").log
    assert run.job("After").log == "mine.yml the caller's file 7\n"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        pytest.param(
            "contents: read", "contents: none", "asks for contents: read, which the job call does not", id="grant"
        ),
        pytest.param("permissions:\n      contents: read\n    ", "", "asks for contents: read", id="no-grant"),
        pytest.param("config: mine.yml", "confg: mine.yml", "called.yml takes no confg", id="input"),
        pytest.param("config: mine.yml", "config: mine.yml\n      x: y", "called.yml takes no x", id="undeclared"),
        pytest.param("      token:", "      tokens:", "called.yml requires token", id="secret"),
        pytest.param("called.yml", "gone.yml", "which their/library does not have", id="file"),
    ],
)
def test_a_call_that_github_would_refuse_is_refused(old: str, new: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=reason):
        called(tmp_path, CALL.replace(old, new))


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        pytest.param(Event.push(), "is not started by push", id="event"),
        pytest.param(Event.dispatch(channel="edge"), "channel is edge, expected one of stable, nightly", id="choice"),
        pytest.param(Event.dispatch(chanel="stable"), "takes no chanel", id="undeclared"),
        pytest.param(Event.dispatch(dry_run="perhaps"), "dry-run is perhaps, expected true or false", id="boolean"),
    ],
)
def test_an_event_that_github_would_refuse_is_refused(event: Event, reason: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=reason):
        ran(tmp_path, job("build", "echo"), on=DISPATCH, event=event)


DISPATCH = """\
workflow_dispatch:
    inputs:
      channel:
        type: choice
        options: [stable, nightly]
      dry-run:
        type: boolean
"""


def test_a_dispatch_gives_its_inputs(tmp_path: Path) -> None:
    say = "echo \"$CHANNEL ${{ inputs.dry-run && 'dry' || 'wet' }}\"\nenv:\n  CHANNEL: ${{ inputs.channel }}"
    run = ran(tmp_path, job("build", say), on=DISPATCH, event=Event.dispatch(channel="nightly", dry_run=False))
    assert run.job("Build").log == "nightly wet\n"


@pytest.mark.parametrize(
    ("on", "event", "expected"),
    [
        pytest.param("push:", Event.push("refs/tags/v1.2.3"), "push refs/tags/v1.2.3 v1.2.3", id="tag"),
        pytest.param(
            "pull_request:", Event.pull_request(7), "pull_request refs/pull/7/merge 7/merge", id="pull-request"
        ),
        pytest.param(
            "schedule: [{cron: '5 4 * * 0'}]",
            Event.schedule("5 4 * * 0"),
            "schedule refs/heads/main main",
            id="schedule",
        ),
    ],
)
def test_an_event_sets_its_ref(on: str, event: Event, expected: str, tmp_path: Path) -> None:
    run = ran(tmp_path, job("build", 'echo "$GITHUB_EVENT_NAME $GITHUB_REF $GITHUB_REF_NAME"'), on=on, event=event)
    assert run.job("Build").log.strip() == expected


def test_a_workflow_knows_where_it_came_from(tmp_path: Path) -> None:
    """What act leaves empty in a called workflow: `job.workflow_repository` and `job.workflow_sha`."""
    say = 'echo "$WHENCE"\nenv:\n  WHENCE: ${{ job.workflow_repository }} ${{ job.workflow_sha }}'
    run = ran(tmp_path, job("build", say))
    assert re.fullmatch("me/mine [0-9a-f]{40}\n", run.job("Build").log)


def test_a_pull_request_has_a_base_to_compare_with(tmp_path: Path) -> None:
    compare = 'git diff --name-only "$BASE"\nenv:\n  BASE: ${{ github.event.pull_request.base.sha }}'
    text = "name: Main\non:\n  pull_request:\njobs:\n" + job("compare", step(CHECKOUT, fetch_depth="0"), compare)
    mine = harness.repository(tmp_path / "mine", name="me/mine", files={".github/workflows/main.yml": text})
    base = harness.change(mine, {"kernel.cu": "// new"})
    run = harness.run("main.yml", Event.pull_request(base=base), tmp_path / "run", mine)
    assert run.job("Compare").log == "kernel.cu\n"


def test_a_secret_that_shows_is_a_problem(tmp_path: Path) -> None:
    steps = ['echo "$TOKEN" >x\nenv:\n  TOKEN: ${{ secrets.TOKEN }}', step(UPLOAD, name="x", path="x")]
    run = ran(tmp_path, job("build", *steps), world=World(secrets={"TOKEN": "hunter2"}))
    assert run.problems == ("the secret TOKEN is in artifacts/x/x",)


@pytest.mark.parametrize("fork", [True, False])
def test_a_forks_pull_request_gets_no_secret(fork: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a table of two
    jobs = job("build", 'echo "${#TOKEN}"\nenv:\n  TOKEN: ${{ secrets.TOKEN }}')
    world = World(secrets={"TOKEN": "hunter2"})
    run = ran(tmp_path, jobs, on="pull_request:", event=Event.pull_request(fork=fork), world=world)
    assert run.job("Build").log == ("0\n" if fork else "7\n")


@pytest.mark.parametrize("target", ["$GITHUB_OUTPUT", "$GITHUB_STEP_SUMMARY", "/dev/stdout"])
def test_a_secret_in_an_output_a_summary_or_the_log_is_a_problem(target: str, tmp_path: Path) -> None:
    say = f'echo "it=$TOKEN" >>"{target}"\nenv:\n  TOKEN: ${{{{ secrets.TOKEN }}}}'
    run = ran(tmp_path, job("build", say), world=World(secrets={"TOKEN": "hunter2"}))
    assert run.problems == ("the secret TOKEN is in the log",)


def test_the_other_stand_ins_do_what_they_stand_for(tmp_path: Path) -> None:
    run = ran(
        tmp_path,
        job(
            "build",
            step(CHECKOUT, path="source", persist_credentials="false"),
            "git -C source log --oneline | wc -l",
            f"id: python\nuses: {PYTHON}\nwith:\n  python-version: '3.12'",
            'python -c "import sys; print(sys.version_info[:2])" && pip --version >/dev/null',
            "mkdir c && echo kept >c/f && touch a.whl",
            step(SAVE, path="c", key="k-1"),
            "rm -r c",
            step(RESTORE, path="c", key="k-2", restore_keys="k-"),
            "cat c/f",
            f"id: attest\nuses: {ATTEST}\nwith:\n  subject-path: '*.whl'",
            'grep -c e3b0c44298fc1c149afbf4c8996fb924 "${{ steps.attest.outputs.bundle-path }}"',
        ),
    )
    assert run.problems == ()
    assert run.job("Build").log.split("\n")[0] == "1"
    assert "(3, 12)\n" in run.job("Build").log
    assert "kept\n" in run.job("Build").log
    assert [path.name[:8] for path in (run.shared / "attestations").iterdir()] == ["e3b0c442"]


def test_pages_are_deployed_from_the_artifact_that_has_their_name(tmp_path: Path) -> None:
    upload = step(UPLOAD, name="github-pages", path="artifact.tar")
    build = job("build", "mkdir site && echo front >site/index.html && tar -C site -cf artifact.tar .", upload)
    more = "needs: build\npermissions: {id-token: write, pages: write}"
    run = ran(tmp_path, build + job("deploy", step(DEPLOY), more=more))
    assert run.problems == ()
    assert (run.shared / "pages" / "index.html").read_text() == "front\n"
    assert ran(tmp_path / "without", job("deploy", step(DEPLOY))).results == {"Deploy": "failure"}


def test_a_job_that_may_fail_leaves_the_run_green(tmp_path: Path) -> None:
    matrix = "strategy:\n  matrix:\n    include: [{n: 0, required: true}, {n: 1, required: false}]"
    more = f"{matrix}\ncontinue-on-error: ${{{{ !matrix.required }}}}"
    run = ran(tmp_path, job("build", 'exit "$N"\nenv:\n  N: ${{ matrix.n }}', more=more))
    assert (run.status, run.succeeded) == (1, True)
    assert {it.may_fail: it.result for it in run.jobs} == {False: "success", True: "failure"}


def test_gh_verifies_what_was_attested_in_the_run(tmp_path: Path) -> None:
    verify = "gh attestation verify {} --repo me/mine\nenv:\n  GH_TOKEN: ${{ github.token }}"
    build = job("build", "echo wheel >a.whl", step(ATTEST, subject_path="a.whl"), verify.replace("{}", "a.whl"))
    other = job("other", "echo other >b.whl", verify.replace("{}", "b.whl"), more="needs: build")
    run = ran(tmp_path, build + other)
    assert run.results == {"Build": "success", "Other": "failure"}
    assert "no attestations found" in run.log


def test_an_action_without_a_stand_in_is_said(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="docker/login-action has no stand-in"):
        ran(tmp_path, job("build", step("docker/login-action@0123456789012345678901234567890123456789")))


@pytest.mark.parametrize("name", sorted(rules.ACTIONS))
def test_a_stand_in_has_its_script(name: str) -> None:
    assert (harness.STANDINS / rules.ACTIONS[name]["script"]).is_file()


def test_our_own_repository_is_copied_with_its_workflows(tmp_path: Path) -> None:
    mine = harness.ours(tmp_path / "ours", files={".github/workflows/extra.yml": "name: Extra\non: push\njobs: {}\n"})
    assert (mine.folder / "pyproject.toml").is_file()
    assert mine.files.keys() >= {".github/workflows/extra.yml"}
    assert "$/" not in "".join(path.read_text() for path in (mine.folder / ".github").rglob("*.yml"))


@pytest.mark.parametrize(
    ("line", "left"),
    [
        pytest.param("  queue: max # none is dropped\n", "\n", id="a-line-of-its-own"),
        pytest.param("concurrency: { group: x, queue: max }\n", "concurrency: { group: x }\n", id="the-last"),
        pytest.param("concurrency: { queue: max, group: x }\n", "concurrency: { group: x }\n", id="the-first"),
        pytest.param("      run: echo queue: max\n", "      run: echo queue: max\n", id="words-of-a-command"),
    ],
)
def test_a_queue_is_left_out_as_act_knows_none(line: str, left: str) -> None:
    assert harness.QUEUE.sub("", line) == left


def test_what_waits_in_a_queue_is_run(tmp_path: Path) -> None:
    text = "name: Main\non: push\nconcurrency: { group: x, queue: max }\njobs:\n  it:\n    name: It\n"
    text += (
        "    runs-on: ubuntu-latest\n    concurrency:\n      group: y\n      queue: max\n    steps: [{ run: 'true' }]\n"
    )
    mine = harness.repository(tmp_path / "mine", name="me/mine", files={".github/workflows/main.yml": text})
    assert harness.run("main.yml", Event.push(), tmp_path / "run", mine).succeeded
