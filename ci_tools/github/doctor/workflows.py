"""Reads the workflow files of a repository that calls Fatwheel: each job's permissions, actions, secrets and targets.

The files are untrusted. Each node is read once, so aliases cost nothing. Names that GitHub would not accept are
ignored, and control characters are removed from every text.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import yaml

from ci_tools.errors import Problem, RejectedInput
from ci_tools.formats.yaml_file import compose

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

__all__ = [
    "ATTEST_NEVER",
    "ATTEST_PUBLIC",
    "EXPRESSION",
    "INHERITED",
    "LARGEST",
    "Job",
    "Outline",
    "Used",
    "Workflow",
    "access",
    "lacking",
    "needed_to_publish",
    "one_line",
    "qualify_calls",
    "read",
    "read_config",
    "read_included",
    "unite_grants",
]

LARGEST = 256_000  # bytes of a file; the longest real files have a fifth of that
MOST_JOBS = 500
LONGEST_CONDITION = 2_000  # characters of an `if:` that are read
WIDEST = 1_000  # characters of a line that are searched for a command
INHERITED = "inherit"  # stands for all secrets of the caller, in place of their names
EVERY = "*"  # stands for all permissions that are not named, as in `read-all` and `write-all`
ACCESSES = ("none", "read", "write")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
SECRET = re.compile(r"\bsecrets\s*(?:\.\s*|\[\s*['\"])([A-Za-z_][A-Za-z0-9_]*)")
USES = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*)/([A-Za-z0-9_.-]+)((?:/[^@\s]*)?)@([!-~]+)")
WORKFLOW = re.compile(r"/\.github/workflows/[^/]+\.ya?ml")
DEFAULT_CONFIG = "fatwheel.yml"
ATTEST_PUBLIC, ATTEST_NEVER = "public", "never"
EXPRESSION = "${{"  # starts a value that is unknown before a run
CALLS = re.compile(r"/\.github/workflows/(?:wheels|publish|platform)\.ya?ml")
PUBLISHES = re.compile(r"/publish\.ya?ml$")
PLATFORM = re.compile(r"/platform\.ya?ml$")
WHEELS = re.compile(r"/wheels\.ya?ml$")
OWN_TOKEN = "GITHUB_TOKEN"  # noqa: S105 - the name of a secret that every run has

RELEASE = (("contents", "write"),)
ATTEST = (("attestations", "write"), ("id-token", "write"))
# The permissions that third-party actions need for the job's token; without them GitHub answers 403.
NEEDS = {
    "actions/attest": ATTEST,
    "actions/attest-build-provenance": ATTEST,
    "actions/attest-sbom": ATTEST,
    "ncipollo/release-action": RELEASE,
    "pypa/gh-action-pypi-publish": (("id-token", "write"),),
    "softprops/action-gh-release": RELEASE,
}
TRUSTED_PUBLISHER = "pypa/gh-action-pypi-publish"
RELEASES = re.compile(r"\bgh\s+release\s+(?:create|delete|edit|upload)\b|\bfatwheel\s+(?:publish|release)\b.*\bgithub:")


class Used(NamedTuple):
    """The action or workflow that a `uses:` names, and its place; `repository` is empty for the same repository."""

    repository: str
    path: str
    ref: str
    where: str

    @property
    def is_fatwheel(self) -> bool:
        """Whether it is Fatwheel, or a fork of it."""
        return self.repository.rpartition("/")[2].lower() == "fatwheel"

    @property
    def is_workflow(self) -> bool:
        """Whether it is a reusable workflow, not an action."""
        return WORKFLOW.fullmatch(self.path) is not None

    @property
    def is_call(self) -> bool:
        """Whether it is one of Fatwheel's reusable workflows."""
        return self.is_fatwheel and CALLS.fullmatch(self.path) is not None

    def __str__(self) -> str:
        return f"{self.repository}{self.path}@{self.ref}".rstrip("@")


Grants = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job: its permissions, the actions it uses, and the environment and secrets it names."""

    name: str
    where: str
    grants: Grants | None  # None: it has no `permissions:` of its own
    needs: Grants  # the permissions that its own steps are known to need
    call: Used | None  # the workflow that it calls
    steps: tuple[Used, ...]
    environment: str
    condition: str  # its `if:`
    secrets: frozenset[str]
    passed: frozenset[str]  # names of secrets passed to the called workflow
    given: Mapping[str, str]  # its `with:`

    @property
    def uses(self) -> tuple[Used, ...]:
        """The called workflow and all actions of its steps."""
        return (self.call, *self.steps) if self.call else self.steps

    @property
    def is_build(self) -> bool:
        """Whether the job builds with Fatwheel."""
        return any(used.is_call or (used.is_fatwheel and not used.path.strip("/")) for used in self.uses)

    @property
    def publishes(self) -> bool:
        """Whether the job calls publish.yml, which publishes a release."""
        return self._calls(PUBLISHES)

    @property
    def builds_all(self) -> bool:
        """Whether the job calls wheels.yml, which builds the platforms of a config."""
        return self._calls(WHEELS)

    @property
    def builds_one(self) -> bool:
        """Whether the job calls platform.yml, which builds one platform."""
        return self._calls(PLATFORM)

    @property
    def config(self) -> str:
        """The path of the config in its call of Fatwheel."""
        return self.given.get("config") or DEFAULT_CONFIG

    @property
    def attest(self) -> str:
        """The input `attest` of its call of Fatwheel: whether the files are signed."""
        return self.given.get("attest") or ATTEST_PUBLIC

    def _calls(self, path: re.Pattern[str]) -> bool:
        return bool(self.call and self.call.is_call and path.search(self.call.path))

    @property
    def is_trusted_publisher(self) -> bool:
        """Whether the job uploads to PyPI by trusted publishing, without a password."""
        return "id-token" in self.needs and any(used.repository.lower() == TRUSTED_PUBLISHER for used in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """One workflow file."""

    path: str
    triggers: tuple[str, ...]
    grants: Grants | None
    jobs: tuple[Job, ...]
    secrets: frozenset[str]  # secrets named outside of its jobs
    required: frozenset[str]  # secrets that a caller must pass

    @property
    def is_caller(self) -> bool:
        """Whether any of its jobs uses Fatwheel."""
        return any(used.is_fatwheel for job in self.jobs for used in job.uses)

    def grants_of(self, job: Job) -> Grants | None:
        """Return a job's permissions: its own or the workflow's; None if neither sets any."""
        return self.grants if job.grants is None else job.grants


class Outline(NamedTuple):
    """The parts of a config that matter to the workflows which call Fatwheel with it."""

    targets: tuple[str, ...]
    platforms: Mapping[str, bool]  # each enabled platform to whether a separate workflow builds it
    included: Mapping[str, str]  # platform to the included file with its table


# -- permissions


def access(grants: Mapping[str, str], scope: str) -> str:
    """Return the access to a scope: none, read or write."""
    return grants.get(scope, grants.get(EVERY, ACCESSES[0]))


def unite_grants(several: Iterable[Mapping[str, str]]) -> Grants:
    """Return the union of several grants: for each scope, the highest access."""
    union: Grants = {}
    for grants in several:
        for scope, wanted in grants.items():
            union[scope] = max(wanted, union.get(scope, ACCESSES[0]), key=ACCESSES.index)
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
        ("contents", "write"): any(target.startswith("github:") for target in targets),  # to make the release
        ("id-token", "write"): bool(given.get("aws-role")),  # to assume the role
    }
    return {scope: wanted for (scope, wanted), applies in reasons.items() if applies}


# -- reading


def qualify_calls(workflow: Workflow, repository: str) -> Workflow:
    """Return a workflow of Fatwheel's own repository with that repository filled in where it calls others locally."""
    jobs = (
        replace(
            job, call=job.call and _own(job.call, repository), steps=tuple(_own(one, repository) for one in job.steps)
        )
        for job in workflow.jobs
    )
    return replace(workflow, jobs=tuple(jobs))


def _own(used: Used, repository: str) -> Used:
    return used if used.repository else used._replace(repository=repository)


def one_line(text: str, most: int = 200) -> str:
    """Return an untrusted text as one printable line that a runner does not take for a command."""
    line = "".join(char if char.isprintable() else " " for char in text[: most + 1]).replace("##[", "# #[")
    return line if len(line) <= most else f"{line[:most]}…"


def read(text: str, path: str) -> Workflow:
    """Return the workflow in a file's text; raise RejectedInput with the place if it is not a workflow."""
    path = one_line(path)
    top = _children(compose(text, path))
    if not _children(top.get("jobs")):
        raise _rejection(path, 1, "this is no workflow: it has no jobs")
    outside = [node for key, node in top.items() if key != "jobs"]
    return Workflow(
        path=path,
        triggers=tuple(_words(top.get("on"))),
        grants=_grants(top.get("permissions")),
        jobs=tuple(_jobs(_pairs(top["jobs"]), path)),
        secrets=_secrets(outside),
        required=frozenset(_list_required_secrets(top.get("on"))),
    )


def read_config(text: str, path: str) -> Outline:
    """Return the targets and platforms of a config; raise RejectedInput if it is not YAML."""
    top = _children(compose(text, one_line(path)))
    tables = {name: _children(node) for name, node in _children(top.get("platforms")).items() if NAME.fullmatch(name)}
    targets = _items(_children(top.get("publish")).get("targets"))
    return Outline(
        targets=tuple(one_line(_text(target)) for target in targets),
        platforms={name: _has_its_own(table) for name, table in tables.items() if not _is(table, "enabled", "false")},
        included={name: _text(table["include"]) for name, table in tables.items() if _text(table.get("include"))},
    )


def read_included(text: str, path: str) -> bool:
    """Return whether a platform's table, in an included file, sets `own-workflow`."""
    return _has_its_own(_children(compose(text, one_line(path))))


def _has_its_own(table: Mapping[str, yaml.Node]) -> bool:
    return _is(table, "own-workflow", "true")


def _is(table: Mapping[str, yaml.Node], key: str, word: str) -> bool:
    return _text(table.get(key)).lower() == word


def _rejection(path: str, line: int, what: str) -> RejectedInput:
    return RejectedInput([Problem(f"{path}:{line}", what)])


def _jobs(pairs: Sequence[tuple[yaml.ScalarNode, yaml.Node]], path: str) -> Iterator[Job]:
    """Yield each job; a node that several names share by an alias is read once."""
    if len(pairs) > MOST_JOBS:
        raise _rejection(path, _line(pairs[0][0]), f"it has {len(pairs)} jobs, expected at most {MOST_JOBS}")
    known: dict[int, Job] = {}
    for key, node in pairs:
        if not NAME.fullmatch(key.value):
            raise _rejection(path, _line(key), f'"{one_line(key.value)}" is no name of a job')
        if id(node) not in known:
            known[id(node)] = _job(node, path)
        yield replace(known[id(node)], name=key.value, where=f"{path}:{_line(key)}")


def _job(node: yaml.Node, path: str) -> Job:
    """Return a job without its name and place, which come from its key."""
    parts = _children(node)
    steps = {id(step): _children(step) for step in _items(parts.get("steps"))}
    used = (_parse_use(step.get("uses"), path) for step in steps.values())
    passed = parts.get("secrets")
    return Job(
        name="",
        where="",
        grants=_grants(parts.get("permissions")),
        needs=unite_grants(_needs(step) for step in steps.values()),
        call=_parse_use(parts.get("uses"), path),
        steps=tuple(one for one in used if one),
        environment=_environment(parts),
        condition=one_line(_text(parts.get("if")), LONGEST_CONDITION),
        secrets=_secrets([node]),
        passed=frozenset([INHERITED]) if _text(passed) == INHERITED else frozenset(_children(passed)),
        given={key: one_line(_text(value)) for key, value in _children(parts.get("with")).items()},
    )


def _parse_use(node: yaml.Node | None, path: str) -> Used | None:
    """Return the action or workflow that a `uses:` names; None for a container or an invalid name."""
    text = _text(node)
    where = f"{path}:{_line(node)}" if node else path
    if text.startswith(("./", "$/")):
        return Used("", one_line(text[1:]), "", where)
    found = USES.fullmatch(text)
    if not found or found[2] in {".", ".."} or ".." in found[3].split("/"):
        return None
    return Used(f"{found[1]}/{found[2]}", one_line(found[3].rstrip("/")), one_line(found[4]), where)


def _grants(node: yaml.Node | None) -> Grants | None:
    """Return `permissions:` as written, None without it; scopes that it does not name are not granted."""
    if node is None:
        return None
    text = _text(node)
    if text in {"read-all", "write-all"}:
        return {EVERY: text.partition("-")[0]}
    named = ((scope, _text(wanted)) for scope, wanted in _children(node).items())
    return {scope: wanted for scope, wanted in named if NAME.fullmatch(scope) and wanted in ACCESSES}


def _needs(step: Mapping[str, yaml.Node]) -> Grants:
    """Return the permissions a step is known to need; none if it uses a secret, such as its own token."""
    if any(map(_names_a_secret, _texts(step.values()))):
        return {}
    found = USES.fullmatch(_text(step.get("uses")))
    needs = dict(NEEDS.get(f"{found[1]}/{found[2]}".lower(), ())) if found else {}
    return {**needs, **dict(RELEASE)} if _releases(_text(step.get("run"))) else needs


@functools.lru_cache(maxsize=100)  # steps may share a script by an alias
def _releases(script: str) -> bool:
    """Whether a script creates or changes a GitHub release."""
    return any(RELEASES.search(line[:WIDEST]) for line in script.splitlines())


@functools.lru_cache(maxsize=100)
def _names_a_secret(text: str) -> bool:
    return "${{" in text and SECRET.search(text) is not None


def _environment(parts: Mapping[str, yaml.Node]) -> str:
    """Return the environment in which a job runs, or which it passes to Fatwheel for publishing."""
    given = _children(parts.get("with")).get("environment")
    node = parts.get("environment", given)
    return one_line(_text(_children(node).get("name")) or _text(node))


def _list_required_secrets(node: yaml.Node | None) -> Iterator[str]:
    secrets = _children(_children(_children(node).get("workflow_call")).get("secrets"))
    for name, secret in secrets.items():
        if NAME.fullmatch(name) and _text(_children(secret).get("required")).lower() == "true":
            yield name


def _secrets(nodes: Iterable[yaml.Node]) -> frozenset[str]:
    """Return the names of secrets in the expressions of nodes, in upper case, since GitHub ignores case."""
    expressions = (part.partition("}}")[0] for text in _texts(nodes) for part in text.split("${{")[1:])
    names = (found.upper() for expression in expressions for found in SECRET.findall(expression))
    return frozenset(names) - {OWN_TOKEN}


# -- nodes


def _texts(nodes: Iterable[yaml.Node]) -> Iterator[str]:
    """Yield every text below some nodes; each node is visited once, however many aliases it has."""
    waiting, seen = list(nodes), set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            yield node.value
        elif isinstance(node, yaml.MappingNode):
            waiting += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value


def _pairs(node: yaml.Node | None) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return [(key, value) for key, value in pairs if isinstance(key, yaml.ScalarNode)]


def _children(node: yaml.Node | None) -> dict[str, yaml.Node]:
    return {key.value: value for key, value in _pairs(node)}


def _items(node: yaml.Node | None) -> list[yaml.Node]:
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _words(node: yaml.Node | None) -> list[str]:
    """Return the events of `on:`, which may be one name, a list, or a mapping."""
    names = _children(node) or [_text(item) for item in _items(node)] or [_text(node)]
    return [name for name in names if NAME.fullmatch(name)]


def _text(node: yaml.Node | None) -> str:
    return node.value if isinstance(node, yaml.ScalarNode) else ""


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
