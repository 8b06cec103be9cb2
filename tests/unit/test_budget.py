"""The count of lines: rooms, verbs, all of them, and what is over the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.budget.lines import count_lines
from tests.builders.sources import write

VERBS = 'VERBS: dict = {"list": Verb("text", "list", "index"), "index show": Verb("text", "show")}\n'
INDEX = """from ci_tools.errors import InputError

def declare_list(): pass

def declare_show(): pass

def run_list():
    from ci_tools.plan import planner

def run_show(): _show()

def _show():
    import json
    from ci_tools.plan.sites import find
"""
FILES = {
    "ci_tools/errors.py": "class InputError: pass\n",
    "ci_tools/plan/planner.py": "if TYPE_CHECKING:\n    from ci_tools.plan.sites import find\n",
    "ci_tools/plan/inside/fakes.py": "fake = 1\n",
    "ci_tools/plan/sites.py": "def find():\n    from ci_tools.plan.planner import x\n\n\n",
    "ci_tools/cli/verbs/__init__.py": VERBS,
    "ci_tools/cli/verbs/index.py": INDEX,
    "tests/test_one.py": "x = 1\n" * 11,
    "tests/maintain/table.py": "x = 1\n",
}
FITS = {"plan": 7, "errors": 1, "cli": 15, "list": 17, "index show": 21, "ci_tools": 23, "tests per 1,000": 478}


def counted(root: Path, **changed: int) -> dict[str, tuple[int, bool]]:
    """Count the lines of a small toolkit by a table that fits it but for some rows."""
    write(root, FILES)
    kinds = {"room": ("plan", "errors", "cli"), "verb": ("list", "index show"), "all": ("ci_tools", "tests per 1,000")}
    rows = {**FITS, **changed}
    table = "".join(
        f"[{kind}]\n" + "".join(f'"{name}" = {rows.pop(name)}\n' for name in of) for kind, of in kinds.items()
    )
    (root / "lines.toml").write_text(table + "".join(f'"{name}" = {most}\n' for name, most in rows.items()))
    return {count.name: (count.lines, count.is_over) for count in count_lines(root, root / "lines.toml")}


def test_rooms_have_their_stand_ins_and_verbs_what_they_import(tmp_path: Path) -> None:
    assert counted(tmp_path) == {name: (lines, False) for name, lines in FITS.items()}


@pytest.mark.parametrize("name", FITS)
def test_one_line_more_than_the_table_allows_is_over(tmp_path: Path, name: str) -> None:
    over = counted(tmp_path, **{name: FITS[name] - 1})
    assert [each for each, (_, is_over) in over.items() if is_over] == [name]


def test_a_row_that_nothing_has_is_over(tmp_path: Path) -> None:
    assert counted(tmp_path, gone=5)["gone"] == (0, True)
