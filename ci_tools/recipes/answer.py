"""Answers a request for a wheel: whether it is published, will be built, waits for a person, or cannot be, and why."""

from __future__ import annotations

import json
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.errors import FatwheelError, InputError, RejectedInput
from ci_tools.formats.markdown import code, row, table_head, text
from ci_tools.github.client import Hub
from ci_tools.github.permission import WRITES, ask_permission
from ci_tools.model.pep440 import read_version
from ci_tools.recipes.choice import RecipeChoice, version_of
from ci_tools.recipes.due import State
from ci_tools.recipes.form import Wish, read_form
from ci_tools.recipes.shelf import find_recipe
from ci_tools.recipes.upstream import list_versions
from ci_tools.recipes.watch import PREFIX, watch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ci_tools.github.owners import ActionsRun
    from ci_tools.machine.context import Outside
    from ci_tools.recipes.due import DueVerdict

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
            msg = f"{path} has more than {LARGEST:,} bytes, expected the event of an issue"
            raise InputError(msg)
        said: Any = json.loads(path.read_bytes())
        issue = said["issue"]
        number, body, sender = int(issue["number"]), str(issue["body"] or ""), str(said["sender"]["login"])
        return Event(number, body, sender, "pull_request" not in issue and _starts(said, label))
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise InputError(msg) from error
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
    repository = target.removeprefix(PREFIX)
    waits = f"it waits for somebody who may write to {repository}"
    if not event.starts:
        return waits
    try:
        permission = ask_permission(Hub(repository, outside), event.sender)
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
        msg = f"upstream has no version {wish.choice.version} of {recipe.name}, its newest are {newest}"
        raise InputError(msg)


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
