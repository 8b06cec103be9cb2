"""Reads what somebody asks for in the issue form "I need this wheel". The text is hostile until it is read. No I/O."""

from __future__ import annotations

import re
from typing import NamedTuple

from ci_tools.errors import Problem, RejectedInput
from ci_tools.formats.markdown import one_line
from ci_tools.recipes.choice import RecipeChoice

# The labels of .github/ISSUE_TEMPLATE/wheel.yml: GitHub writes each as a heading, and the text of its field below it
# (https://docs.github.com/en/communities/using-templates-to-encourage-useful-issues-and-pull-requests/syntax-for-issue-forms).
HEADINGS = ("Package", "Version", "Python", "PyTorch", "CUDA", "GPU architectures")
EMPTY = "_No response_"
MAX_TEXT = 10_000  # characters
MAX_FIELD = 100
MAX_VALUES = 8
SHOWN = 40  # characters of a field that an error repeats
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
NUMBER = r"[0-9]{1,2}\.[0-9]{1,2}"
FORMS = {
    "Package": (NAME, "the name of a recipe, such as sageattention"),
    "Version": (re.compile(r"[0-9][0-9A-Za-z.!]*"), "a version such as 2.2.0"),
    "Python": (re.compile(rf"{NUMBER}t?"), "versions such as 3.13, 3.14t"),
    "PyTorch": (re.compile(rf"{NUMBER}"), "a version such as 2.10"),
    "CUDA": (re.compile(NUMBER), "a version such as 13.0"),
    "GPU architectures": (re.compile(rf"{NUMBER}[af]?(\+PTX)?"), "compute capabilities such as 8.9, 12.0"),
}
SINGLE = frozenset({"Package", "Version"})


class Wish(NamedTuple):
    """A request: the name of a recipe, and the values that take the place of its own."""

    recipe: str
    choice: RecipeChoice


def read_form(text: str) -> Wish:
    """Return what a form asks for; raise RejectedInput with every mistake, each with little of the text in it."""
    if len(text) > MAX_TEXT:
        raise RejectedInput([Problem("", f"the text has more than {MAX_TEXT:,} characters")])
    parts = re.split(r"^### (.*)$", text.replace("\r\n", "\n"), flags=re.MULTILINE)
    if tuple(parts[1::2]) != HEADINGS or parts[0].strip():
        what = f"the text is not that of the form, expected the headings {', '.join(HEADINGS)}"
        raise RejectedInput([Problem("", what)], hint="open a new issue with the form")
    fields = {name: value.strip() for name, value in zip(parts[1::2], parts[2::2], strict=True)}
    values = {name: _split(name, "" if value == EMPTY else value) for name, value in fields.items()}
    problems = [Problem(name, what) for name, value in fields.items() if (what := _find_mistake(name, value, values))]
    if problems:
        raise RejectedInput(problems)
    package, version, pythons, torches, cudas, archs = values.values()
    return Wish(package[0].lower(), RecipeChoice("".join(version), pythons, torches, cudas, archs))


def _split(name: str, text: str) -> tuple[str, ...]:
    """Return the values of a field; blanks and semicolons part them, too."""
    return ((text,) if text else ()) if name in SINGLE else tuple(dict.fromkeys(re.findall(r"[^\s,;]+", text)))


def _find_mistake(name: str, text: str, values: dict[str, tuple[str, ...]]) -> str:
    form, expected = FORMS[name]
    if len(text) > MAX_FIELD or len(values[name]) > MAX_VALUES:
        return f"it is too long, expected at most {MAX_FIELD} characters and {MAX_VALUES} values"
    if name == "Package" and not values[name]:
        return f"it is empty, expected {expected}"
    wrong = next((value for value in values[name] if not form.fullmatch(value)), None)
    return "" if wrong is None else f'"{one_line(wrong[:SHOWN])}" cannot be asked for, expected {expected}'
