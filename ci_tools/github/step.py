"""Converts the variables of a workflow step to the command line of a verb.

A workflow passes its inputs in variables (WITH_CONFIG: fatwheel.yml), so that no text from a person becomes part of a
shell command (https://docs.github.com/en/actions/reference/security/secure-use).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import InputError, nearest

if TYPE_CHECKING:
    import argparse

PREFIX = "WITH_"  # named after the `with:` of a step
PAGE = "GITHUB_STEP_SUMMARY"  # the variable that names the file of a job's page, in Markdown
TAGS = "refs/tags/"
BOOLEANS = {"": False, "0": False, "false": False, "1": True, "true": True}
HERE = ("--trust-source",)  # the job may only read the repository, so the job itself confines the project's code
CI = "ci"  # the verbs that only workflows call
EDITION = (
    "base",
    "event",
    "nightly",
    "ref",
    "repository",
)  # the inputs that determine the edition of the release, and its predecessor
ATTESTATION = ("attest", "private")  # whether the files will be signed, and whether the repository is private
ATTEST = ("public", "always", "never")
EVERYWHERE = ("cache", "copy", "verb")  # inputs of every verb: `copy` names a file for a copy of the output


class Prints(Enum):
    """The destination of a verb's output in a workflow: the variable that names the file, if it is one."""

    LOG = ""
    OUTPUTS = "GITHUB_OUTPUT"
    PAGE = PAGE


class StepVerb(NamedTuple):
    """The inputs that a step takes, and the command line that they become.

    An input goes to the argument of the same name, or to another one (`results=result`), whose declaration says whether
    it takes a text, words or a boolean; or it is a boolean for an option with its value (`pypi=--also=pypi`).
    """

    takes: str
    whole: str = ""  # inputs that are one value, though the argument may be given several times
    always: tuple[str, ...] = ()
    takes_edition: bool = False
    takes_attestation: bool = False
    prints: Prints = Prints.LOG
    group: str = ""  # on the command line
    verb: str = ""  # the name there, if it differs

    def command(self, name: str) -> str:
        """Return the verb on the command line, such as `ci gather`, of the step `name`."""
        return f"{self.group} {self.verb or name}".lstrip()

    @property
    def inputs(self) -> Mapping[str, str]:
        """Each input, and the argument that gets it."""
        pairs = (word.partition("=") for word in self.takes.split())
        return {name: argument or name for name, _, argument in pairs}


AXES = "python torch cuda archs"
GITHUB = ("--format", "github")
VERBS: Mapping[str, StepVerb] = {
    "plan": StepVerb(
        "config only out package to torch gpu_runner distant",
        always=(*HERE, "--ask-targets", *GITHUB),
        takes_edition=True,
        takes_attestation=True,
        prints=Prints.OUTPUTS,
    ),
    "compare": StepVerb(
        "config", always=(*HERE, "--format", "markdown"), verb="plan", takes_edition=True, prints=Prints.PAGE
    ),
    "summary": StepVerb("folder=path against only", prints=Prints.PAGE, group=CI),
    "channel": StepVerb("plan", prints=Prints.OUTPUTS, group=CI),
    "prepare": StepVerb("plan job root", group=CI),
    "shard": StepVerb("config plan job out shard time_limit", always=HERE, verb="build"),
    "build": StepVerb("config plan job out keep_going link time_limit", always=HERE),
    "audit": StepVerb("plan config files=wheels"),
    "validate": StepVerb("config plan site python files=wheels sites=site", whole="site", always=HERE),
    "units": StepVerb("plan source target", group=CI),
    "gather": StepVerb("plan out pypi kept only folders", always=GITHUB, prints=Prints.OUTPUTS, group=CI),
    "trials": StepVerb("plan only folders", prints=Prints.OUTPUTS, group=CI),
    "projects": StepVerb("configs artifacts folder", prints=Prints.OUTPUTS, group=CI),
    "remakes": StepVerb("target tag", prints=Prints.OUTPUTS, group=CI),
    "verify": StepVerb("wheel out source", always=HERE),
    "attested": StepVerb("folder repository signer bundles", group=CI),
    "unattested": StepVerb("folder", prints=Prints.PAGE, group=CI),
    "comment": StepVerb("file pull issue name", group=CI),
    "answer": StepVerb(
        "event_path=event target=to label page results=result", always=GITHUB, prints=Prints.OUTPUTS, group="recipe"
    ),
    "tell": StepVerb("config platform results=result", group=CI),
    "due": StepVerb(
        f"version target=to page recipes follow {AXES}",
        always=GITHUB,
        takes_attestation=True,
        prints=Prints.OUTPUTS,
        group="recipe",
        verb="watch",
    ),
    "recipe": StepVerb(f"recipe folder version rebuild {AXES}", always=("--release",), group="recipe", verb="copy"),
    "make": StepVerb("config out to", whole="to", always=HERE, verb="release"),
    "update": StepVerb("config index", group="catalog"),
    # A workflow never publishes an untagged commit, not even to a folder that it uploads.
    "publish": StepVerb("folder only to distant dry_run pypi=--also=pypi replace unattested", always=("--released",)),
}


class StepCommand(NamedTuple):
    """A command line, and the destination of its output."""

    arguments: tuple[str, ...]
    files: tuple[str, ...]  # the variables that name the files for its output; empty: the log


def is_on(environ: Mapping[str, str]) -> bool:
    """Whether this process runs in GitHub Actions, or in a program that imitates it, such as act."""
    return environ.get("GITHUB_ACTIONS") == "true"


def page_of(environ: Mapping[str, str]) -> str:
    """Return the file of the page of the workflow's job, or "" elsewhere."""
    return environ.get(PAGE, "") if is_on(environ) else ""


def step_of(
    name: str, environ: Mapping[str, str], today: str, parser_of: Callable[[str], argparse.ArgumentParser]
) -> StepCommand:
    """Return the command line for a step's variables; `today` (20261121) is the date of a nightly.

    Raises InputError for an unknown verb or variable.
    """
    if name not in VERBS:
        raise InputError(f'there is no step "{name}", {nearest(name, VERBS)}')
    verb = VERBS[name]
    given = _read_inputs(name, verb, environ)
    if verb.takes_attestation:
        _refuse_undecided(given, environ)
    arguments = {action.dest: action for action in parser_of(verb.command(name))._actions}  # noqa: SLF001 - no other way
    words, places = list[str](), list[str]()
    for key, argument in verb.inputs.items():
        if key in given and argument.startswith("--"):
            words += [argument] if is_true(key.replace("_", "-"), given[key]) else []
        elif key in given:
            of = words if arguments[argument].option_strings else places
            of += spell(arguments[argument], key.replace("_", "-"), given[key], is_whole=key in verb.whole.split())
    edition = (*_edition(given, environ, today), *_base(given, environ)) if verb.takes_edition else ()
    return StepCommand(
        (*verb.command(name).split(), *words, *edition, *verb.always, *(["--", *places] if places else [])),
        tuple(filter(None, (verb.prints.value, f"{PREFIX}COPY" if "copy" in given else ""))),
    )


def kind_of(action: argparse.Action) -> str:
    """Return what a variable of an argument has: a boolean, words or a text."""
    if action.nargs == 0:
        return "boolean"
    return "words" if isinstance(action.default, list) or action.nargs in {"*", "+"} else "text"


def spell(action: argparse.Action, variable: str, text: str, *, is_whole: bool = False) -> list[str]:
    """Return the words of a command line that set an argument as a variable says."""
    option = "".join(action.option_strings[-1:])
    kind = kind_of(action)
    if kind == "boolean":
        return [option] if is_true(variable, text) else []
    words = text.split() if kind == "words" and not is_whole else [text.strip()]
    return [f"{option}={word}" for word in words] if option else words


def _read_inputs(name: str, verb: StepVerb, environ: Mapping[str, str]) -> dict[str, str]:
    """Return a step's inputs by name; raise InputError if the verb does not take one of them."""
    given = {key.removeprefix(PREFIX).lower(): value for key, value in environ.items() if key.startswith(PREFIX)}
    known = {*verb.inputs, *EVERYWHERE}
    known |= {*(EDITION if verb.takes_edition else ()), *(ATTESTATION if verb.takes_attestation else ())}
    filled = {key: value for key, value in given.items() if value.strip()}
    unknown = sorted(filled.keys() - known)
    if unknown:
        shown = unknown[0].replace("_", "-")
        raise InputError(f'`{name}` has no input "{shown}", {nearest(shown, (key.replace("_", "-") for key in known))}')
    return filled


def _refuse_undecided(given: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Raise InputError at the start if the files could not be signed at the end.

    GitHub attests the files of private repositories only on the Enterprise Cloud plan ("Using artifact attestations to
    establish provenance for builds", https://docs.github.com), and no event tells which plan it is.
    """
    attest = given.get("attest", ATTEST[0])
    if attest not in ATTEST:
        raise InputError(f'attest: "{attest}" is not one of {", ".join(ATTEST)}', hint=nearest(attest, ATTEST))
    event = given.get("event") or environ.get("GITHUB_EVENT_NAME", "")
    if attest == ATTEST[0] and is_true("private", given.get("private", "")) and not event.startswith("pull_request"):
        msg = "the repository is private, and GitHub attests private ones only on the plan Enterprise Cloud"
        hint = "with: `attest: always` on that plan, else `attest: never`, for publish.yml as well"
        raise InputError(msg, hint=hint, page="how-to/publish-from-a-workflow.md#in-a-private-repository")


def _edition(given: Mapping[str, str], environ: Mapping[str, str], today: str) -> tuple[str, ...]:
    """Return the option that names the edition, if the event determines it; otherwise the plan asks git.

    A pull request is always untagged: it releases nothing, whatever its config says.
    """
    event = given.get("event") or environ.get("GITHUB_EVENT_NAME", "")
    if event.startswith("pull_request"):
        return ("--untagged",)
    if is_true("nightly", given.get("nightly", "")) or event == "schedule":
        return (f"--nightly={today}",)
    if "ref" in given:
        return (f"--ref={given['ref']}",)
    own = environ.get("GITHUB_REPOSITORY", "")
    ref = environ.get("GITHUB_REF", "") if given.get("repository", own) == own else ""  # others have other tags
    return (f"--ref={ref}",) if ref.startswith(TAGS) else ()


def _base(given: Mapping[str, str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the option with the commit to compare the plan with: the base of a pull request."""
    is_proposal = (given.get("event") or environ.get("GITHUB_EVENT_NAME")) == "pull_request"
    return (f"--against={given['base']}",) if is_proposal and "base" in given and "only" not in given else ()


def is_true(variable: str, text: str) -> bool:
    """Return the boolean that a variable has; raise InputError if it has none."""
    word = text.strip().lower()
    if word not in BOOLEANS:
        raise InputError(f'{variable}: "{text}" is neither true nor false', hint="expected 1 or true, 0 or false")
    return BOOLEANS[word]
