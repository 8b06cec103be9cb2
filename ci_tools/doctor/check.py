"""The verb doctor: reads workflow files, and the settings that a release needs, and makes fixes that need no decision.

It reads the names of secrets, never their values, and never extends a permission. Facts that the token cannot read are
reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ci_tools.doctor.configs import read_configs
from ci_tools.doctor.documents import one_line
from ci_tools.doctor.files import (
    MAX_REPOSITORIES,
    list_called,
    list_unread,
    list_uses,
    make_fetch,
    read_checkout,
    read_texts,
)
from ci_tools.doctor.on_github import (
    ACTIONS,
    ADMINISTRATION,
    SECRETS,
    Api,
    Fixed,
    apply_fix,
    read_default,
    read_environments,
    read_immutability,
    read_or_unseen,
    read_policy,
    read_secrets,
    read_states,
)
from ci_tools.doctor.report import DoctorFinding, RepositoryFacts, RepositoryTag, Unseen, Weight
from ci_tools.doctor.rules import diagnose, diagnose_checkout
from ci_tools.doctor.workflow_set import WorkflowSet, read_set
from ci_tools.doctor.workflows import Used, outline_all
from ci_tools.errors import InputError, MachineError
from ci_tools.github.client import TOKENS, Hub
from ci_tools.github.commands import annotation
from ci_tools.machine.context import Outside
from ci_tools.model.names import COMMIT, REPOSITORY


class Checked(NamedTuple):
    """The findings in a repository after all fixes, and the fixes."""

    repository: str
    findings: tuple[DoctorFinding, ...]
    fixed: tuple[Fixed, ...]
    folder: str = ""  # the one that was named, if only a checkout was read


def check(hub: Hub, *, fix: bool = False) -> Checked:
    """Return everything that would stop or weaken a release; with `fix`, make the possible fixes and check again.

    Raises InputError if the name or the token is wrong, and MachineError if GitHub cannot be reached.
    """
    if REPOSITORY.fullmatch(hub.repository) and not any(hub.outside.environ.get(name, "").strip() for name in TOKENS):
        msg = f"reading the settings of {hub.repository} needs a token, and neither {' nor '.join(TOKENS)} is set"
        raise InputError(msg, hint='export GH_TOKEN="$(gh auth token)"')
    with hub.opened() as opened, _understood(hub.repository):
        api = Api(hub, opened)
        facts = _read(api, hub.outside)
        findings = diagnose(facts)
        fixes = list(dict.fromkeys(finding.fix for finding in findings if finding.fix)) if fix else []
        for one in fixes:  # before it is done, so that a log shows what was begun
            hub.outside.reporter.say(f"will {one.describe(facts)}")
        fixed = tuple(apply_fix(api, one, facts) for one in fixes)
        # Read again after a fix: it may refuse, or show what it had hidden.
        return Checked(api.name, diagnose(_read(api, hub.outside)) if fixed else findings, fixed)


def check_checkout(folder: Path, clones: Path | None, outside: Outside) -> Checked:
    """Return everything in the workflow files of a checkout that would stop or weaken a release; nothing is sent.

    Raises InputError if the folder has no workflow.
    """
    name = folder.resolve().name or str(folder)
    with outside.reporter.step(f"read the workflows of {name}") as step:
        facts = facts_of(read_checkout(folder, clones, outside.environ), name)
        step.result(_count(facts))  # nothing found, and nothing looked for, would read alike
    return Checked(facts.repository, diagnose_checkout(facts), (), str(folder))


def facts_of(known: WorkflowSet, name: str) -> RepositoryFacts:
    """Return what the workflows of a checkout show; `name` is for a repository whose own is not known."""
    workflows = outline_all(known.workflows, known.repository)
    settings = Unseen("its settings on GitHub", "`fatwheel doctor OWNER/REPO`, with a token")
    return RepositoryFacts(
        repository=known.repository or name,
        page=f"https://github.com/{known.repository}" if known.repository else "the repository's page",
        policy=settings,
        default=settings,
        is_immutable=settings,
        workflows=workflows,
        states=settings,
        environments=settings,
        secrets=settings,
        called=dict(list_called(known, workflows, {})),
        configs=dict(read_configs(known.fetch, workflows)),
        files=known,
    )


def _count(facts: RepositoryFacts) -> str:
    count = len(facts.workflows)
    return f"{count} workflow{'s'[: count != 1]}, {len(facts.callers)} of them Fatwheel's"


def status(checked: Checked) -> int:
    """Return 1 if there are findings other than hints, else 0; in a checkout, what it does not show does not count."""
    passed = {Weight.HINT, Weight.UNSEEN} if checked.folder else {Weight.HINT}  # nobody can answer it there
    return int(any(finding.weight not in passed for finding in checked.findings))


def to_json(checked: Checked) -> dict[str, object]:
    """Return the result as JSON values, for scripts."""
    findings = [
        {**finding._asdict(), "fix": finding.fix and {"kind": str(finding.fix.kind), "subject": finding.fix.subject}}
        for finding in checked.findings
    ]
    fixed = [one._asdict() for one in checked.fixed]
    return {"schema": 1, "repository": checked.repository, "findings": findings, "fixed": fixed}


def to_annotations(checked: Checked) -> list[str]:
    """Return the result as workflow commands, which GitHub shows at the lines of a pull request."""
    levels = {Weight.ERROR: "error", Weight.WARNING: "warning"}
    return [
        annotation(levels.get(one.weight, "notice"), f"{one.what}: {one.why}\n→ {one.how}", one.rule, one.where)
        for one in checked.findings
    ]


@contextmanager
def _understood(repository: str) -> Iterator[None]:
    """Raise MachineError if an answer does not have the form that GitHub documents."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # a field left out, or of another type
        msg = f"an answer about {repository} does not have the form that GitHub documents: {one_line(repr(error))}"
        raise MachineError(msg, hint="is GITHUB_API_URL the address of its API?") from error


# -- reading


def _read(api: Api, outside: Outside) -> RepositoryFacts:
    """Return all facts of a repository."""
    with outside.reporter.step(f"read the settings of {api.name}") as step:
        texts, left = read_texts(api)
        known = read_set(texts, make_fetch(api), api.name)
        workflows = outline_all(known.workflows, api.name)
        used = list_uses(workflows)
        tags = _tags(api, used)
        policy = read_or_unseen("which actions may run", ADMINISTRATION, lambda: read_policy(api))
        facts = RepositoryFacts(
            repository=api.name,
            page=one_line(api.opened.html_url),
            branch=one_line(api.opened.default_branch),
            is_archived=api.opened.archived,
            is_private=api.opened.private,
            is_organization=api.opened.owner.type == "Organization",
            policy=policy,
            default=read_or_unseen("the default permissions of jobs", ADMINISTRATION, lambda: read_default(api)),
            is_immutable=read_immutability(api, is_admin=not isinstance(policy, Unseen)),
            workflows=workflows,
            unread=(*list_unread(known), *left),
            states=read_or_unseen("whether workflows are disabled", ACTIONS, lambda: read_states(api)),
            environments=read_or_unseen("the environments", ACTIONS, lambda: read_environments(api, workflows)),
            secrets=read_or_unseen("the names of the secrets", SECRETS, lambda: read_secrets(api)),
            called=dict(list_called(known, workflows, tags)),
            tags=tags,
            behind=dict(_behind(api, used, tags)),
            configs=dict(read_configs(known.fetch, workflows)),
            files=known,
        )
        step.result(_count(facts))
    return facts


def _tags(api: Api, used: Iterable[Used]) -> dict[str, tuple[RepositoryTag, ...] | Unseen]:
    """Return the tags of each repository that is used, by its lower-case name."""
    names = dict.fromkeys(one.repository.lower() for one in used if one.ref)
    tags: dict[str, tuple[RepositoryTag, ...] | Unseen] = {}
    for name in names:
        what, needs = f"the releases of {name}", f"a token that sees {name}"
        is_last = len(tags) >= MAX_REPOSITORIES  # each is a list of pages
        tags[name] = Unseen(what, "fewer actions in this repository") if is_last else _tags_of(api, name, what, needs)
    return tags


def _tags_of(api: Api, name: str, what: str, needs: str) -> tuple[RepositoryTag, ...] | Unseen:
    listed = read_or_unseen(what, needs, lambda: api.pages("/tags", repository=name))
    if isinstance(listed, Unseen):
        return listed
    return tuple(RepositoryTag(one_line(one["name"]), str(one["commit"]["sha"])) for one in listed)


def _behind(
    api: Api, used: Iterable[Used], tags: dict[str, tuple[RepositoryTag, ...] | Unseen]
) -> Iterator[tuple[tuple[str, str], int | None]]:
    """Yield how many commits each pin without a release is behind the newest release; None if the commit is missing."""
    pins = dict.fromkeys((one.repository.lower(), one.ref) for one in used if COMMIT.fullmatch(one.ref))
    for name, commit in islice(pins, MAX_REPOSITORIES):
        known = tags[name]  # check_pins reports one that is unseen
        released = [] if isinstance(known, Unseen) else [tag for tag in known if tag.version]
        if released and all(tag.commit != commit for tag in released):
            newest = max(released, key=lambda tag: (tag.version, tag.name))
            # Only the first page contains the changed files, which may take GitHub too long.
            said = api.get(f"/compare/{commit}...{newest.commit}", name, per_page=1, page=2)
            yield (name, commit), None if said is None else int(said["ahead_by"])
