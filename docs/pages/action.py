"""docs/reference/action.md: the action, and which of its inputs each verb takes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_tools.github import step as steps
from docs.pages import REPOSITORY
from docs.pages.command_line import verbs
from docs.pages.markdown import code, table
from docs.pages.workflows import describe_interface
from tests.workflows import rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


ACTION = """\
# The action

`uses: OWNER/fatwheel@` and a commit runs one verb on this runner, for those who write their own workflow. The Python
of the job is not changed: Fatwheel is installed into an environment of its own, and only its command `fatwheel` is put
on PATH. An input that its verb does not take is an error. `plan` asks git which tag the commit has, and so what is
released: `actions/checkout` fetches the tags with `fetch-depth: 0`."""
PRINTED = {
    steps.Prints.LOG: "the log",
    steps.Prints.OUTPUTS: "the outputs",
    steps.Prints.PAGE: "the summary of the run",
}


def describe() -> Iterator[str]:
    """Describe the action: its inputs and outputs, and which of them each verb takes."""
    file = rules.project(REPOSITORY)["action.yml"]
    listed = re.findall(r"\w+", file.value["inputs"]["verb"]["description"])
    inputs = file.declared("inputs")
    yield ACTION
    yield from describe_interface(file)
    yield from ("", "## Verbs")
    rows = (
        (f"`{name}`", code(_taken(verb, inputs)), _does(name, verb), PRINTED[verb.prints])
        for name, verb in steps.VERBS.items()
        if name in listed
    )
    yield from table(("verb", "its inputs", "what it does", "where its output goes"), rows)


def _does(name: str, verb: steps.StepVerb) -> str:
    return f"The same as `{verb.verb}`, to be read." if verb.verb else str(verbs()[verb.command(name)].description)


def _taken(verb: steps.StepVerb, inputs: Iterable[str]) -> list[str]:
    """Return the inputs that go to a verb, in the order of the action."""
    edition = steps.EDITION if verb.takes_edition else ()
    taken = {*verb.inputs, *edition}
    return [name for name in inputs if name.replace("-", "_") in taken]
