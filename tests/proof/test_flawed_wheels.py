"""The audit against the record of what installers, loaders and other checkers say of each kind of flawed wheel.

`python -m tests.proof.flawed.oracle` asks them again, and writes the record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from ci_tools.model.files import Finding, Level
from ci_tools.verify.audit import audit
from tests.proof.flawed import archives, contents, libraries, metadata
from tests.proof.flawed.argued import ARGUED
from tests.proof.flawed.oracle import KINDS, RECORD

SAID: Mapping[str, Mapping[str, str]] = json.loads(RECORD.read_text("utf-8"))["kinds"]
LIMITS = {"pypi": 100 << 20, "github": 2 << 30}
DECIDE = ("pip", "uv", "import")  # and what any of them refuses is an error
NOT_NAMED = {kind for one in ARGUED for kind in one.kinds}
GROUPS = {"archives": archives, "metadata": metadata, "contents": contents, "libraries": libraries}
# One asks abi3audit, in a process of its own, or takes long for another reason.
SLOW = {name for name in SAID if "abi3" in name} | {"left-many-files", "path-too-long"}


def found_in(name: str, folder: Path) -> tuple[Finding, ...]:
    wheel = KINDS[name].make(folder / name)
    return audit(wheel, job=None, limits=LIMITS, work=folder / name / "work")


def is_refused(name: str) -> bool:
    return any(tool.startswith(DECIDE) for tool in SAID[name])


def is_missed(name: str, folder: Path) -> bool:
    """Whether the audit says less of a kind than what others say asks for."""
    found = found_in(name, folder)
    assert all(one.effect and one.command for one in found), name
    return not (any(one.level is Level.ERROR for one in found) if is_refused(name) else found)


def test_the_record_is_of_these_kinds() -> None:
    assert SAID.keys() == KINDS.keys()
    assert KINDS.keys() > NOT_NAMED
    assert len(KINDS) >= 150


@pytest.mark.parametrize("group", GROUPS)
def test_what_an_installer_or_a_loader_refuses_is_an_error(group: str, tmp_path: Path) -> None:
    names = {name for name in GROUPS[group].KINDS if is_refused(name)} - SLOW - NOT_NAMED
    assert {name for name in names if is_missed(name, tmp_path)} == set()


@pytest.mark.long
@pytest.mark.parametrize("group", GROUPS)
def test_what_others_name_has_a_finding_or_a_reason(group: str, tmp_path: Path) -> None:
    names = {name for name in GROUPS[group].KINDS if SAID[name]}
    assert {name for name in names if is_missed(name, tmp_path)} == {name for name in names if name in NOT_NAMED}
