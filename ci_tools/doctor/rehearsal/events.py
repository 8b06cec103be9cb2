"""The events that are rehearsed, what their runs see, and whether they start a workflow.

https://docs.github.com/en/actions/reference/workflows-and-actions/events-that-trigger-workflows
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ci_tools.doctor.documents import CALL, DISPATCH, Table, WorkflowDocument, items_of, one_line, table_of
from ci_tools.doctor.expressions import UNKNOWN, Open
from ci_tools.doctor.placed_jobs import OF_ONE_EVENT, RunStart, example_of, starts_of
from ci_tools.doctor.rules.releases import HEADS, TAGS, lets, lets_push
from ci_tools.doctor.workflow_set import WorkflowSet
from ci_tools.errors import InputError, nearest
from ci_tools.model.names import Name

PULL, TARGET = "pull_request", "pull_request_target"
ACTIVITIES = frozenset({"opened", "synchronize", "reopened"})  # that start a run where `types:` is left out


class EventKind(Name):
    """The kinds of events, as they are named on the command line."""

    TAG = "tag"
    CANDIDATE = "candidate"
    PUSH = "push"
    PULL = "pull-request"
    FORK = "fork"
    DISPATCH = "dispatch"
    CRON = "cron"
    RERUN = "rerun"
    OTHER = "other"


KINDS = tuple(str(kind) for kind in EventKind if kind is not EventKind.OTHER)


class Asked(NamedTuple):
    """The events that a person wants to see rehearsed: all, or those of a kind, for a ref and with inputs."""

    kind: EventKind | None = None
    ref: str = ""
    inputs: Mapping[str, str] = {}

    @classmethod
    def from_words(cls, event: str, inputs: Sequence[str]) -> Asked:
        """Read KIND or KIND:REF, and inputs as NAME=VALUE; raise InputError for any other words."""
        kind, _, ref = event.partition(":")
        if event and kind not in KINDS:
            msg = f'--rehearse: there is no event "{one_line(kind)}", {nearest(kind, KINDS)}'
            raise InputError(msg, hint="KIND or KIND:REF, such as tag:v1.2.0 or push:main")
        if ref and kind in {EventKind.PULL, EventKind.FORK, EventKind.CRON}:
            raise InputError(f"--rehearse: {kind} takes no ref, expected --rehearse {kind}")
        pairs = [one.partition("=") for one in inputs]
        if wrong := next((name for name, sign, _ in pairs if not (name and sign)), None):
            raise InputError(f'--input: "{one_line(wrong)}" has no value, expected NAME=VALUE')
        if inputs and kind not in {"", EventKind.DISPATCH}:
            raise InputError(f"--input is for an event of the kind dispatch, and {kind} has no inputs")
        return cls(EventKind(kind) if kind else None, ref, {name: value for name, _, value in pairs})


@dataclass(frozen=True, kw_only=True)
class RehearsedEvent:
    """An event: its name at GitHub, the ref that its runs are for, and what is known of its payload."""

    kind: EventKind
    name: str
    ref: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""  # the only workflow that it starts

    @property
    def is_fork(self) -> bool:
        """Whether a proposal from a fork starts the runs: they have no secrets, and may write nothing."""
        return self.kind is EventKind.FORK and self.name == PULL  # for `pull_request_target` it has them all

    def __str__(self) -> str:
        """Return it in words."""
        short = self.ref.removeprefix(TAGS).removeprefix(HEADS)
        return {
            EventKind.TAG: f"tag {short}",
            EventKind.CANDIDATE: f"candidate {short}",
            EventKind.PUSH: f"push to {short}",
            EventKind.PULL: f"{self.name} from a branch of the repository",
            EventKind.FORK: f"{self.name} from a fork",
            EventKind.DISPATCH: f"start by hand of {self.file} on {short}",
            EventKind.CRON: f"cron {self.payload.get('schedule')}",
            EventKind.RERUN: f"re-run of failed jobs of the tag {short}",
        }.get(self.kind, self.name)

    def contexts(self, file: WorkflowDocument, repository: str) -> Open:
        """Return what expressions of a started workflow see."""
        found = RunStart(self.name, self.ref).contexts(file, repository)
        others = () if self.kind is EventKind.OTHER else OF_ONE_EVENT
        github = {**found["github"], "event": Open({**dict.fromkeys(others), **self.payload}), "base_ref": ""}
        github["run_attempt"] = "2" if self.kind is EventKind.RERUN else "1"  # GitHub counts each one
        github["repository_owner"] = repository.partition("/")[0] or UNKNOWN
        if self.name.startswith(PULL):
            github["base_ref"] = self.payload["pull_request"]["base"]["ref"]
        return Open({**found, "github": Open(github), "inputs": self.inputs})


def list_events(known: WorkflowSet, tags: Sequence[str], asked: Asked) -> list[RehearsedEvent]:
    """Return the events to rehearse; `tags` are those of the stable releases of the configs.

    Raises InputError for inputs that no workflow takes.
    """
    found = {str(event): event for event in _list_all(known, tags, asked)}  # several files may have the same schedule
    return [event for event in found.values() if asked.kind in {None, event.kind}]


def _list_all(known: WorkflowSet, tags: Sequence[str], asked: Asked) -> Iterator[RehearsedEvent]:
    starts = dict.fromkeys(start for file in known.started for start in starts_of(file))
    main = f"{HEADS}{next(_list_branches(known, 'push', PULL, TARGET), 'main')}"
    pulls = {PULL: "refs/pull/1/merge", TARGET: f"{HEADS}{next(_list_branches(known, 'push'), 'main')}"}
    refs = [f"{TAGS}{tag}" for tag in tags] or [one.ref for one in starts if one.event == "push" and one.is_tag]
    yield from _list_tags(refs, asked)
    named = f"{TAGS}{asked.ref}" if f"{TAGS}{asked.ref}" in refs else f"{HEADS}{asked.ref.removeprefix(HEADS)}"
    named = asked.ref if asked.ref.startswith(TAGS) else named if asked.ref else main
    branch = named if asked.kind is EventKind.PUSH else main
    yield RehearsedEvent(kind=EventKind.PUSH, name="push", ref=branch, payload=_push(branch))
    for name, ref in pulls.items():
        base = main.removeprefix(HEADS)
        if any(name in file.triggers for file in known.started):
            yield RehearsedEvent(kind=EventKind.PULL, name=name, ref=ref, payload=_pull(base, fork=False))
            yield RehearsedEvent(kind=EventKind.FORK, name=name, ref=ref, payload=_pull(base, fork=True))
    by_hand = named if asked.kind is EventKind.DISPATCH else main
    yield from (_dispatch(file, by_hand, asked.inputs) for file in _list_started_by_hand(known, asked.inputs))
    for file in known.started:
        for cron in dict.fromkeys(str(table_of(one).get("cron")) for one in items_of(file.triggers.get("schedule"))):
            yield RehearsedEvent(kind=EventKind.CRON, name="schedule", ref=main, payload=Open(schedule=cron))
    for start in (start for start in starts if start.event not in {"push", PULL, TARGET, DISPATCH, "schedule", CALL}):
        for ref in (refs or [start.ref]) if start.is_tag else [main]:
            yield RehearsedEvent(kind=EventKind.OTHER, name=start.event, ref=ref)


def _list_tags(refs: Sequence[str], asked: Asked) -> Iterator[RehearsedEvent]:
    for kind, end in ((EventKind.TAG, ""), (EventKind.CANDIDATE, "-rc1"), (EventKind.RERUN, "")):
        is_named = asked.ref and asked.kind is kind
        for tag in [f"{TAGS}{asked.ref.removeprefix(TAGS)}"] if is_named else refs:
            ref = tag if "-rc" in tag else f"{tag}{end}"  # named as a candidate already
            yield RehearsedEvent(kind=kind, name="push", ref=ref, payload=_push(ref))


def _list_started_by_hand(known: WorkflowSet, inputs: Mapping[str, str]) -> list[WorkflowDocument]:
    """Return the workflows that a person can start with some inputs; raise InputError for one that none takes."""
    names = {file.path: file.declared("inputs", DISPATCH).keys() for file in known.started if DISPATCH in file.triggers}
    found = [file for file in known.started if file.path in names and inputs.keys() <= names[file.path]]
    if inputs and not found:
        taken = sorted({name for several in names.values() for name in several})
        wrong = next((name for name in inputs if name not in taken), ", ".join(inputs))
        raise InputError(f'--input: no workflow takes "{one_line(wrong)}", {nearest(wrong, taken)}')
    return found


def _list_branches(known: WorkflowSet, *events: str) -> Iterator[str]:
    """Yield the branches that the filters of events name first; no file says which one is the default."""
    for filters in (table_of(file.triggers.get(event)) for event in events for file in known.started):
        if branches := [str(branch) for branch in items_of(filters.get("branches"))]:
            yield example_of(branches, "main")


def _push(ref: str) -> Open:
    return Open(ref=ref, created=ref.startswith(TAGS), deleted=False)  # GitHub sends them for each push


def _pull(base: str, *, fork: bool) -> Open:
    """Return the payload of a pull request; the repository of its head says whether that is a fork."""
    head = Open(repo=Open(fork=fork))
    return Open(action="opened", number=1, pull_request=Open(base=Open(ref=base), head=head, merged=False))


def _dispatch(file: WorkflowDocument, ref: str, given: Mapping[str, str]) -> RehearsedEvent:
    declared = {name: table for name, (_, table) in file.declared("inputs", DISPATCH).items()}
    inputs = {name: _input(name, table, given.get(name)) for name, table in declared.items()}
    texts = {name: str(value).lower() if isinstance(value, bool) else value for name, value in inputs.items()}
    event = RehearsedEvent(kind=EventKind.DISPATCH, name=DISPATCH, ref=ref, payload=Open(inputs=texts, ref=ref))
    return replace(event, inputs=inputs, file=file.path)


def _input(name: str, declared: Table, given: str | None) -> Any:  # noqa: ANN401
    """Return an input as the run sees it: without a default, what the form or the API sends is not known."""
    kind = declared.get("type", "string")
    options = [str(option) for option in items_of(declared.get("options"))] if kind == "choice" else []
    options = ["true", "false"] if kind == "boolean" else options
    if given is not None and options and given not in options:
        raise InputError(f'--input: {name} cannot be "{one_line(given)}", {nearest(given, options)}')
    if given is not None:
        return given == "true" if kind == "boolean" else given
    if "default" in declared or not (declared.get("required") or kind == "choice"):
        return declared.get("default", False if kind == "boolean" else "")
    return UNKNOWN  # required: somebody fills it in


def starts(file: WorkflowDocument, event: RehearsedEvent) -> str | None:
    """Return what an event has to have to start a workflow: empty if it does in any case, None if it never does.

    https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-syntax#on
    """
    if event.name not in file.triggers or event.file not in {"", file.path}:
        return None
    filters = {name: value for name, value in table_of(file.triggers[event.name]).items() if value is not None}
    if event.kind is EventKind.CRON:
        crons = [str(table_of(one).get("cron")) for one in items_of(file.triggers["schedule"])]
        return "" if event.payload["schedule"] in crons else None
    if event.name == "push" and not lets_push(filters, event.ref):
        return None
    if event.name.startswith(PULL):
        base = event.payload["pull_request"]["base"]["ref"]
        types = {str(one) for one in items_of(filters.get("types"))} or ACTIVITIES  # other types are not rehearsed
        if not lets(filters, "branches", base):
            return None
        if not types & ACTIVITIES:
            return f"it is {' or '.join(sorted(types))}"
    # Path filters are not evaluated for pushes of tags.
    is_by_path = {"paths", "paths-ignore"} & set(filters) and not event.ref.startswith(TAGS)
    return "it changes a file of `paths:`" if is_by_path else ""
