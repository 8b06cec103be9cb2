"""Answers a request for a wheel: whether it is published, will be built, waits for a person, or cannot be, and why."""

from __future__ import annotations

import json
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.errors import FatwheelError, InputError, RejectedInput
from ci_tools.formats.markdown import code, row, table_head, text
from ci_tools.model.pep440 import read_version
from ci_tools.recipes.choice import Choice, version_of
from ci_tools.recipes.due import State
from ci_tools.recipes.form import Wish, read_form
from ci_tools.recipes.shelf import find_recipe
from ci_tools.recipes.upstream import list_versions
from ci_tools.recipes.watch import watch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ci_tools.github.owners import Run
    from ci_tools.machine.context import Outside
    from ci_tools.recipes.due import Verdict

__all__ = ["Answer", "Event", "Fate", "answer", "outputs", "read_event", "write_page"]

# Who may write to the repository, by the event's `author_association`
# (https://docs.github.com/en/graphql/reference/enums#commentauthorassociation); a contributor may not.
TRUSTED = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
LABELLED = "labeled"
LARGEST = 4 << 20  # bytes of an event
MOST_OF_A_REASON = 600  # characters
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
    is_approved: bool  # whether somebody who may write asked for it, or gave it the label


class Answer(NamedTuple):
    """What becomes of a request, and why."""

    fate: Fate
    wish: Wish | None = None
    verdicts: tuple[Verdict, ...] = ()
    reasons: tuple[str, ...] = ()


def read_event(path: Path, label: str) -> Event:
    """Return what a file such as that of GITHUB_EVENT_PATH says; raise InputError if it is not about an issue.

    The text is that of the event: what was approved is built, and not what the issue was edited to since. An edit of
    somebody else's approved issue approves nothing.
    """
    try:
        if path.stat().st_size > LARGEST:
            msg = f"{path} has more than {LARGEST:,} bytes, expected the event of an issue"
            raise InputError(msg)
        said: Any = json.loads(path.read_bytes())
        issue = said["issue"]
        number, body, action = int(issue["number"]), str(issue["body"] or ""), str(said["action"])
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise InputError(msg) from error
    except (ValueError, KeyError, TypeError) as error:
        msg = f"{path} is not the event of an issue: {type(error).__name__}"
        raise InputError(msg, hint="in a workflow on `issues`, GITHUB_EVENT_PATH names it") from error
    if action == LABELLED:
        return Event(number, body, is_approved=(said.get("label") or {}).get("name") == label)
    return Event(number, body, is_approved=issue.get("author_association") in TRUSTED)


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
    return Answer(Fate.BUILD if event.is_approved else Fate.WAITS, wish, verdicts)


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
    recipe, choice = given.wish or ("", Choice())
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


def write_page(given: Answer, label: str, run: Run) -> str:
    """Return the answer as Markdown for a comment; nothing that somebody wrote has an effect in it."""
    name = code(given.wish.recipe) if given.wish else ""
    sentences: Mapping[Fate, str] = {
        Fate.REFUSED: "This wheel cannot be built:",
        Fate.PUBLISHED: f"The wheel of {name} is published:",
        Fate.BUILD: f"The wheel of {name} is being built by {run}:",
        Fate.WAITS: f"The wheel of {name} can be built. A maintainer starts it by the label {code(label)}:",
        Fate.FAILED: f"The build of {name} has failed, see {run}:",
    }
    lines = "".join(f"- {text(reason[:MOST_OF_A_REASON])}\n" for reason in given.reasons)
    rows = [row([code(one.wanted.tag), text(one.state.value), text(one.reason)]) for one in given.verdicts]
    table = table_head("release", "state", "why") + "".join(rows) if rows else ""
    hint = "\nEdit the issue to ask for something else.\n" if given.fate is Fate.REFUSED else ""
    return f"{sentences[given.fate]}\n\n{lines}{table}{hint}"
