"""What a build and a release say of what their audits found."""

from __future__ import annotations

import os
from pathlib import Path

from ci_tools.machine.context import Outside
from ci_tools.model.files import Finding, Level
from ci_tools.verify.files import tell_findings
from tests.builders.releases import Words


def tell(findings: list[Finding], folder: Path) -> list[str]:
    reporter = Words()
    tell_findings(findings, Outside(environ=os.environ, cache=folder, reporter=reporter))
    return reporter.lines


def find(wheel: str, rule: str, message: str, level: Level = Level.WARNING) -> Finding:
    return Finding(wheel, rule, level, message, "this", "that", "it shows badly", f"see {wheel}")


def test_each_rule_is_said_once_with_what_shows_it_and_how_many_more_there_are(tmp_path: Path) -> None:
    found = [find(f"{number}.whl", "build-paths", f"paths in {number}.so") for number in range(3)]
    rest = "it shows badly (found this, expected that); see it: see 0.whl"
    assert tell([*found, find("0.whl", "index", "no kind")], tmp_path) == [
        f"warning: 0.whl: build-paths: paths in 0.so: {rest}; 2 more of build-paths",
        f"warning: 0.whl: index: no kind: {rest}",
    ]


def test_what_each_wheel_has_of_its_own_is_said_of_each_but_equal_words_once(tmp_path: Path) -> None:
    found = [find(f"{number}.whl", "overwritten", f"{number % 2}.py") for number in range(4)]
    assert [line.split(":")[1] for line in tell(found, tmp_path)] == [" 0.whl", " 1.whl"]


def test_an_error_is_not_said_as_a_warning(tmp_path: Path) -> None:
    assert tell([find("0.whl", "tags", "another tag", Level.ERROR)], tmp_path) == []
