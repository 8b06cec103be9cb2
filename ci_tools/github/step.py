"""Converts the variables of a workflow step to the command line of a verb.

A workflow passes its inputs in variables (WITH_CONFIG: fatwheel.yml), so that no text from a person becomes part of a
shell command (https://docs.github.com/en/actions/reference/security/secure-use).
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "WITH_"  # named after the `with:` of a step
PAGE = "GITHUB_STEP_SUMMARY"  # the variable that names the file of a job's page, in Markdown
TAGS = "refs/tags/"
BOOLEANS = {"": False, "false": False, "true": True}
HERE = ("--trust-source",)  # the job may only read the repository, so the job itself confines the project's code
POSITIONAL = ""
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


NONE: Mapping[str, str] = MappingProxyType({})


class Prints(Enum):
    """The destination of a verb's output in a workflow: the variable that names the file, if it is one."""

    LOG = ""
    OUTPUTS = "GITHUB_OUTPUT"
    PAGE = PAGE


class Verb(NamedTuple):
    """The translation of a step's inputs to the options of a verb."""

    options: Mapping[str, str]  # input to the option that gets its value
    flags: Mapping[str, str] = NONE  # boolean input to a flag
    several: Mapping[str, str] = NONE  # input to the option that gets each of its words
    always: tuple[str, ...] = ()
    takes_edition: bool = False
    takes_attestation: bool = False
    prints: Prints = Prints.LOG
    group: str = ""  # on the command line
    verb: str = ""  # the name there, if it differs

    def command(self, name: str) -> str:
        """Return the verb on the command line, such as `ci gather`, of the step `name`."""
        return f"{self.group} {self.verb or name}".lstrip()


VERBS: Mapping[str, Verb] = {
    "plan": Verb(
        {"config": POSITIONAL, "only": "--only", "out": "--out", "package": "--package"},
        flags={"distant": "--distant"},
        always=(*HERE, "--ask-targets", "--format", "github"),
        several={"to": "--to", "torch": "--torch", "gpu_runner": "--gpu-runner"},
        takes_edition=True,
        takes_attestation=True,
        prints=Prints.OUTPUTS,
    ),
    "compare": Verb(
        {"config": POSITIONAL},
        always=(*HERE, "--format", "markdown"),
        verb="plan",
        takes_edition=True,
        prints=Prints.PAGE,
    ),
    "summary": Verb({"folder": POSITIONAL, "against": "--against", "only": "--only"}, prints=Prints.PAGE, group=CI),
    "channel": Verb({"plan": "--plan"}, prints=Prints.OUTPUTS, group=CI),
    "prepare": Verb({"plan": "--plan", "job": "--job", "root": "--root"}, group=CI),
    "build": Verb(
        {"config": POSITIONAL, "plan": "--plan", "job": "--job", "out": "--out"},
        flags={"keep_going": "--keep-going"},
        always=HERE,
    ),
    "audit": Verb({"plan": "--plan", "config": "--config"}, several={"files": POSITIONAL}),
    "validate": Verb(
        {"config": "--config", "plan": "--plan", "site": "--site", "python": "--python"},
        several={"files": POSITIONAL, "sites": "--site"},
        always=HERE,
    ),
    "gather": Verb(
        {"plan": "--plan", "out": "--out", "pypi": "--pypi", "kept": "--kept", "only": "--only"},
        several={"folders": POSITIONAL},
        always=("--format", "github"),
        prints=Prints.OUTPUTS,
        group=CI,
    ),
    "trials": Verb(
        {"plan": "--plan", "only": "--only"}, several={"folders": POSITIONAL}, prints=Prints.OUTPUTS, group=CI
    ),
    "attested": Verb(
        {"folder": POSITIONAL, "repository": "--repository", "signer": "--signer", "bundles": "--bundles"},
        group=CI,
    ),
    "unattested": Verb({"folder": POSITIONAL}, prints=Prints.PAGE, group=CI),
    "comment": Verb({"file": POSITIONAL, "pull": "--pull", "issue": "--issue", "name": "--name"}, group=CI),
    "answer": Verb(
        {"event_path": POSITIONAL, "target": "--to", "label": "--label", "page": "--page"},
        several={"results": "--result"},
        always=("--format", "github"),
        prints=Prints.OUTPUTS,
        group="recipe",
    ),
    "tell": Verb({"config": POSITIONAL, "platform": "--platform"}, several={"results": "--result"}, group=CI),
    "due": Verb(
        {"version": "--version", "target": "--to", "page": "--page"},
        several={
            "recipes": POSITIONAL,
            "follow": "--follow",
            **{name: f"--{name}" for name in ("python", "torch", "cuda", "archs")},
        },
        always=("--format", "github"),
        takes_attestation=True,
        prints=Prints.OUTPUTS,
        group="recipe",
        verb="watch",
    ),
    "recipe": Verb(
        {"recipe": POSITIONAL, "folder": POSITIONAL, "version": "--version", "rebuild": "--rebuild"},
        several={name: f"--{name}" for name in ("python", "torch", "cuda", "archs")},
        always=("--release",),
        group="recipe",
        verb="copy",
    ),
    "make": Verb({"config": POSITIONAL, "out": "--out", "to": "--to"}, always=HERE, verb="release"),
    "update": Verb({"config": POSITIONAL}, several={"index": "--index"}, group="catalog"),
    "publish": Verb(
        {"folder": POSITIONAL, "only": "--only"},
        always=("--released",),  # a workflow never publishes an untagged commit, not even to a folder that it uploads
        flags={
            "distant": "--distant",
            "dry_run": "--dry-run",
            "pypi": "--also=pypi",
            "replace": "--replace",
            "unattested": "--unattested",
        },
        several={"to": "--to"},
    ),
}


class Step(NamedTuple):
    """A command line, and the destination of its output."""

    arguments: tuple[str, ...]
    files: tuple[str, ...]  # the variables that name the files for its output; empty: the log


def is_on(environ: Mapping[str, str]) -> bool:
    """Whether this process runs in GitHub Actions, or in a program that imitates it, such as act."""
    return environ.get("GITHUB_ACTIONS") == "true"


def page_of(environ: Mapping[str, str]) -> str:
    """Return the file of the page of the workflow's job, or "" elsewhere."""
    return environ.get(PAGE, "") if is_on(environ) else ""


def step_of(name: str, environ: Mapping[str, str], today: str) -> Step:
    """Return the command line for a step's variables; `today` (20261121) is the date of a nightly.

    Raises InputError for an unknown verb or variable.
    """
    if name not in VERBS:
        msg = f'there is no step "{name}", {nearest(name, VERBS)}'
        raise InputError(msg)
    verb = VERBS[name]
    given = _read_inputs(name, verb, environ)
    if verb.takes_attestation:
        _refuse_undecided(given, environ)
    words = [(option, given[key]) for key, option in verb.options.items() if key in given]
    words += [(option, word) for key, option in verb.several.items() for word in given.get(key, "").split()]
    named = (f"{option}={value}" for option, value in words if option)
    places = [value for option, value in words if not option]
    flags = (flag for key, flag in verb.flags.items() if _is_true(key, given.get(key, "")))
    edition = (*_edition(given, environ, today), *_base(given, environ)) if verb.takes_edition else ()
    return Step(
        (*verb.command(name).split(), *named, *flags, *edition, *verb.always, *(["--", *places] if places else [])),
        _files(verb, given),
    )


def _files(verb: Verb, given: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(filter(None, (verb.prints.value, f"{PREFIX}COPY" if "copy" in given else "")))


def _read_inputs(name: str, verb: Verb, environ: Mapping[str, str]) -> dict[str, str]:
    """Return a step's inputs by name; raise InputError if the verb does not take one of them."""
    given = {key.removeprefix(PREFIX).lower(): value for key, value in environ.items() if key.startswith(PREFIX)}
    known = {*verb.options, *verb.flags, *verb.several, *EVERYWHERE}
    known |= {*(EDITION if verb.takes_edition else ()), *(ATTESTATION if verb.takes_attestation else ())}
    filled = {key: value for key, value in given.items() if value.strip()}
    unknown = sorted(filled.keys() - known)
    if unknown:
        shown = unknown[0].replace("_", "-")
        msg = f'`{name}` has no input "{shown}", {nearest(shown, (key.replace("_", "-") for key in known))}'
        raise InputError(msg)
    return filled


def _refuse_undecided(given: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Raise InputError at the start if the files could not be signed at the end.

    GitHub attests the files of private repositories only on the Enterprise Cloud plan ("Using artifact attestations to
    establish provenance for builds", https://docs.github.com), and no event tells which plan it is.
    """
    attest = given.get("attest", ATTEST[0])
    if attest not in ATTEST:
        msg = f'attest: "{attest}" is not one of {", ".join(ATTEST)}'
        raise InputError(msg, hint=nearest(attest, ATTEST))
    event = given.get("event") or environ.get("GITHUB_EVENT_NAME", "")
    if attest == ATTEST[0] and _is_true("private", given.get("private", "")) and not event.startswith("pull_request"):
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
    if _is_true("nightly", given.get("nightly", "")) or event == "schedule":
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


def _is_true(key: str, text: str) -> bool:
    if text.strip().lower() not in BOOLEANS:
        msg = f'{key.replace("_", "-")}: "{text}" is neither true nor false'
        raise InputError(msg)
    return BOOLEANS[text.strip().lower()]
