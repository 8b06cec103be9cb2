"""Extensions of a wheel that no Python, or only another one, can import."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.model.files import Level
from tests.builders.audited import findings, planned
from tests.builders.wheels import LINUX, linked, make
from tests.builders.windows import dll

NAME = "demo-1.0-cp312-cp312-win_amd64.whl"
OLD, NEW = "demo/_C.cp310-win_amd64.pyd", "demo/_C.cp312-win_amd64.pyd"


@pytest.mark.parametrize(
    ("is_planned", "level"),
    [pytest.param(True, Level.ERROR, id="ours"), pytest.param(False, Level.WARNING, id="another-s")],
)
def test_an_extension_of_an_earlier_build_is_named(tmp_path: Path, level: Level, *, is_planned: bool) -> None:
    library = dll({"KERNEL32.dll": ("f",)}, exports=("PyInit__C",))
    wheel = make(tmp_path, NAME, {"demo/__init__.py": b"", NEW: library, OLD: library + b"\0"})
    job = planned(NAME) if is_planned else None
    found = [one for one in findings(wheel, job) if one.rule == "suffix"]
    assert [(one.level, one.message.startswith(f"{OLD} is for another Python")) for one in found] == [(level, True)]


@pytest.mark.parametrize("name", ["knn/_C", "more-1.0.data/platlib/knn/_C"], ids=["member", "platlib"])
@pytest.mark.parametrize("rule", ["init", "undefined"])
def test_a_finding_is_seen_by_importing_its_extension(tmp_path: Path, name: str, rule: str) -> None:
    code = linked("int nowhere(void); int (*asked)(void) = nowhere;")
    wheel = make(tmp_path, LINUX, {"demo/__init__.py": b"", f"{name}.abi3.so": code})
    said = [one.command.partition(" python ")[2] for one in findings(wheel) if one.rule == rule]
    assert said == ["-c 'import knn._C'"]
