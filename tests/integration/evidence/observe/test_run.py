"""What was observed is the same wherever and by whomever it is observed, and is never half an observation."""

from __future__ import annotations

import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from ci_tools.errors import MachineError
from ci_tools.evidence.observe import run
from ci_tools.machine import sandbox, seals
from tests.builders.sources import evidence_of, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow  # many real processes

CONFIG = """\
package: demo
version: "1.0"
python: ["3.10", "3.14t"]
platforms:
  linux-cpu: {owner: x}
"""
SETUP = """\
import subprocess, sys, sysconfig, tempfile
from setuptools import Extension, setup
said = subprocess.check_output([sys.executable, '-c', 'print(1)'], text=True)
paths = [tempfile.mkdtemp(), sys.prefix, sysconfig.get_path('include'), sys.executable]
setup(name='demo', version='1.0', description=said.strip(), packages=['demo'],
      ext_modules=[Extension('demo.a', ['a.c'], extra_compile_args=[f'-DA={path}' for path in paths])])
"""


def project(folder: Path) -> Path:
    return write(folder / "a", {"fatwheel.yml": CONFIG, "setup.py": SETUP, "demo/__init__.py": "", "a.c": ""})


def test_another_folder_and_another_cache_show_the_same(tmp_path: Path) -> None:
    assert evidence_of(project(tmp_path / "one")) == evidence_of(project(tmp_path / "two" / "deeper"))


def test_no_folder_of_this_machine_and_no_version_of_its_python_is_evidence(tmp_path: Path) -> None:
    shown = str(evidence_of(project(tmp_path)))
    assert "-DA=" in shown
    assert [own for own in (str(tmp_path), sys.prefix, sys.base_prefix) if own in shown] == []
    assert set(re.findall(r"python(3\.\d+)", shown)) <= {"3.10", "3.14"}  # those of the cells


def test_two_plans_at_once_in_one_cache_show_the_same(tmp_path: Path) -> None:
    source = project(tmp_path)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(evidence_of, [source, source])
    assert first == second


def test_what_was_observed_once_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = evidence_of(project(tmp_path))
    monkeypatch.setattr(run, "run_in_sandbox", None)
    assert evidence_of(tmp_path / "a") == first


def test_a_run_that_is_killed_leaves_nothing_that_is_taken_for_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*arguments: object, **more: object) -> sandbox.Confined:
        raise MachineError(str(len(arguments) + len(more)))

    monkeypatch.setattr(run, "run_in_sandbox", killed)
    with pytest.raises(MachineError):
        evidence_of(project(tmp_path))
    left = {path.name for path in (tmp_path / "cache").rglob("*")}
    assert left == {"stages", "sweep"}  # a folder, and its lock
    monkeypatch.undo()
    assert evidence_of(tmp_path / "a").platforms[0].shown.built


def test_a_kept_answer_that_is_damaged_is_observed_again(tmp_path: Path) -> None:
    first = evidence_of(project(tmp_path))
    for path in kept(tmp_path):
        path.write_bytes(path.read_bytes()[:-20])
    assert evidence_of(tmp_path / "a") == first


def kept(folder: Path) -> list[Path]:
    return sorted((folder / "cache" / "observations").glob("*.json"))


def without_compilations(path: Path) -> None:
    path.write_text(path.read_text().replace("compiles", "imports"))


def sealed_by_another(path: Path) -> None:
    entry = json.loads(path.read_text())
    path.write_bytes(seals.seal(path.stem, json.loads(entry["value"]) | {"compiles": []}, b"another's key"))


def as_it_was_kept_before(path: Path) -> None:
    path.write_text(json.loads(path.read_text())["value"])


def of_another_cell(path: Path) -> None:
    first, *_, last = sorted(path.parent.glob("*.json"))
    first.write_bytes(last.read_bytes())


@pytest.mark.parametrize("forge", [without_compilations, sealed_by_another, as_it_was_kept_before, of_another_cell])
def test_a_kept_answer_that_was_forged_is_observed_again(forge: Callable[[Path], None], tmp_path: Path) -> None:
    first = evidence_of(project(tmp_path))
    before = [path.read_bytes() for path in kept(tmp_path)]
    for path in kept(tmp_path):
        forge(path)
    assert (evidence_of(tmp_path / "a"), [path.read_bytes() for path in kept(tmp_path)]) == (first, before)


FIRST_DOUBT = """\
import os, sys
from setuptools import Extension, setup
BEFORE
print(open('/etc/hostname').read())
ask = [sys.platform, sys.version_info, os.environ.get('USE_IT'), os.environ.get('FORCE_IT')]
setup(name='demo', version='1.0', ext_modules=[Extension('demo.a', ['a.c'])] if os.name == 'nt' else [])
"""


@pytest.mark.parametrize(("before", "runs"), [("", 1), ("ask = sys.platform", 2)], ids=["by-none", "by-the-system"])
def test_a_doubt_is_met_once_by_all_cells_that_differ_in_nothing_asked_before(
    before: str, runs: int, tmp_path: Path
) -> None:
    config = CONFIG.replace("platforms:", "platforms:\n  windows: {owner: x}")
    files = {"fatwheel.yml": config, "setup.py": FIRST_DOUBT.replace("BEFORE", before), "a.c": ""}
    found = evidence_of(write(tmp_path / "a", files))
    assert {one.shown.extensions_where.split(": ")[0] for one in found.platforms} == {"setup.py:4"}
    assert len(kept(tmp_path)) == runs
