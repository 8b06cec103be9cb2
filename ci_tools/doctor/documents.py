"""A workflow or action file as plain values with their places: declarations, jobs, permissions, steps and expressions.

The files are untrusted: a value of the wrong type counts as left out, since GitHub refuses the file at once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from ci_tools.catalog.targets import kind_of
from ci_tools.errors import Problem, RejectedInput
from ci_tools.formats import yaml_file

Keys: TypeAlias = "tuple[str | int, ...]"
Table: TypeAlias = "Mapping[str, Any]"
CALL, DISPATCH = "workflow_call", "workflow_dispatch"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")  # of an event, a job, a permission or a secret
SECRET = re.compile(r"\bsecrets\s*(?:\.\s*|\[\s*['\"])([A-Za-z_][A-Za-z0-9_]*)")
OWN_TOKEN = "GITHUB_TOKEN"  # noqa: S105 - the name of a secret that every run has
CONTEXT = re.compile(  # not the end of a longer name: not `inputs` within `github.event.inputs`
    r"(?<![\w.-])(inputs|secrets|needs|steps|jobs|matrix)\b((?:\s*\.\s*[\w*-]+|\[\s*'[^']*'\s*\])*)", re.IGNORECASE
)
NAMED = re.compile(r"(?<![\w.*'\])-])([A-Za-z]+)\s*[.\[]")
PART = re.compile(r"\.\s*([\w*-]+)|\[\s*'([^']*)'\s*\]")
LITERAL = re.compile(r"(?<!\[)'(?:[^']|'')*'")  # a text, but not the key of an index such as ['name']
MAX_CHARACTERS = 2_000_000  # with aliases expanded: a small file can become a huge one by them
MAX_VALUES = 200_000  # generated workflows have 5,000 lines
EVERY = "*"  # stands for all permissions that are not named, as in `read-all` and `write-all`
ATTEST_PUBLIC, ATTEST_NEVER = "public", "never"  # of the input `attest`
ACCESSES = ("none", "read", "write")


Grants = dict[str, str]


def one_line(text: str, most: int = 200) -> str:
    """Return an untrusted text as one printable line that a runner does not take for a command."""
    line = "".join(char if char.isprintable() else " " for char in text[: most + 1]).replace("##[", "# #[")
    return line if len(line) <= most else f"{line[:most]}…"


def table_of(value: object) -> dict[str, Any]:
    """Return a mapping; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def items_of(value: object) -> list[Any]:
    """Return a list: of one item for a scalar, empty for a mapping or None."""
    if isinstance(value, list):
        return value
    return [] if value is None or isinstance(value, dict) else [value]


def scalar_of(value: object) -> str:
    """Return a text, a number or a boolean as GitHub writes it into a text; "" for any other value."""
    if value is None or isinstance(value, dict | list):
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_computed(value: object) -> bool:
    """Whether a value has an expression, so that it is known only in a run."""
    return isinstance(value, str) and "${{" in value


class WorkflowStep(NamedTuple):
    """A step of a job or of a composite action."""

    keys: Keys
    value: Table

    @property
    def uses(self) -> str:
        """The action of the step, with its version; empty for a step that runs a command."""
        return str(self.value.get("uses") or "")

    @property
    def action(self) -> str:
        """The action of the step, without its version."""
        return self.uses.partition("@")[0]

    @property
    def given(self) -> dict[str, Any]:
        """Its `with:`."""
        return table_of(self.value.get("with"))

    @property
    def run(self) -> str:
        """The command that it runs."""
        return str(self.value.get("run") or "")

    @property
    def condition(self) -> str:
        """Its `if:`."""
        return condition_of(self.value)

    @property
    def job(self) -> str:
        """The name of its job; empty in an action."""
        return str(self.keys[1]) if self.keys[0] == "jobs" else ""


class ContextReference(NamedTuple):
    """A name that an expression takes from a context: `needs.plan.outputs.jobs` is needs, (plan, outputs, jobs)."""

    keys: Keys
    context: str
    names: tuple[str, ...]

    @property
    def job(self) -> str | None:
        """The job in which it stands; None outside of the jobs."""
        return str(self.keys[1]) if self.keys[0] == "jobs" else None


@dataclass(frozen=True)
class WorkflowDocument:
    """A workflow or an action: its values, their places, and its lines with their comments."""

    document: yaml_file.Document
    lines: tuple[str, ...]
    repository: str = ""  # empty for the one that is looked at
    ref: str = ""

    @classmethod
    def from_text(cls, text: str, path: str, repository: str = "", ref: str = "") -> WorkflowDocument:
        """Read a file's text; raise InputError with the place of each mistake in its YAML."""
        document = yaml_file.parse(text, path, MAX_VALUES, by_core=True)
        if sum(len(one) for _, one in strings(document.value)) > MAX_CHARACTERS:
            what = f"aliases expand to more than {MAX_CHARACTERS:,} characters, expected a workflow"
            raise RejectedInput([Problem(f"{path}:1:1", what)])
        return cls(document, tuple(text.splitlines()), repository, ref)

    @property
    def path(self) -> str:
        """Its path in its repository."""
        return self.document.name

    @property
    def value(self) -> Table:
        """Its values."""
        return table_of(self.document.value)

    @property
    def name(self) -> str:
        """Its name in GitHub's lists, and in the `workflow_run` of others."""
        return str(self.value.get("name") or self.path)

    @property
    def is_action(self) -> bool:
        """Whether it is an action."""
        return self.path.rpartition("/")[2] in {"action.yml", "action.yaml"}

    @cached_property
    def jobs(self) -> Mapping[str, Table]:
        """Its jobs by their names."""
        return {name: table_of(job) for name, job in table_of(self.value.get("jobs")).items()}

    @cached_property
    def triggers(self) -> Table:
        """The events that start it, each with its filters or None."""
        events = self.value.get("on")
        return events if isinstance(events, dict) else {str(event): None for event in items_of(events)}

    @property
    def awaited(self) -> list[str]:
        """The names of the workflows after whose runs it starts, by `workflow_run`."""
        return [str(one) for one in items_of(table_of(self.triggers.get("workflow_run")).get("workflows"))]

    @cached_property
    def steps(self) -> tuple[WorkflowStep, ...]:
        """The steps of all its jobs, or of the action."""
        places: list[tuple[Keys, Table]] = [(("jobs", name), job) for name, job in self.jobs.items()]
        places += [(("runs",), table_of(self.value.get("runs")))] if self.is_action else []
        found = ((keys, number, step) for keys, job in places for number, step in enumerate(items_of(job.get("steps"))))
        return tuple(WorkflowStep((*keys, "steps", number), step) for keys, number, step in found if table_of(step))

    def steps_of(self, job: str) -> list[WorkflowStep]:
        """Return the steps of a job."""
        return [step for step in self.steps if step.job == job]

    @cached_property
    def references(self) -> tuple[ContextReference, ...]:
        """Every name that an expression takes from a context."""
        return tuple(reference for keys, text in strings(self.value) for reference in _references(keys, text))

    def declared(self, kind: str, *events: str) -> dict[str, tuple[Keys, Table]]:
        """Return what the file declares as its inputs, secrets or outputs: by name, its place and its keys."""
        if self.is_action:
            return {name: ((kind, name), table_of(value)) for name, value in table_of(self.value.get(kind)).items()}
        return {
            name: (("on", event, kind, name), table_of(value))
            for event in events or (CALL, DISPATCH)
            for name, value in table_of(table_of(self.triggers.get(event)).get(kind)).items()
        }

    def needs(self, job: str | None) -> tuple[str, ...]:
        """Return the jobs that a job names in `needs:`."""
        return tuple(map(str, items_of(self.jobs.get(job or "", {}).get("needs"))))

    def all_needs(self, job: str) -> set[str]:
        """Return the jobs that have ended when a job starts."""
        found: set[str] = set()
        waiting = [job]
        while waiting:  # a circle of `needs:` ends, too: each job is new only once
            new = set(self.needs(waiting.pop())) - found
            found |= new
            waiting += new
        return found

    def line(self, keys: Keys) -> int:
        """Return the line of a value, or of its key if it has one."""
        place = self.document.where(keys, key=keys in self.document.keys)
        return int(place.rsplit(":", 2)[1])  # FILE:LINE:COLUMN, whose file may have a colon

    def where(self, keys: Keys) -> str:
        """Return `file:line` of a value."""
        path = f"{self.repository}/{self.path}@{self.ref[:12]}" if self.repository else self.path
        return f"{one_line(path)}:{self.line(keys)}"

    def comment(self, keys: Keys) -> str:
        """Return what is written after the value, on its line."""
        return self.lines[self.line(keys) - 1].partition(" # ")[2].strip()


def condition_of(value: Table) -> str:
    """Return the `if:` of a job or a step; empty if it has none."""
    return scalar_of(value.get("if"))


def strings(value: object, keys: Keys = ()) -> Iterator[tuple[Keys, str]]:
    """Yield every text within a value, and its place."""
    if isinstance(value, str):
        yield keys, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from strings(item, (*keys, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from strings(item, (*keys, number))


def split_expressions(text: str) -> list[str]:
    """Return the parts of a text: each second one is an expression, without its `${{ }}`; the first may be empty."""
    parts, at = [], 0
    while (start := text.find("${{", at)) >= 0 and (end := text.find("}}", start)) >= 0:
        parts += [text[at:start], text[start + 3 : end]]
        at = end + 2
    return [*parts, text[at:]]


def expressions_of(text: str, *, is_condition: bool = False) -> list[str]:
    """Return the expressions in a text, without `${{ }}`; an `if:` is one as a whole."""
    found = split_expressions(text)[1::2]
    return [text] if is_condition and not found else found


def whole_expression(text: str) -> str | None:
    """Return the expression that a text is as a whole, without `${{ }}`; None for any other text."""
    parts = split_expressions(text.strip())
    return parts[1] if len(parts) == 3 and not parts[0] and not parts[2] else None  # noqa: PLR2004 - one expression


def contexts_in(keys: Keys, text: str) -> set[str]:
    """Return the names that may be those of contexts in the expressions of a text: `a` of `a.b` and `a['b']`."""
    found = expressions_of(text, is_condition=keys[-1:] == ("if",))
    return {name.lower() for one in found for name in NAMED.findall(LITERAL.sub("''", one))}


def _references(keys: Keys, text: str) -> Iterator[ContextReference]:
    for expression in expressions_of(text, is_condition=keys[-1:] == ("if",)):
        for context, path in CONTEXT.findall(LITERAL.sub("''", expression)):
            names = tuple(plain or quoted for plain, quoted in PART.findall(path))
            yield ContextReference(keys, context.lower(), names)


def read_grants(value: Table) -> Grants | None:
    """Return `permissions:` of a workflow or a job as written, None without it; what it does not name is not granted.

    https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-syntax#permissions
    """
    if "permissions" not in value:  # not the same as an empty one, which grants nothing
        return None
    written = value["permissions"]
    if isinstance(written, str) and written in {"read-all", "write-all"}:
        return {EVERY: written.partition("-")[0]}
    named = table_of(written).items()
    return {scope: wanted for scope, wanted in named if NAME.fullmatch(scope) and wanted in ACCESSES}


def granted_to(file: WorkflowDocument, job: str) -> Grants | None:
    """Return a job's permissions: its own or the workflow's; None if neither sets any."""
    own = read_grants(file.jobs[job])
    return read_grants(file.value) if own is None else own


def access(grants: Mapping[str, str], scope: str) -> str:
    """Return the access to a scope: none, read or write."""
    return grants.get(scope, grants.get(EVERY, ACCESSES[0]))


def unite_grants(several: Iterable[Mapping[str, str]]) -> Grants:
    """Return the union of several grants: for each scope, the highest access."""
    union: Grants = {}
    for grants in several:
        for scope, wanted in grants.items():
            union[scope] = max(wanted, union.get(scope, ACCESSES[0]), key=ACCESSES.index)  # ACCESSES are in order
    return {scope: wanted for scope, wanted in sorted(union.items()) if wanted != ACCESSES[0]}


def lacking(grants: Mapping[str, str], needed: Mapping[str, str]) -> Grants:
    """Return the part of `needed` that `grants` does not cover."""
    few = ACCESSES.index
    return {scope: wanted for scope, wanted in needed.items() if few(access(grants, scope)) < few(wanted)}


def needed_to_publish(given: Mapping[str, str], targets: Collection[str]) -> Grants:
    """Return the permissions that publish.yml needs from its caller, for this `with:` and these targets."""
    reasons = {
        ("attestations", "read"): given.get("attest") != ATTEST_NEVER,  # to verify the attestations of the files
        ("actions", "read"): bool(given.get("run-id")),  # to take the artifacts of another run
        ("id-token", "write"): bool(given.get("aws-role")),  # to assume the role
    }
    own = {right for kind in filter(None, map(kind_of, targets)) for right in kind.rights}
    return {scope: wanted for (scope, wanted), applies in reasons.items() if applies} | dict(sorted(own))
