"""CONTRIBUTING's table "Where do I change X?" names files that are there, and places that are the only ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ci_tools.doctor.rules import FILE_RULES, JOB_RULES, OTHER_JOB_RULES
from ci_tools.doctor.rules import RULES as DOCTOR_RULES
from ci_tools.verify.audit import RULES

AUDIT = {rule.check.__name__ for rule in RULES.values()}
DOCTOR = {rule.__name__ for rule in (*DOCTOR_RULES, *JOB_RULES, *OTHER_JOB_RULES, *FILE_RULES)}
REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("## Where do I change X?\n")[2].partition("\n## ")[0]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE.splitlines() if line.startswith("| ")][
    1:
]
PATH = re.compile(r"`([\w./*-]+/[\w./*{,}-]+)`")
NAME = re.compile(r"`(\w+)`")
# What only one accelerator has: a key of the config (`pypi-cuda`, `unsupported: cuda`), a compiler that can be fetched,
# kernels that cmake lists, a runtime of SYCL. Another accelerator needs none of these modules.
OF_ONE = frozenset(
    {
        "build/cuda_toolkits",
        "build/requirements",
        "build/room",
        "build/sdk/redist",
        "build/toolchain",
        "build/units/launchers",
        "catalog/__init__",
        "config/mistakes",
        "config/starter/choices",
        "config/test_infra/__init__",
        "config/test_infra/migration",
        "index/wheel_facts",
        "observe/build",
        "observe/cmake/options",
        "observe/cmake/run",
        "observe/cmake/witness",
        "observe/collector",
        "observe/device_code",
        "observe/interpretation",
        "observe/setup_py/prepared",
        "observe/switches",
        "observe/views",
        "plan/aliases",
        "plan/axes",
        "plan/contradictions",
        "plan/planner",
        "recipes/upstream",
        "verify/audit/libraries/torch",
    }
)
OF_GITHUB = frozenset(
    {"cli/verbs/index", "github/client", "publish/retraction"}
)  # they take back releases, or read them


def expand(name: str) -> list[Path]:
    """Return the paths that a name such as `catalog/{cuda,torch}.toml` or `catalog/*.toml` stands for."""
    start, _, rest = name.partition("{")
    words, _, end = rest.partition("}")
    return [path for word in words.split(",") for path in sorted(REPOSITORY.glob(f"{start}{word}{end}".rstrip("/")))]


def modules_with(pattern: str) -> set[str]:
    """Return the modules of ci_tools in whose text a pattern is found, without their endings."""
    top = REPOSITORY / "ci_tools"
    found = (path for path in top.rglob("*.py") if re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE))
    return {path.relative_to(top).with_suffix("").as_posix() for path in found}


@pytest.mark.parametrize("row", [pytest.param(row, id=row[0]) for row in ROWS])
def test_the_files_of_a_change_are_there(row: list[str]) -> None:
    assert PATH.search(row[1])
    missing = [path for cell in row for path in PATH.findall(cell) if not expand(path)]
    assert not missing


def test_eighteen_changes_are_told() -> None:
    assert len(ROWS) >= 18


@pytest.mark.parametrize("row", [pytest.param(row, id=row[0]) for row in ROWS])
def test_the_names_of_a_change_are_in_its_files(row: list[str]) -> None:
    said = " ".join(row[1:])
    paths = [path for name in PATH.findall(said) for path in expand(name)]
    text = "".join(path.read_text(encoding="utf-8") for path in paths if path.is_file())
    assert [name for name in NAME.findall(said) if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize(
    ("folder", "rules", "sign"),
    [
        pytest.param(
            "verify/audit", AUDIT, r"^def ([a-z]\w*)\(subject: Subject\) -> Iterator\[Flaw\]:", id="the-audit"
        ),
        pytest.param("doctor/rules", DOCTOR, r"^def (check_\w+)\(", id="the-doctor"),
    ],
)
def test_a_rule_that_is_written_is_one_that_is_checked(folder: str, rules: set[str], sign: str) -> None:
    files = sorted((REPOSITORY / "ci_tools" / folder).rglob("*.py"))
    found = {name for path in files for name in re.findall(sign, path.read_text(encoding="utf-8"), re.MULTILINE)}
    assert found
    assert found <= rules


@pytest.mark.parametrize(
    ("pattern", "folder", "others"),
    [
        pytest.param(r"\(AcceleratorKind\):", "catalog/accelerators", frozenset(), id="an-accelerator"),
        pytest.param(
            r"^from ci_tools.catalog.accelerators.\w+ import", "catalog/accelerators", OF_ONE, id="one-by-name"
        ),
        pytest.param(r"= TargetKind\($", "catalog/targets", frozenset(), id="a-target"),
        pytest.param(
            r"^\s*from ci_tools.catalog.targets.\w+ import", "catalog/targets", OF_GITHUB, id="a-target-by-name"
        ),
        pytest.param(
            r"(startswith|removeprefix)\(.(dir|s3|github|pypi):", "catalog/targets", frozenset(), id="a-prefix"
        ),
    ],
)
def test_it_is_said_in_no_other_place(pattern: str, folder: str, others: frozenset[str]) -> None:
    assert {name for name in modules_with(pattern) if not name.startswith(folder)} == others
