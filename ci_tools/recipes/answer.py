"""Answers a request for a wheel: whether it is published, will be built, waits for a person, or cannot be, and why."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from ci_tools.errors import FatwheelError, InputError, Problem, RejectedInput
from ci_tools.formats.markdown import code, one_line, row, table_head, text
from ci_tools.github.client import WRITES, ask_permission, open_hub
from ci_tools.github.owners import ActionsRun
from ci_tools.machine.context import Outside
from ci_tools.model.versions import read_version
from ci_tools.recipes.choice import RecipeChoice, version_of
from ci_tools.recipes.due import DueVerdict, State
from ci_tools.recipes.shelf import find_recipe
from ci_tools.recipes.upstream import list_versions
from ci_tools.recipes.watch import watch

# The labels of .github/ISSUE_TEMPLATE/wheel.yml: GitHub writes each as a heading, and the text of its field below it
# (https://docs.github.com/en/communities/using-templates-to-encourage-useful-issues-and-pull-requests/syntax-for-issue-forms).
HEADINGS = ("Package", "Version", "Python", "PyTorch", "CUDA", "GPU architectures")
EMPTY = "_No response_"  # what GitHub writes into a field that is left empty
MAX_TEXT = 10_000  # characters
MAX_FIELD = 100  # characters
MAX_VALUES = 8  # of a field: their product is what has to be built
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
    # what stands before, then each heading with its text
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


ASKS = frozenset({"opened", "edited", "reopened"})  # what happens to an issue by which its sender asks for the wheel
LABELLED, COMMENTED = "labeled", frozenset({"created", "edited"})
LARGEST = 4 << 20  # bytes of an event
MAX_REASON = 600  # characters
NEWEST = 5  # versions that an answer names


class Fate(str, Enum):
    """What becomes of a request."""

    REFUSED = "refused"
    PUBLISHED = "published"
    BUILD = "build"
    WAITS = "waits"
    FAILED = "failed"


class Event(NamedTuple):
    """The parts of an event about an issue."""

    number: int
    body: str
    sender: str  # who caused it: the author or the editor of the issue, who gave the label, who wrote the comment
    starts: bool  # whether it starts a build if its sender may write


class Answer(NamedTuple):
    """What becomes of a request, and why."""

    fate: Fate
    wish: Wish | None = None
    verdicts: tuple[DueVerdict, ...] = ()
    reasons: tuple[str, ...] = ()


def read_event(path: Path, label: str) -> Event:
    """Return what a file such as that of GITHUB_EVENT_PATH says; raise InputError if it is not about an issue.

    The text is that of the event: what was approved is built, and not what the issue was edited to since.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise InputError(f"{path} has more than {LARGEST:,} bytes, expected the event of an issue")
        said: Any = json.loads(path.read_bytes())
        issue = said["issue"]
        number, body, sender = int(issue["number"]), str(issue["body"] or ""), str(said["sender"]["login"])
        # GitHub sends a comment on a pull request as one on an issue
        return Event(number, body, sender, "pull_request" not in issue and _starts(said, label))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (AttributeError, ValueError, KeyError, TypeError) as error:
        msg = f"{path} is not the event of an issue: {type(error).__name__}"
        hint = "in a workflow on `issues` or `issue_comment`, GITHUB_EVENT_PATH names it"
        raise InputError(msg, hint=hint) from error


def _starts(said: Mapping[str, Any], label: str) -> bool:
    """Return whether an event asks for a build: the issue, its label, or a comment whose first line is `/label`."""
    action = said["action"]
    if "comment" in said:
        return action in COMMENTED and str(said["comment"]["body"]).partition("\n")[0].strip() == f"/{label}"
    return action in ASKS or (action == LABELLED and said["label"]["name"] == label)


def answer(event: Event, target: str, results: Sequence[str], outside: Outside) -> Answer:
    """Return the answer to a request; `results` are those of the jobs that have built it, none before.

    Raises MachineError if the repository does not answer.
    """
    try:
        wish = read_form(event.body)
        recipe = find_recipe(wish.recipe)
        _refuse_unknown_version(wish, outside)
    except InputError as error:
        return Answer(Fate.REFUSED, reasons=_reasons(error))
    verdicts = tuple(watch([recipe], wish.choice, (), target, outside))
    troubles = [one.reason for one in verdicts if one.state in {State.CANNOT, State.UNKNOWN}]
    if len(troubles) == len(verdicts):
        return Answer(Fate.REFUSED, wish, reasons=tuple(dict.fromkeys(troubles)))
    if not any(one.state is State.DUE for one in verdicts):
        return Answer(Fate.PUBLISHED, wish, verdicts)
    if results:
        return Answer(Fate.FAILED, wish, verdicts)
    trouble = _refuse_sender(event, target, outside)
    return Answer(Fate.WAITS if trouble else Fate.BUILD, wish, verdicts, (trouble,) if trouble else ())


def _refuse_sender(event: Event, target: str, outside: Outside) -> str:
    """Return for whom a request waits, and why its sender starts no build; "" for one who may write."""
    hub = open_hub(target, outside)
    waits = f"it waits for somebody who may write to {hub.repository}"
    if not event.starts:
        return waits
    try:
        permission = ask_permission(hub, event.sender)
    except FatwheelError as error:
        return f"{waits}: GitHub did not say what {event.sender} may do there: {error.message}"
    return "" if permission in WRITES else f"{waits}: the permission of {event.sender} is {permission}"


def _refuse_unknown_version(wish: Wish, outside: Outside) -> None:
    """Raise InputError if upstream has no tag or sdist of the version that is asked for."""
    recipe, asked = find_recipe(wish.recipe), read_version(wish.choice.version)
    root = recipe.read()
    named = {read_version(str(one)) for one in (*(root.get("versions") or ()), version_of(root))}
    if not wish.choice.version or asked in named:
        return
    known = list_versions(root, recipe, outside)
    if asked not in known:
        newest = ", ".join(map(str, sorted(known, reverse=True)[:NEWEST])) or "none"
        raise InputError(f"upstream has no version {wish.choice.version} of {recipe.name}, its newest are {newest}")


def _reasons(error: FatwheelError) -> tuple[str, ...]:
    if isinstance(error, RejectedInput):
        return tuple(str(problem) for problem in error.problems)
    return (error.message,)


def outputs(event: Event, given: Answer) -> dict[str, str]:
    """Return a workflow's outputs: what is to be built, and of which issue."""
    recipe, choice = given.wish or ("", RecipeChoice())
    return {
        "issue": str(event.number),
        "fate": given.fate.value,
        "recipe": recipe,
        "version": choice.version,
        "python": ",".join(choice.pythons),
        "torch": ",".join(choice.torches),
        "cuda": ",".join(choice.cudas),
        "archs": ",".join(choice.archs),
    }


def write_page(given: Answer, label: str, run: ActionsRun) -> str:
    """Return the answer as Markdown for a comment; nothing that somebody wrote has an effect in it."""
    name = code(given.wish.recipe) if given.wish else ""
    sentences: Mapping[Fate, str] = {
        Fate.REFUSED: "This wheel cannot be built:",
        Fate.PUBLISHED: f"The wheel of {name} is published:",
        Fate.BUILD: f"The wheel of {name} is being built by {run}:",
        Fate.WAITS: f"The wheel of {name} can be built. The label {code(label)}, or a comment "
        f"{code(f'/{label}')}, starts it:",
        Fate.FAILED: f"The build of {name} has failed, see {run}:",
    }
    lines = "".join(f"- {text(reason[:MAX_REASON])}\n" for reason in given.reasons)
    rows = [row([code(one.wanted.tag), text(one.state.value), text(one.reason)]) for one in given.verdicts]
    table = table_head("release", "state", "why") + "".join(rows) if rows else ""
    hint = "\nEdit the issue to ask for something else.\n" if given.fate is Fate.REFUSED else ""
    return f"{sentences[given.fate]}\n\n{lines}{table}{hint}"
