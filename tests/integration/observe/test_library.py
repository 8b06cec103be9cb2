"""Python's standard library as a build sees it: the names and values of the cell, by whatever way it asks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_tools.catalog import STANDARD_LIBRARY
from ci_tools.model.versions import Python
from ci_tools.observe.inside.standard_library.values import KNOWN_IN
from ci_tools.observe.observation import Observed
from ci_tools.observe.views import View
from tests.builders.library import HEAD, WAYS, answers, holds, observe_lines

pytestmark = pytest.mark.slow  # many real processes

TABLE = json.loads(STANDARD_LIBRARY.read_text(encoding="utf-8"))
DOUBTFUL = {module: set(names.split()) for names_of in KNOWN_IN.values() for module, names in names_of.items()}
SAMPLES = Path(__file__).parents[2] / "samples"
METHODS = {row.partition(".")[2] for names in TABLE.values() for row in names}
CELLS = [("linux", "3.10"), ("linux", "3.13"), ("macos", "3.12"), ("windows", "3.11"), ("windows", "3.14t")]


def observe(folder: Path, lines: list[str], os: str, python: str) -> Observed:
    """Return what is observed of a build that asks all these questions, each in a line of its own."""
    return observe_lines(folder, lines, View(os, "amd64" if os == "windows" else "x86_64", Python.parse(python)))


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield the names of modules that every Python on Linux has."""
    for module, names in TABLE.items():
        if not module.startswith("_") and "" not in names:
            here = names.keys() - DOUBTFUL.get(module, set())
            yield from ((module, name, names[name]) for name in sorted(here) if "." not in name)


@pytest.mark.parametrize(("os", "python"), CELLS)
def test_each_name_is_there_in_the_cells_that_have_it(os: str, python: str, tmp_path: Path) -> None:
    asked = []
    for number, (module, name, condition) in enumerate(list(rows())[::5]):
        ways = WAYS[:-1] if module in {*DOUBTFUL, "sys"} else WAYS  # the last one asks for all values of a module
        if name in METHODS:  # a list of names may be a class's, and that is a doubt: OF_LATER_PYTHONS
            ways = tuple(way for way in ways if " in " not in way)
        asked.append((ways[number % len(ways)].format(m=module, n=name), condition))
    assert len(asked) > 300
    observed = observe(tmp_path, [f"answer(lambda: {question})" for question, _ in asked], os, python)
    assert not observed.doubts
    assert not observed.failure
    wrong = [asked[at] for at, found in enumerate(answers(observed)) if found != holds(asked[at][1], os, python)]
    assert not wrong


def test_a_python_that_the_build_starts_has_the_same_names(tmp_path: Path) -> None:
    asked = list(rows())[::40]
    program = "; ".join(
        f"import {module}; print(int(hasattr({module}, {name!r})), end=str())" for module, name, _ in asked
    )
    line = f"found += subprocess.check_output([sys.executable, '-c', {program!r}]).decode()"
    assert answers(observe(tmp_path, [line], "windows", "3.14")) == [
        holds(condition, "windows", "3.14") for *_, condition in asked
    ]


# ---------------------------------------------------------------- what differs under one name

# Each holds on Windows alone.
OF_WINDOWS = (SAMPLES / "questions_of_windows.txt").read_text(encoding="utf-8").splitlines()
# Each holds on Windows alone as well; Linux gives no answer.
OF_NO_CELL = {
    "dict(inspect.getmembers(sys))['platform'] == 'win32'",
    "inspect.getattr_static(sys, 'platform') == 'win32'",
    "os.system('where cl.exe >nul 2>nul') == 0",
}
MORE = """\
import array, asyncio, ctypes, distutils, glob, importlib.util, locale, mimetypes, multiprocessing, signal, struct
import sysconfig, tempfile
from distutils import ccompiler
def run_hidden(words):
    found = subprocess.STARTUPINFO()
    found.dwFlags |= subprocess.STARTF_USESHOWWINDOW
    found.wShowWindow = subprocess.SW_HIDE
    return subprocess.run(words, startupinfo=found, creationflags=subprocess.CREATE_NO_WINDOW)
def command(name):
    made = Distribution().get_command_obj(name)
    made.ensure_finalized()
    return made
"""
# Each holds for Python 3.13 and not for 3.10.
OF_LATER_PYTHONS = (SAMPLES / "questions_of_later_pythons.txt").read_text(encoding="utf-8").splitlines()
MORE_FOR_PYTHONS = "import array, configparser, datetime, dis, enum, itertools, queue, token, typing, zipfile\n"


def judge(
    folder: Path, questions: list[str], cell: tuple[str, str], *, truth: bool, more: str
) -> tuple[list[str], list[str]]:
    """Return the questions that got a wrong answer without a doubt, and those with a doubt."""
    lines = [*more.splitlines(), *(f"answer(lambda: {question})" for question in questions)]
    observed = observe(folder, lines, *cell)
    assert not observed.failure
    first = (HEAD + more).count("\n") + 1
    doubtful = {int(place.rpartition(":")[2]) - first for place in observed.doubts.values() if place}
    wrong = {at for at, found in enumerate(answers(observed)) if found != truth}
    return [questions[at] for at in sorted(wrong - doubtful)], [questions[at] for at in sorted(doubtful)]


def test_linux_answers_for_itself(tmp_path: Path) -> None:
    wrong, doubtful = judge(tmp_path, OF_WINDOWS, ("linux", "3.12"), truth=False, more=MORE)
    assert not wrong
    assert {*doubtful} <= OF_NO_CELL


def test_what_windows_answers_is_known_or_a_doubt(tmp_path: Path) -> None:
    cell = ("windows", "3.12")
    left, _ = judge(tmp_path / "all", OF_WINDOWS, cell, truth=True, more=MORE)
    # A build tells each doubt once, with the first line that has it: the other lines are asked again, alone.
    wrong = [one for at, one in enumerate(left) if judge(tmp_path / str(at), [one], cell, truth=True, more=MORE)[0]]
    assert not wrong


@pytest.mark.parametrize(
    ("question", "is_doubt"),
    [
        pytest.param(r"re.split(r'[;,\s]+', '8.0;9.0') == ['8.0', '9.0']", False, id="white-space"),
        pytest.param(r"re.split(r'[/\\]', 'a/b') == ['a', 'b']", True, id="a-backslash"),
        pytest.param("'a/b'.startswith('a/')", False, id="a-slash-in-a-text"),
        pytest.param("os.path.join('a', 'b').replace(os.sep, '/') == 'a/b'", False, id="a-path-with-slashes"),
        pytest.param("pathlib.Path('a', 'b').as_posix() == 'a/b'", False, id="a-path-as-posix"),
        pytest.param("'https://' not in open(os.path.join('.', 'setup.py')).read(9)", False, id="what-a-file-has"),
    ],
)
def test_a_pattern_decides_by_a_backslash_only_if_it_matches_one(
    question: str, *, is_doubt: bool, tmp_path: Path
) -> None:
    _, doubtful = judge(tmp_path, [question], ("windows", "3.12"), truth=True, more="import re\n")
    assert bool(doubtful) == is_doubt


@pytest.mark.parametrize("python", ["3.10", "3.13"])
def test_what_a_python_answers_is_known_or_a_doubt(python: str, tmp_path: Path) -> None:
    truth = python == "3.13"
    wrong, _ = judge(tmp_path, OF_LATER_PYTHONS, ("linux", python), truth=truth, more=MORE_FOR_PYTHONS)
    assert not wrong
