"""What holds in every workflow and action file of ours, and that each rule sees what breaks it.

It stays one file, although it is long: each case is an edit of one good pair of files, and a test looks through the
cases for the rule that none of them breaks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.builders.sources import write
from tests.workflows import rules

ROOT = Path(__file__).parents[3]
OURS = rules.project(ROOT)

SHA = "3d3c42e5aac5ba805825da76410c181273ba90b1"

# A pair of files that breaks no rule; each case below changes a few of its lines.
CALLED = f"""\
name: Build
on:
  workflow_call:
    inputs:
      config:
        description: The path of the config.
        type: string
        required: true
    outputs:
      wheels:
        description: The names of the wheels.
        value: ${{{{ jobs.build.outputs.wheels }}}}
    secrets:
      token:
        description: What uploads the wheels.
permissions: {{}}
defaults:
  run:
    shell: bash
jobs:
  build:
    name: Build
    runs-on: ubuntu-latest
    timeout-minutes: 30
    permissions:
      contents: read # to check out the source
    outputs:
      wheels: ${{{{ steps.build.outputs.wheels }}}}
    steps:
      - name: Check out the source
        uses: actions/checkout@{SHA} # v7.0.1
        with:
          persist-credentials: false
      - name: Build
        id: build
        run: fatwheel build "$CONFIG"
        env:
          CONFIG: ${{{{ inputs.config }}}}
          NAME: wheel
      - name: Upload wheels
        uses: actions/upload-artifact@{SHA} # v7.0.1
        with:
          path: dist
          retention-days: 30
          overwrite: true
  check:
    name: Check the names
    runs-on: ubuntu-latest
    timeout-minutes: 5
    steps:
      - name: Check
        run: check
        env:
          TOKEN: ${{{{ secrets.token }}}}
"""
CALLER = """\
name: Release
on:
  push:
permissions: {}
concurrency:
  { group: release, queue: max }
defaults:
  run:
    shell: bash
jobs:
  build:
    name: Build
    permissions:
      contents: read # to check out the source
    uses: $/.github/workflows/called.yml
    with:
      config: fatwheel.yml
  say:
    name: Say what was built
    needs: build
    runs-on: ubuntu-latest
    timeout-minutes: 5
    steps:
      - name: Set up
        id: setup
        uses: $/.github/actions/setup
        with:
          python: "3.12"
      - name: Say it
        run: echo "$WHEELS" "$PYTHON"
        env:
          WHEELS: ${{ needs.build.outputs.wheels }}
          PYTHON: ${{ steps.setup.outputs.python }}
"""
ACTION = """\
name: Set up
description: Installs the toolkit.
inputs:
  python:
    description: The Python version.
    required: true
outputs:
  python:
    description: The path of that Python.
    value: ${{ steps.find.outputs.python }}
runs:
  using: composite
  steps:
    - name: Find Python
      id: find
      shell: bash
      run: ./find "$PYTHON" >>"$GITHUB_OUTPUT"
      env:
        PYTHON: ${{ inputs.python }}
"""
FILES = {
    ".github/workflows/called.yml": CALLED,
    ".github/workflows/caller.yml": CALLER,
    ".github/actions/setup/action.yml": ACTION,
}

RESTORE = f"""\
      - name: Restore
        uses: actions/cache/restore@{SHA} # v7.0.1
      - name: Check
"""


def found(root: Path, files: Mapping[str, str], *only: rules.Rule) -> list[str]:
    """Write files, and return what breaks a rule in them, with the name of each file in short."""
    write(root, files)
    project = rules.project(root)
    broken = [str(finding) for file in project.values() for finding in rules.findings(file, project, *only)]
    return [re.sub(r"^\S*/(\w+)\.yml:", r"\1:", finding) for finding in broken]


@pytest.mark.parametrize("name", OURS)
def test_our_files_hold_to_the_rules(name: str) -> None:
    assert [str(finding) for finding in rules.findings(OURS[name], OURS)] == []


@pytest.mark.parametrize("kind", ["inputs", "secrets"])
@pytest.mark.parametrize("name", ["monorepo", "platform"])
def test_what_wheels_takes_of_a_bucket_its_callers_take_and_pass_on(name: str, kind: str) -> None:
    caller, wheels = (OURS[f".github/workflows/{one}.yml"] for one in (name, "wheels"))
    taken = wheels.declared(kind, "workflow_call")
    asked = {key for key in taken if key.startswith("units") or key == "aws-region"}
    passed = caller.jobs["wheels"]["with" if kind == "inputs" else kind]
    assert {key: passed.get(key) for key in asked} == {key: f"${{{{ {kind}.{key} }}}}" for key in asked}
    assert asked
    assert asked <= caller.declared(kind, "workflow_call").keys()


def test_every_promised_file_is_checked() -> None:
    workflows = {
        f".github/workflows/{name}.yml" for name in ("ci", "comment", "platform", "publish", "release", "wheels")
    }
    assert {*workflows, "action.yml", ".github/actions/setup/action.yml"} - OURS.keys() == set()


def test_a_good_pair_of_files_breaks_no_rule(tmp_path: Path) -> None:
    assert found(tmp_path, FILES) == []


@pytest.mark.parametrize(
    ("rule", "old", "new", "expected"),
    [
        pytest.param(
            rules.uses_are_pinned,
            f"upload-artifact@{SHA} # v7.0.1",
            "upload-artifact@v7 # v7.0.1",
            "called:41: actions/upload-artifact@v7 is not pinned, expected OWNER/NAME@ and a commit's 40 digits",
            id="a-moving-tag",
        ),
        pytest.param(
            rules.uses_are_pinned,
            f"checkout@{SHA} # v7.0.1",
            f"checkout@{SHA}",
            f"called:31: actions/checkout@{SHA} has no version beside it, expected a comment such as # v1.2.3",
            id="a-pin-without-a-version",
        ),
        pytest.param(
            rules.nothing_is_permitted_on_top,
            "permissions: {}",
            "permissions: read-all",
            "caller:4: a workflow permits nothing on top, expected permissions: {}",
            id="permissions-on-top",
        ),
        pytest.param(
            rules.nothing_is_permitted_on_top,
            "permissions: {}\n",
            "",
            "caller:1: a workflow permits nothing on top, expected permissions: {}",
            id="no-permissions-on-top",
        ),
        pytest.param(
            rules.nothing_is_permitted_on_top,
            "permissions: {}\n",
            "",
            "called",
            id="the-callers-grants",
        ),
        pytest.param(
            rules.the_projects_code_runs_without_rights,
            "permissions: {}\n",
            "permissions: read-all\n",
            "called",
            id="a-grant-on-top",
        ),
        pytest.param(
            rules.each_grant_has_its_reason,
            "contents: read # to check out the source",
            "contents: read",
            "called:26: job build is granted contents, expected the reason as a comment",
            id="a-grant-without-a-reason",
        ),
        pytest.param(
            rules.each_grant_has_its_reason,
            "permissions:\n      contents: read # to check out the source",
            "permissions: write-all",
            "caller:13: write-all grants too much, expected one line for each",
            id="everything-granted",
        ),
        pytest.param(
            rules.everything_is_named,
            "name: Release\n",
            "",
            "caller:1: the file has no name",
            id="a-nameless-workflow",
        ),
        pytest.param(
            rules.everything_is_named,
            "    name: Say what was built\n",
            "",
            "caller:18: job say has no name",
            id="a-nameless-job",
        ),
        pytest.param(
            rules.everything_is_named,
            "name: Say it\n        run",
            "run",
            "caller:29: the step has no name",
            id="a-nameless-step",
        ),
        pytest.param(
            rules.everything_is_described_in_a_sentence,
            "The path of the config.",
            "the path",
            "called:5: config is not described in a sentence, with a capital and a full stop",
            id="an-input-described-in-two-words",
        ),
        pytest.param(
            rules.everything_is_described_in_a_sentence,
            "Installs the toolkit.",
            "installer",
            "action:2: the action is not described in a sentence",
            id="an-action-described-in-a-word",
        ),
        pytest.param(
            rules.run_is_short_and_expands_nothing,
            'echo "$WHEELS" "$PYTHON"',
            'echo "${{ github.ref }}" "$WHEELS" "$PYTHON"',
            "caller:30: run: expands ${{ }}, expected the value in env:",
            id="an-expansion-in-a-command",
        ),
        pytest.param(
            rules.run_is_short_and_expands_nothing,
            'echo "$WHEELS" "$PYTHON"',
            "|\n          one\n          two\n          three\n          four\n          five",
            "caller:30: run: has 5 lines, expected 4 at most: move it into the CLI",
            id="a-program-in-a-command",
        ),
        pytest.param(
            rules.checkouts_keep_no_credentials,
            "persist-credentials: false",
            "fetch-depth: 0",
            "called:30: the checkout keeps its token, expected persist-credentials: false",
            id="a-checkout-that-keeps-its-token",
        ),
        pytest.param(
            rules.jobs_have_a_timeout,
            "    timeout-minutes: 5\n",
            "",
            "caller:18: job say may run for six hours, expected timeout-minutes",
            id="a-job-without-an-end",
        ),
        pytest.param(
            rules.jobs_have_a_timeout,
            "timeout-minutes: 5",
            "timeout-minutes: 360",
            "caller:22: job say may run for 360 minutes, expected 30 or less",
            id="a-job-that-hangs-for-hours",
        ),
        pytest.param(
            rules.artifacts_go_in_time,
            "          retention-days: 30\n",
            "",
            "called:40: GitHub keeps the artifact for 90 days, expected retention-days",
            id="an-artifact-that-stays",
        ),
        pytest.param(
            rules.uploads_can_be_repeated,
            "          overwrite: true\n",
            "",
            "called:40: a second attempt cannot upload the artifact, expected overwrite: true",
            id="an-upload-that-no-second-attempt-can-make",
        ),
        pytest.param(
            rules.nothing_is_uploaded_always,
            "      - name: Upload wheels\n",
            "      - name: Upload wheels\n        if: always()\n",
            "called:41: always() uploads what failed or was cancelled, expected !cancelled()",
            id="an-upload-that-always-runs",
        ),
        pytest.param(
            rules.nothing_is_uploaded_always,
            "    runs-on: ubuntu-latest\n    timeout-minutes: 30\n",
            "    runs-on: ubuntu-latest\n    timeout-minutes: 30\n    if: ${{ always() }}\n",
            "called:25: always() uploads what failed or was cancelled, expected !cancelled()",
            id="a-job-that-always-uploads",
        ),
        pytest.param(
            rules.no_input_is_code,
            "inputs:\n",
            "inputs:\n  pre-script:\n    description: What runs ${{ inputs.pre-script }} first.\n",
            "action:4: the input pre-script is named as code, which belongs in a committed file",
            id="an-input-that-is-code",
        ),
        pytest.param(
            rules.matrices_are_gated,
            "    needs: build\n",
            "    needs: build\n    strategy:\n      matrix: ${{ fromJSON(needs.build.outputs.wheels) }}\n",
            "caller:22: the matrix of say can be empty, which fails: expected an if: on the job",
            id="a-matrix-without-a-gate",
        ),
        pytest.param(
            rules.only_what_is_not_required_may_fail,
            "    needs: build\n",
            "    needs: build\n    continue-on-error: true\n",
            "caller:21: continue-on-error: True, expected ${{ !matrix.required }} on a job",
            id="a-job-that-may-fail",
        ),
        pytest.param(
            rules.only_what_is_not_required_may_fail,
            "      - name: Say it\n",
            "      - name: Say it\n        continue-on-error: ${{ !matrix.required }}\n",
            "caller:30: continue-on-error: ${{ !matrix.required }}, expected ${{ !matrix.required }} on a job",
            id="a-step-that-may-fail",
        ),
        pytest.param(
            rules.inputs_are_declared,
            "TOKEN: ${{ secrets.token }}",
            "TOKEN: ${{ inputs['cfg'] || secrets.token }}",
            "called:54: inputs.cfg is declared nowhere",
            id="an-undeclared-input",
        ),
        pytest.param(
            rules.secrets_are_declared,
            "TOKEN: ${{ secrets.token }}",
            "TOKEN: ${{ secrets.TOKENS }}",
            "called:54: secrets.TOKENS is not among the secrets that this workflow takes",
            id="an-undeclared-secret",
        ),
        pytest.param(
            rules.inputs_are_used,
            "${{ inputs.config }}",
            "it",
            "called:5: the input config is used nowhere",
            id="an-unused-input",
        ),
        pytest.param(
            rules.needs_are_declared,
            "    needs: build\n",
            "",
            "caller:31: needs.build is used, but say does not need build",
            id="a-job-that-is-not-needed",
        ),
        pytest.param(
            rules.needs_are_declared,
            "needs.build.outputs.wheels",
            "needs.build.outputs.wheel",
            "caller:32: the job build has no output wheel",
            id="an-output-that-the-called-workflow-lacks",
        ),
        pytest.param(
            rules.needs_are_declared,
            "${{ jobs.build.outputs.wheels }}",
            "${{ jobs.biuld.outputs.wheels }}",
            "called:12: there is no job biuld",
            id="an-output-of-no-job",
        ),
        pytest.param(
            rules.actions_are_given_what_they_take,
            "$/.github/actions/setup",
            "$/.github/actions/set-up",
            "caller:26: $/.github/actions/set-up names no file of this repository",
            id="an-action-that-is-not-there",
        ),
        pytest.param(
            rules.actions_are_given_what_they_take,
            'python: "3.12"',
            'python: "3.12"\n          pyton: x',
            "caller:29: $/.github/actions/setup takes no input pyton",
            id="an-input-that-our-action-lacks",
        ),
        pytest.param(
            rules.actions_are_given_what_they_take,
            '        with:\n          python: "3.12"\n',
            "",
            "caller:24: $/.github/actions/setup requires the input python",
            id="a-required-input-left-out",
        ),
        pytest.param(
            rules.steps_are_declared,
            "steps.build.outputs.wheels",
            "steps.biuld.outputs.wheels",
            "called:28: no step before this one has the id biuld",
            id="an-output-of-no-step",
        ),
        pytest.param(
            rules.steps_are_declared,
            "persist-credentials: false",
            "persist-credentials: false\n          ref: ${{ steps.build.outputs.ref }}",
            "called:34: no step before this one has the id build",
            id="an-output-of-a-later-step",
        ),
        pytest.param(
            rules.steps_are_declared,
            "steps.setup.outputs.python",
            "steps.setup.outputs.version",
            "caller:33: $/.github/actions/setup has no output version",
            id="an-output-that-our-action-lacks",
        ),
        pytest.param(
            rules.needs_are_declared,
            "WHEELS: ${{ needs.build.outputs.wheels }}",
            "WHEELS: ${{ needs.build.result }}",
            "caller",
            id="the-result-of-a-job",
        ),
        pytest.param(
            rules.outputs_are_used,
            "value: ${{ jobs.build.outputs.wheels }}",
            "value: none",
            "called:28: the output wheels of build is used nowhere",
            id="an-unused-output",
        ),
        pytest.param(
            rules.expanded_values_are_quoted,
            'fatwheel build "$CONFIG"',
            "fatwheel build $CONFIG",
            'called:36: $CONFIG comes from an expression, expected "$CONFIG"',
            id="a-value-that-falls-apart",
        ),
        pytest.param(
            rules.workflows_are_given_what_they_take,
            "contents: read # to check out the source",
            "actions: read # to list the runs",
            "caller:11: $/.github/workflows/called.yml asks for `contents: read`, which build does not grant",
            id="a-called-workflow-that-asks-for-more",
        ),
        pytest.param(
            rules.labels_have_a_runner,
            "runs-on: ubuntu-latest",
            "runs-on: [ubuntu-lastest]",
            "caller:21: the label ubuntu-lastest is no runner that GitHub hosts",
            id="a-label-without-a-runner",
        ),
        pytest.param(
            rules.the_shell_is_named,
            "defaults:\n  run:\n    shell: bash\n",
            "",
            "caller:27: the shell is not named, expected defaults: run: shell: bash on top",
            id="a-shell-that-is-not-named",
        ),
        pytest.param(
            rules.shells_are_known,
            "run: echo",
            "shell: bassh\n        run: echo",
            "caller:30: there is no shell bassh",
            id="a-shell-that-there-is-not",
        ),
        pytest.param(
            rules.the_matrix_has_what_is_used,
            'python: "3.12"',
            "python: ${{ matrix.q }}",
            "caller:28: matrix.q is used, but the job say has no matrix",
            id="a-matrix-that-there-is-not",
        ),
        pytest.param(
            rules.the_matrix_has_what_is_used,
            "    needs: build\n",
            "    needs: build\n    strategy: {matrix: {p: [1], include: [{r: 2}]}}\n"
            "    env: {P: '${{ matrix.p }}', Q: '${{ matrix.q }}', R: '${{ matrix.r }}'}\n",
            "caller:22: the matrix of say has no q",
            id="a-key-that-the-matrix-lacks",
        ),
        pytest.param(
            rules.the_doctor_finds_nothing,
            "needs: build",
            "needs: [build, biuld]",
            "caller:20: there is no job biuld",
            id="a-need-that-there-is-not",
        ),
        pytest.param(
            rules.workflows_are_given_what_they_take,
            "config: fatwheel.yml",
            "config: [fatwheel.yml]",
            "caller:17: the input config is given ['fatwheel.yml'], expected a text",
            id="a-list-for-a-text",
        ),
        pytest.param(
            rules.defaults_are_of_their_type,
            "    outputs:\n      wheels:\n",
            "      days: { type: number, default: many }\n    outputs:\n      wheels:\n",
            "called:9: the input days is by default 'many', expected a number",
            id="a-text-for-a-number",
        ),
        pytest.param(
            rules.runs_are_kept_apart,
            "concurrency:\n  { group: release, queue: max }\n",
            "",
            "caller:1: runs on push may meet, expected concurrency: with a group",
            id="runs-that-meet",
        ),
        pytest.param(
            rules.runs_are_kept_apart,
            "permissions: {}\n",
            "permissions: {}\nconcurrency:\n  group: x-${{ github.workflow }}\n  queue: max\n",
            "called:17: a called workflow's group must not be named by github.workflow",
            id="a-called-workflow-that-ends-its-caller",
        ),
        pytest.param(
            rules.runs_that_wait_are_kept,
            "group: release, queue: max",
            "group: release, cancel-in-progress: false",
            "caller:5: of the runs that wait all but one are cancelled, expected queue: max",
            id="runs-that-are-dropped",
        ),
        pytest.param(
            rules.runs_that_wait_are_kept,
            "group: release, queue: max",
            "group: release, queue: max, cancel-in-progress: true",
            "caller:5: queue: max keeps what cancel-in-progress ends, expected one of them",
            id="runs-that-are-kept-and-ended",
        ),
        pytest.param(
            rules.conditions_behind_others_are_said,
            "    name: Check the names\n",
            "    name: Check the names\n    if: ${{ !cancelled() }}\n    needs: build\n"
            "  last:\n    needs: check\n    runs-on: ubuntu-latest\n    steps: []\n  other:\n",
            "called:50: last is skipped where a job before check was not successful: say success() or !cancelled()",
            id="a-condition-behind-another",
        ),
        pytest.param(
            rules.actions_have_the_rights_they_need,
            "contents: read # to check out the source",
            "actions: read # to list the runs",
            "called:30: actions/checkout needs contents: read, which the job does not grant",
            id="a-checkout-without-a-right",
        ),
        pytest.param(
            rules.nothing_is_granted_in_vain,
            "contents: read # to check out the source",
            "contents: read # to check out the source\n      id-token: write # to sign",
            "called:27: job build is granted id-token: write, and nothing in it asks for that",
            id="a-right-to-sign-nothing",
        ),
        pytest.param(
            rules.nothing_is_granted_in_vain,
            "contents: read # to check out the source",
            "contents: write # to check out the source",
            "caller:14: job build is granted contents: write, and nothing in it asks for that",
            id="a-right-that-the-called-workflow-does-not-use",
        ),
        pytest.param(
            rules.the_projects_code_runs_without_rights,
            "NAME: wheel",
            "NAME: ${{ secrets.token }}",
            "called:36: a project's own code runs here, beside secrets.token",
            id="a-build-beside-a-secret",
        ),
        pytest.param(
            rules.the_projects_code_runs_without_rights,
            "contents: read # to check out the source",
            "id-token: write # to sign",
            "called:36: a project's own code runs here, beside id-token",
            id="a-build-that-may-sign",
        ),
        pytest.param(
            rules.the_projects_code_runs_without_rights,
            "run: check",
            "run: fatwheel ci step build",
            "called:52: a project's own code runs here, beside secrets.token",
            id="a-step-that-builds-beside-a-secret",
        ),
        pytest.param(
            rules.the_projects_code_runs_without_rights,
            "run: check",
            "run: cd source && make check",
            "called:52: a project's own code runs here, beside secrets.token",
            id="a-program-of-the-checkout-beside-a-secret",
        ),
        pytest.param(
            rules.no_cache_is_restored_beside_rights,
            "      - name: Check\n",
            RESTORE,
            "called:51: actions/cache/restore restores a cache, beside secrets.token",
            id="a-cache-beside-a-secret",
        ),
        pytest.param(
            rules.artifacts_stay_apart_beside_rights,
            "      - name: Check\n",
            f"      - name: Take\n        uses: actions/download-artifact@{SHA} # v7.0.1\n      - name: Check\n",
            "called:51: the artifact lands in the workspace itself, expected a folder of its own",
            id="an-artifact-over-the-workspace",
        ),
        pytest.param(
            rules.artifacts_stay_apart_beside_rights,
            "      - name: Check\n",
            f"      - name: Check out\n        uses: actions/checkout@{SHA} # v7.0.1\n"
            f"      - name: Take\n        uses: actions/download-artifact@{SHA} # v7.0.1\n        with:\n"
            "          path: dist\n      - name: Check\n",
            "called:53: the artifact lands in the checkout, expected path: ${{ runner.temp }}/…",
            id="an-artifact-in-a-checkout",
        ),
        pytest.param(
            rules.what_zizmor_is_told_to_ignore_has_a_reason,
            'run: echo "$WHEELS" "$PYTHON"',
            'run: echo "$WHEELS" "$PYTHON" # zizmor: ignore[template-injection]',
            "caller:30: a finding is ignored, expected the reason after it",
            id="a-finding-ignored-without-a-reason",
        ),
    ],
)
def test_a_rule_sees_what_breaks_it(rule: rules.Rule, old: str, new: str, expected: str, tmp_path: Path) -> None:
    """In the file that is expected to be named; its name alone: nothing is broken in it."""
    name, _, what = expected.partition(":")
    place = next(place for place in FILES if place.endswith(f"{name}.yml"))
    assert FILES[place].count(old) == 1
    assert found(tmp_path, {**FILES, place: FILES[place].replace(old, new)}, rule) == ([expected] if what else [])


# A job of a caller's that only looks: each case below gives it a right, and each of the next a way to a cache.
LOOKS = """\
name: Look
on:
  push:
permissions: {}
jobs:
  look:
    name: Look
    permissions: {}
    runs-on: ubuntu-latest
    steps:
      - name: Look
        uses: $/.github/actions/look
"""
INNER = ACTION.replace("name: Find Python\n      id: find\n      shell: bash\n", "name: Use\n      uses: USED\n#")
CACHE = f"actions/cache/restore@{SHA} # v7.0.1"


def restored(root: Path, looks: str, used: str, more: Mapping[str, str] | None = None) -> list[str]:
    """Return what the rule says of a job whose action uses another one of ours, which uses `used`."""
    outer = INNER.replace("USED", "$/.github/actions/inner")
    files = {"actions/look/action.yml": outer, "actions/inner/action.yml": INNER.replace("USED", used)}
    files |= {"workflows/look.yml": looks, **(more or {})}
    broken = found(
        root, {f".github/{name}": text for name, text in files.items()}, rules.no_cache_is_restored_beside_rights
    )
    return [re.sub(r"^\w+:\d+: ", "", line) for line in broken]


@pytest.mark.parametrize(
    ("old", "new", "right"),
    [
        ("    permissions: {}", "    permissions: { contents: write }", "contents"),
        ("    permissions: {}", "    permissions: { issues: read }", "issues"),
        ("    permissions: {}", "    permissions: read-all", "read-all"),
        ("permissions: {}\njobs", "permissions: { packages: write }\njobs", "packages"),
        ("permissions: {}\njobs", "permissions: write-all\njobs", "write-all"),
        ("permissions: {}\njobs", "jobs", "the repository's default"),
        ("    permissions: {}", "    permissions: {}\n    environment: pypi", "an environment"),
        ("    permissions: {}", "    permissions: {}\n    environment: { name: pypi }", "an environment"),
        ("    permissions: {}", "    permissions: {}\n    env: { A: '${{ secrets.token }}' }", "secrets.token"),
        ("    permissions: {}", "    permissions: {}\n    env: { A: \"${{ secrets['token'] }}\" }", "secrets.token"),
        ("    permissions: {}", "    permissions: {}\n    env: { A: '${{ toJSON(secrets) }}' }", "secrets"),
        ("permissions: {}\njobs", "permissions: {}\nenv: { A: '${{ secrets.token }}' }\njobs", "secrets.token"),
        ("  push:", "  workflow_call:", "what the caller grants"),
    ],
)
def test_each_right_keeps_a_cache_out(old: str, new: str, right: str, tmp_path: Path) -> None:
    """In the action that an action of ours uses; a right on top of the file counts where the job says nothing."""
    looks = LOOKS if old.startswith("    ") else LOOKS.replace("    permissions: {}\n", "")
    looks = looks.replace("permissions: {}\njobs", "jobs") if new == "  workflow_call:" else looks
    assert looks.count(old) == 1
    broken = restored(tmp_path, looks.replace(old, new), CACHE)
    assert broken == [f"actions/cache/restore restores a cache, beside {right}"]


@pytest.mark.parametrize(
    ("used", "said"),
    [
        pytest.param(CACHE, "actions/cache/restore restores a cache", id="restore"),
        pytest.param(f"actions/setup-python@{SHA} # v7.0.0\n      with: {{ cache: pip }}",
                     "actions/setup-python restores a cache", id="by-an-input"),
        pytest.param(f"actions/cache@{SHA} # v6.1.0", "actions/cache restores a cache", id="cache"),
        pytest.param(f"astral-sh/setup-uv@{SHA} # v7.0.0", "astral-sh/setup-uv may restore a cache: NOT", id="unknown"),
        pytest.param("docker://alpine", "docker://alpine may restore a cache: NOT", id="image"),
        pytest.param("./source/action", "./source/action may restore a cache: NOT", id="out-of-a-checkout"),
        pytest.param(f"actions/setup-python@{SHA} # v7.0.0", None, id="no-cache"),
        pytest.param(f"actions/cache/save@{SHA} # v6.1.0", None, id="saved"),
    ],
)  # fmt: skip
def test_each_way_to_a_cache_is_seen(used: str, said: str | None, tmp_path: Path) -> None:
    signs = LOOKS.replace("    permissions: {}", "    permissions: { id-token: write }")
    said = said and said.replace("NOT", "ci_tools/catalog/actions.toml does not describe it")
    assert restored(tmp_path, signs, used) == ([f"{said}, beside id-token"] if said else [])
    assert restored(tmp_path / "without", LOOKS, used) == []


@pytest.mark.parametrize("more", ["permissions: { contents: write }", "secrets: inherit"])
def test_the_workflow_of_another_repository_may_restore_a_cache(more: str, tmp_path: Path) -> None:
    uses = f"them/theirs/.github/workflows/build.yml@{SHA}"
    text = LOOKS.partition("    permissions")[0] + f"    {more}\n    uses: {uses}\n"
    assert [line.partition(",")[0] for line in restored(tmp_path, text, CACHE)] == [f"{uses} may restore a cache"]


def test_the_projects_code_never_has_the_callers_grants(tmp_path: Path) -> None:
    text = CALLED.replace("permissions: {}\n", "").replace("    permissions:\n      contents: read #", "    #")
    broken = found(
        tmp_path, {**FILES, ".github/workflows/called.yml": text}, rules.the_projects_code_runs_without_rights
    )
    assert broken == ["called:34: a project's own code runs here, beside what the caller grants"]


def test_publishing_takes_no_folder_that_is_lost_with_its_runner() -> None:
    steps = OURS[".github/workflows/publish.yml"].steps
    (publish,) = (step.value["env"] for step in steps if step.value.get("run") == "fatwheel ci step publish")
    assert publish["WITH_DISTANT"] is True


def test_every_rule_is_broken_by_a_case_above() -> None:
    cases = test_a_rule_sees_what_breaks_it.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert {case.values[0] for case in cases} == set(rules.RULES)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param('tool "$A" --to="${B}" "x $C"', set(), id="quoted"),
        pytest.param('tool $A --to=${B} "$C"', {"A", "B"}, id="bare"),
        pytest.param('tool "$(other $A "$B")" "$C"', {"A"}, id="within-a-substitution"),
        pytest.param('tool "${A:-x y}" ${B:-z}', {"B"}, id="with-a-default"),
        pytest.param("tool '$A' \\$B", set(), id="not-expanded"),
        pytest.param('echo "$A" >>"$GITHUB_OUTPUT" && (cd "$B" && tool $C)', {"C"}, id="in-a-subshell"),
    ],
)
def test_the_shell_expands_outside_of_quotes(command: str, expected: set[str]) -> None:
    assert rules.unquoted(command) == expected


def test_every_runner_of_the_catalog_is_one_that_github_hosts() -> None:
    text = (ROOT / "ci_tools" / "catalog" / "platforms.toml").read_text(encoding="utf-8")
    runners = re.findall(r'^runner = "(.+)"$', text, re.MULTILINE)
    assert len(runners) > 5
    assert set(runners) - set(rules.HOSTED) == set()


def test_what_zizmor_is_told_to_ignore_has_its_reason() -> None:
    lines = (ROOT / ".github" / "zizmor.yml").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if re.match(r"\s*(- |disable:)", line) and " # " not in line] == []
