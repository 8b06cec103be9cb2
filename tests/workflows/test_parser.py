"""GitHub's own parser over files that break its rules, as `make lint` runs it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from ci_tools.catalog.tables import read

HERE = Path(__file__).parent
CALLED = """\
name: Called
on:
  workflow_call:
    inputs:
      config:
        type: string
        required: true
permissions: {}
jobs:
  say:
    runs-on: ubuntu-latest
    steps:
      - uses: $/.github/actions/setup
      - run: echo
"""
CALLER = """\
name: Caller
on:
  schedule:
    - cron: "5 4 * * 0"
permissions: {}
jobs:
  ours:
    uses: $/.github/workflows/called.yml
    with:
      config: fatwheel.yml
  theirs:
    uses: owner/name/.github/workflows/called.yml@3d3c42e5aac5ba805825da76410c181273ba90b1 # v1.0.0
    with:
      anything: at all
"""


# Each fault as a change of the good caller, and what the parser says of it.
FAULTS = {
    "input": ("config:", "confg:", "10: Invalid input, confg is not defined in the referenced workflow."),
    "file": ("called.yml\n", "gone.yml\n", "8: Unable to find reusable workflow"),
    "cron": ("5 4 *", "99 4 *", "4: Invalid cron expression. Expected format: "),
    "permission": ("permissions: {}", "permissions: {contents: maybe}", "5: Unexpected value 'maybe'"),
    "expression": ("config: fatwheel.yml", "config: ${{ job.x", "10: "),
    "job": ("  ours:\n", "  ours:\n    needs: nothing\n", "8: Job 'ours' depends on unknown job 'nothing'."),
    "yaml": ("permissions: {}", "permissions: {", "6: "),
}


def faults(root: Path, callers: Mapping[str, str]) -> list[str]:
    """Return what the parser says of workflows that call another one."""
    if not (HERE / "node_modules").is_dir():
        pytest.skip("the parser is installed by `make lint`")
    folder = root / ".github" / "workflows"
    folder.mkdir(parents=True)
    for name, text in {"called": CALLED, **callers}.items():
        (folder / f"{name}.yml").write_text(text, encoding="utf-8")
    files = [f".github/workflows/{name}.yml" for name in ("called", *callers)]
    done = subprocess.run(["node", HERE / "parse.mjs", *files], cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (int(bool(done.stdout)), "")
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return what the parser says where every fault is in a file of its own."""
    callers = {name: CALLER.replace(old, new) for name, (old, new, _) in FAULTS.items()}
    return faults(tmp_path_factory.mktemp("faults"), callers)


def test_good_files_have_no_fault(tmp_path: Path) -> None:
    assert faults(tmp_path, {"caller": CALLER}) == []


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told_with_its_line(name: str, found: list[str]) -> None:
    old, _, expected = FAULTS[name]
    assert CALLER.count(old) == 1
    assert any(fault.startswith(f".github/workflows/{name}.yml:{expected}") for fault in found), found


def test_the_lock_names_versions_and_hashes_and_no_registry() -> None:
    packages = json.loads((HERE / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert [name for name, package in packages.items() if name and not package["integrity"].startswith("sha512-")] == []
    assert [name for name, package in packages.items() if "resolved" in package] == []


# By place, what the parser's schema calls it; a step is one of several.
SCHEMA = {
    "": ["workflow-root-strict"],
    "permissions": ["permissions-mapping"],
    "on/push": ["push-mapping"],
    "on/pull_request": ["pull-request-mapping"],
    "on/workflow_run": ["workflow-run-mapping"],
    "on/workflow_call/inputs/*": ["workflow-call-input-definition"],
    "on/workflow_dispatch/inputs/*": ["workflow-dispatch-input"],
    "jobs/*": ["job-factory", "workflow-job"],
    "jobs/*/strategy": ["strategy"],
    "jobs/*/container": ["container-mapping"],
    "jobs/*/environment": ["job-environment-mapping"],
    "jobs/*/steps/*": ["run-step", "regular-step", "wait-step", "wait-all-step", "cancel-step", "parallel-step"],
}


def test_the_keys_of_each_place_are_those_of_the_parser() -> None:
    schema = HERE / "node_modules/@actions/workflow-parser/dist/workflow-v1.0.min.json"
    named = json.loads(schema.read_text(encoding="utf-8"))["definitions"]
    keys = read("workflow_keys")["keys"]
    for place, kinds in SCHEMA.items():
        assert set(keys[place]) == {key for kind in kinds for key in named[kind]["mapping"]["properties"]}, place
