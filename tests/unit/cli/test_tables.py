"""What a person sees is what is meant: no text of others moves the cursor, and none becomes a picture."""

from __future__ import annotations

import fcntl
import io
import os
import pickle
import pty
import struct
import subprocess
import sys
import termios
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from ci_tools.cli.main import main
from ci_tools.cli.reporter import TerminalReporter
from ci_tools.cli.tables import layout
from ci_tools.cli.tables.layout import Table, plain, show
from ci_tools.cli.tables.plan import evidence_table, plan_tables
from ci_tools.cli.tables.release import findings_table, preview_tables, publication_tables
from ci_tools.cli.tables.upkeep import flaws_table
from ci_tools.index.maintain import IndexFlaw
from ci_tools.index.units import Change, Published, Withheld
from ci_tools.model.files import Finding, Level
from ci_tools.model.names import FileName
from ci_tools.plan.make import make_plan
from ci_tools.publish.transaction import Shown
from tests.builders.sources import demo, shared_world

HOSTILE = "a\x1b[31mred\x9b2J\u202eb\udcff\r[bold]c[/] :x: github:x:"
ESCAPED = r"a\x1b[31mred\x9b2J\u202eb\udcff\r[bold]c[/] :x: github:x:"
TAGS = "cp312-cp312-manylinux_2_28_x86_64.whl"
TABLES: list[Iterable[Table]] = [
    flaws_table([IndexFlaw(HOSTILE, "what")]),
    publication_tables([Shown("there", (Published("demo", HOSTILE, new=False),))], ()),
    publication_tables([], [Withheld("linux-cuda", HOSTILE)]),
    preview_tables([("core", HOSTILE, Change("add", "there"))], ()),
]


def test_nothing_that_moves_a_cursor_goes_through_and_every_letter_does() -> None:
    assert plain(HOSTILE) == ESCAPED
    same = "ordinary\n\ttext, “größer” → 中文\u3000\u00a0🎡"
    assert plain(same) == same


@pytest.mark.parametrize("table", TABLES)
def test_a_table_shows_hostile_text_escaped(table: Iterable[Table], capsys: pytest.CaptureFixture[str]) -> None:
    show(table)
    assert ESCAPED in capsys.readouterr().out


@pytest.mark.parametrize("is_terminal", [True, False])
def test_talk_shows_hostile_text_escaped(is_terminal: bool) -> None:  # noqa: FBT001 - a parameter
    heard = io.StringIO()
    console = Console(file=heard, force_terminal=is_terminal, width=200, color_system=None)
    talk = TerminalReporter(lambda: console)
    talk.say(HOSTILE)
    with talk.step(HOSTILE) as step:
        step.waiting(1.0)
        if step.live:
            step.live.refresh()
        step.result(HOSTILE)
    said = heard.getvalue()
    assert (said.count(ESCAPED) >= 3, "\x1b[31m" in said, "\x9b" in said) == (True, False, False)


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "--tag", ""],
        ["plan", "--nightly", " "],
        ["release", "--tag="],
        ["build", "--job", "pure", "--out", "dist", "--tag", ""],
        ["publish", "dist", "--only", ""],
    ],
)
def test_an_option_that_an_empty_variable_was_given_to_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert "it is empty, expected a value" in capsys.readouterr().err


# ---------------------------------------------------------------- how tables are drawn

WORDS = st.text(st.sampled_from("abc019.-_/ 中é🎡\n"), max_size=30)


@st.composite
def tables(draw_one: st.DrawFn) -> Table:
    """Return a table as `new_table` and `add_row` make one."""
    columns = draw_one(st.lists(st.text("abcXY", min_size=1, max_size=12), min_size=1, max_size=4))
    table = layout.new_table("a title", *columns)
    for row in draw_one(st.lists(st.tuples(*[WORDS] * len(columns)), min_size=1, max_size=4)):
        layout.add_row(table, *row)
    return table


@given(tables(), st.integers(1, 120))
def test_no_width_loses_a_word_and_every_line_keeps_to_it(table: Table, columns: int) -> None:
    lines = layout.draw(table, columns)
    words = sorted(word for row in table.rows for text in row for word in text.split())
    shown = [word for line in lines for word in line.replace("─", "").split()]
    assert sorted((Counter(shown) & Counter(words)).elements()) == words
    assert all(cell_len(line) <= columns or len(line.split()) <= 2 for line in lines)


@given(tables())
def test_a_table_that_fits_is_not_wrapped(table: Table) -> None:
    lines = layout.draw(table)
    width = max(map(cell_len, lines))
    assert layout.draw(table, width) == lines


@pytest.mark.parametrize("is_set", [True, False])
def test_a_log_is_as_wide_as_a_page_or_as_columns_says(
    is_set: bool,  # noqa: FBT001 - a parameter
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "400") if is_set else monkeypatch.delenv("COLUMNS", raising=False)
    table = layout.new_table("a title", "job", "why")
    layout.add_row(table, "linux-cuda-cu130", "one sentence of several words " * 10)
    show([table], is_page=True)
    longest = max(map(len, capsys.readouterr().out.splitlines()))
    assert (longest > 300) is is_set
    assert longest <= (400 if is_set else layout.PAGE)


def test_another_log_has_whole_rows_below_a_rule_of_a_page(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    table = layout.new_table("a title", "job", "why")
    layout.add_row(table, "linux-cuda-cu130", sentence := "one sentence of several words " * 10)
    show([table])
    _, _, _, rule, row, *_ = capsys.readouterr().out.splitlines()
    assert (len(rule), row) == (layout.PAGE, f" linux-cuda-cu130   {sentence.rstrip()}")


@pytest.mark.parametrize("owners", [("@org/team",), ("@org/team", "@org/another-team"), (None, "@org/team")])
@pytest.mark.parametrize("length", [4, 20, 50])
def test_a_plan_has_room_on_a_page(
    tmp_path: Path, length: int, owners: tuple[str | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    plan = make_plan(demo(tmp_path) / "fatwheel.yml", shared_world()).plan
    made = [replace(plan.jobs[0], owner=owner, wheel=FileName(f"{'n' * length}-1.0-{TAGS}")) for owner in owners]
    table = next(iter(plan_tables(replace(plan, jobs=tuple(made)), explain=False)))
    lines = [table.title, *layout.draw(table)]
    assert max(map(len, lines)) <= layout.PAGE
    assert all(sum(word in line for line in lines) for word in (*filter(None, owners), f"-1.0-{TAGS}"))


@given(tables(), st.integers(1, 60))
def test_rows_drawn_as_paragraphs_lose_no_word_and_keep_to_the_width(table: Table, columns: int) -> None:
    lines = list(layout.draw_apart(table, columns))
    names = {f"{name}:" for name in table.columns[1:]}
    words = sorted(word for row in table.rows for text in row for word in text.split())
    assert sorted(word for line in lines for word in line.split() if word not in names) == words
    assert all(len(line) <= columns or len(line.split()) == 1 for line in lines)


MESON = {
    "fatwheel.yml": """\
package: demo
python: ["3.12", "3.13", "3.14t"]
platforms:
  linux-cpu: {owner: "@demo/cpu", native: ["*.c"]}
""",
    "pyproject.toml": """\
[build-system]
requires = ["meson-python"]
build-backend = "mesonpy"
[project]
name = "demo"
version = "1.0"
[tool.meson-python]
limited-api = true
""",
    "meson.build": "py = import('python').find_installation()\npy.extension_module('x', 'x.c', limited_api: '3.12')\n",
    "x.c": "#include <Python.h>\n",
}


def test_cells_of_one_evidence_are_counted_and_one_alone_is_named(tmp_path: Path) -> None:
    planned = make_plan(demo(tmp_path / "demo", MESON) / "fatwheel.yml", shared_world())
    (table,) = evidence_table(planned.evidence, planned.plan)
    assert [row[0] for row in table.rows if row[0]] == ["linux-cpu / cp312 and 1 more", "linux-cpu / cp314t"]


@pytest.mark.slow
def test_an_error_shows_hostile_text_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "\x1b[31mred :x:", "--format", "json"]) == 2
    said = capsys.readouterr().err
    assert ("\\x1b[31mred :x:" in said, "\x1b" in said) == (True, False)


NAMES = ("demo-1.0-cp312-cp312-manylinux_2_28_x86_64.whl", "linux-cuda-cu130")


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_a_narrow_terminal_breaks_no_name(columns: int) -> None:
    table = layout.new_table("a title", "wheel", "job", "why")
    layout.add_row(table, *NAMES, "one sentence of several words " * 5)
    primary, secondary = pty.openpty()
    fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    code = "import pickle, sys; from ci_tools.cli.tables.layout import show; show([pickle.load(sys.stdin.buffer)])"
    variables = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "NO_COLOR"}}
    subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(table), stdout=secondary, env={**variables, "TERM": "xterm"}, check=True,
    )  # fmt: skip
    os.close(secondary)
    lines = os.read(primary, 1 << 16).decode().splitlines()
    os.close(primary)
    assert all(any(name in line for line in lines) for name in NAMES)
    assert max(len(line.rstrip()) for line in lines if not line.startswith(("\x1b", "a title"))) <= columns


@pytest.mark.parametrize("columns", ["", "140"])
def test_findings_in_a_log_are_paragraphs_no_wider_than_a_page(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    what = "the library needs a symbol that no torch before 2.11 has, " * 4
    finding = Finding(f"demo-1.0+cu130-{TAGS}", "torch", Level.ERROR, what, "aoti_torch_x" * 4, "another", what)
    show(findings_table([finding], 1))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= int(columns or 100)
    assert "   rule: torch" in lines
