"""GitHub's own parser over files that break its rules, as `make lint` runs it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

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


def faults(root: Path, caller: str) -> list[str]:
    """Return what the parser says of a workflow that calls another one."""
    if not (HERE / "node_modules").is_dir():
        pytest.skip("the parser is installed by `make lint`")
    folder = root / ".github" / "workflows"
    folder.mkdir(parents=True)
    (folder / "called.yml").write_text(CALLED, encoding="utf-8")
    (folder / "caller.yml").write_text(caller, encoding="utf-8")
    files = [".github/workflows/called.yml", ".github/workflows/caller.yml"]
    done = subprocess.run(["node", HERE / "parse.mjs", *files], cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (int(bool(done.stdout)), "")
    return done.stdout.splitlines()


def test_good_files_have_no_fault(tmp_path: Path) -> None:
    assert faults(tmp_path, CALLER) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(
            "config:", "confg:", "10: Invalid input, confg is not defined in the referenced workflow.", id="input"
        ),
        pytest.param("called.yml\n", "gone.yml\n", "8: Unable to find reusable workflow", id="file"),
        pytest.param("5 4 *", "99 4 *", "4: Invalid cron expression. Expected format: ", id="cron"),
        pytest.param(
            "permissions: {}", "permissions: {contents: maybe}", "5: Unexpected value 'maybe'", id="permission"
        ),
        pytest.param("config: fatwheel.yml", "config: ${{ job.x", "10: ", id="expression"),
        pytest.param(
            "  ours:\n", "  ours:\n    needs: nothing\n", "8: Job 'ours' depends on unknown job 'nothing'.", id="job"
        ),
        pytest.param("permissions: {}", "permissions: {", "6: ", id="yaml"),
    ],
)
def test_a_fault_is_told_with_its_line(old: str, new: str, expected: str, tmp_path: Path) -> None:
    assert CALLER.count(old) == 1
    found = faults(tmp_path, CALLER.replace(old, new))
    assert any(fault.startswith(f".github/workflows/caller.yml:{expected}") for fault in found), found


def test_the_lock_names_versions_and_hashes_and_no_registry() -> None:
    packages = json.loads((HERE / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert [name for name, package in packages.items() if name and not package["integrity"].startswith("sha512-")] == []
    assert [name for name, package in packages.items() if "resolved" in package] == []
