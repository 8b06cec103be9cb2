"""Thirty kinds of flaw and more, each in three callers: it is named at its line, with the edit, and nothing else is."""

from __future__ import annotations

import datetime as dt
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ci_tools.doctor.check import facts_of
from ci_tools.doctor.checkout import read_checkout
from ci_tools.doctor.report import DoctorFinding, Weight
from ci_tools.doctor.rules import diagnose_checkout
from tests.builders.flawed_callers import CALLED, DOWNLOAD, FATWHEEL, FLAWS, OWN, PYPI, SEEDED, SIGNS, UPLOAD, line_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RELEASE = ".github/workflows/release.yml"
TODAY = dt.date(2026, 11, 28)
TO_PYPI = f"""\
    runs-on: ubuntu-24.04
    environment: pypi
    permissions: {{ id-token: write }}
    steps:
      - uses: {DOWNLOAD}
        with: {{ NAMED, path: dist }}
      - uses: {PYPI}
"""
CALLERS = {
    "fatwheel": f"""\
name: Release
on:
  pull_request:
  push: {{ tags: ["v*"] }}
  schedule: [{{ cron: "23 3 * * *" }}]
  workflow_dispatch:
permissions: {{}}
concurrency:
  group: release-${{{{ github.event_name == 'pull_request' && github.ref || github.run_id }}}}
  cancel-in-progress: true
jobs:
  wheels:
    uses: {FATWHEEL}/wheels.yml{OWN}
    {SIGNS}
    with: {{ config: fatwheel.yml, nightly: "${{{{ github.event_name == 'schedule' }}}}" }}
  publish:
    needs: wheels
    if: ${{{{ needs.wheels.outputs.any == 'true' && needs.wheels.outputs.channel != 'none' }}}}
    uses: {FATWHEEL}/publish.yml{OWN}
    permissions: {{ attestations: read, contents: write }}
  pypi:
    needs: [wheels, publish]
    if: ${{{{ needs.wheels.outputs.pypi == 'true' }}}}
{TO_PYPI.replace("NAMED", "name: fatwheel-pypi")}""",
    "cibuildwheel": f"""\
name: Wheels
on: [push, pull_request, workflow_dispatch]
permissions: {{ contents: read }}
concurrency: {{ group: "${{{{ github.workflow }}}}-${{{{ github.ref }}}}", cancel-in-progress: true }}
jobs:
  wheels:
    strategy:
      matrix:
        os: [ubuntu-24.04, ubuntu-24.04-arm, windows-2025, macos-15]
        include: [{{ os: macos-15-intel, archs: x86_64 }}]
    runs-on: ${{{{ matrix.os }}}}
    steps:
      - uses: actions/checkout@v5
        with: {{ persist-credentials: false }}
      - uses: pypa/cibuildwheel@v3.4.0
        env: {{ CIBW_ARCHS: "${{{{ matrix.archs || 'auto' }}}}" }}
      - uses: {UPLOAD}
        with: {{ name: "wheels-${{{{ matrix.os }}}}", path: wheelhouse }}
  sdist:
    runs-on: ubuntu-slim
    steps:
      - uses: actions/checkout@v5
      - run: pipx run build --sdist
      - uses: {UPLOAD}
        with: {{ name: wheels-sdist, path: dist }}
  publish:
    needs: [wheels, sdist]
    if: startsWith(github.ref, 'refs/tags/v')
{TO_PYPI.replace("NAMED", "pattern: wheels-*, merge-multiple: true")}""",
    "maturin": f"""\
name: Release
on: {{ release: {{ types: [published] }}, push: {{ branches: [main] }} }}
permissions: {{}}
env: {{ ARTIFACTS: wheels }}
jobs:
  plan:
    runs-on: ubuntu-latest
    outputs: {{ rows: "${{{{ steps.rows.outputs.rows }}}}" }}
    steps:
      - {{ id: rows, run: echo rows=x >>"$GITHUB_OUTPUT" }}
  build:
    needs: plan
    if: needs.plan.outputs.rows != '[]'
    strategy: {{ matrix: {{ include: "${{{{ fromJSON(needs.plan.outputs.rows) }}}}" }} }}
    runs-on: ${{{{ matrix.runner }}}}
    steps:
      - uses: PyO3/maturin-action@v1
        with: {{ args: --release, target: "${{{{ matrix.target }}}}" }}
      - uses: {UPLOAD}
        with: {{ name: "${{{{ env.ARTIFACTS }}}}-${{{{ matrix.target }}}}", path: target/wheels }}
      - if: failure()
        uses: {UPLOAD}
        with: {{ name: "logs-${{{{ matrix.target }}}}", path: logs, overwrite: true }}
  publish:
    needs: build
    if: github.event_name == 'release'
{TO_PYPI.replace("NAMED", 'pattern: "wheels-*", merge-multiple: true')}""",
}
CONFIG = "package: demo\npublish: { targets: ['github:me/demo'] }\n"


def findings(root: Path, files: Mapping[str, str]) -> list[DoctorFinding]:
    """Write files, and return what is found in them."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    known = read_checkout(root, None, os.environ)
    return list(diagnose_checkout(facts_of(replace(known, repository="me/demo", today=TODAY), "demo")))


@pytest.mark.parametrize("caller", CALLERS)
def test_a_good_caller_has_no_finding(caller: str, tmp_path: Path) -> None:
    found = findings(tmp_path, {RELEASE: CALLERS[caller], "fatwheel.yml": CONFIG})
    assert [one for one in found if one.rule != "moving"] == []


# Each flaw is seeded into one caller after the other in `make test`, and into all three in `make proof`.
PAIRS = [
    pytest.param(name, caller, marks=[pytest.mark.long] * (number % 3 != place), id=f"{name}-{caller}")
    for number, name in enumerate(FLAWS)
    for place, caller in enumerate(CALLERS)
]


@pytest.mark.parametrize(("name", "caller"), PAIRS)
def test_a_flaw_is_named_at_its_line_with_the_edit(name: str, caller: str, tmp_path: Path) -> None:
    flaw = FLAWS[name]
    files = {RELEASE: CALLERS[caller] + flaw.jobs, "fatwheel.yml": CONFIG, **flaw.files}
    found = [one for one in findings(tmp_path, files) if one.rule == flaw.rule or one.weight is Weight.ERROR]
    expected = {f"{path}:{line_of(text)}" for path, text in files.items() if line_of(text)}
    assert {one.rule for one in found} == {flaw.rule}, found
    assert {":".join(one.where.split(":")[:2]) for one in found} == expected
    assert any(flaw.edit in one.how for one in found), found


def test_the_flaws_are_more_than_thirty_kinds() -> None:
    assert len(FLAWS) > 30
    assert {SEEDED, CALLED} <= {path for flaw in FLAWS.values() for path in flaw.files}
