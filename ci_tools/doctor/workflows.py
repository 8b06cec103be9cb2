"""The workflows of a repository that calls Fatwheel: each job's permissions, actions, secrets and targets.

The files are untrusted: names that GitHub would not accept are ignored, and every text is one printable line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ci_tools.catalog import tables
from ci_tools.doctor.documents import (
    ATTEST_PUBLIC,
    CALL,
    NAME,
    OWN_TOKEN,
    SECRET,
    Grants,
    Keys,
    WorkflowDocument,
    WorkflowStep,
    condition_of,
    granted_to,
    one_line,
    scalar_of,
    strings,
    table_of,
    unite_grants,
)
from ci_tools.model.names import CONFIG_FILE

INHERITED = "inherit"  # stands for all secrets of the caller, in place of their names
WORKFLOW = re.compile(r"/\.github/workflows/[^/]+\.ya?ml")
EXPRESSION = "${{"  # starts a value that is unknown before a run
LONGEST_CONDITION = 2_000  # characters of an `if:` that are read
WIDEST = 1_000  # characters of a line that are searched for a command
# OWNER/REPO, a folder or file in it, and a ref
USES = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*)/([A-Za-z0-9_.-]+)((?:/[^@\s]*)?)@([!-~]+)")
CALLS = re.compile(r"/\.github/workflows/(?:wheels|publish|platform|recipes|request)\.ya?ml")
PUBLISHES = re.compile(r"/publish\.ya?ml$")
PLATFORM = re.compile(r"/platform\.ya?ml$")
WHEELS = re.compile(r"/wheels\.ya?ml$")
RECIPES = re.compile(r"/(?:recipes|request)\.ya?ml$")
TRUSTED_PUBLISHER = "pypa/gh-action-pypi-publish"
RELEASE = (("contents", "write"),)
NEEDS = tables.read("contexts")["needs"]
TRUSTED = (("id-token", "write"),)
# To PyPI, and with nothing to log in with but the job's identity.
UV_PUBLISH = re.compile(r"(?m)^\s*uv publish\b(?!.*(?:\s-[tup]\b|--(?:token|user|pass|index|publish-|dry|help)|never))")
FOR_TOOLS = frozenset({"GH_TOKEN", "GITHUB_TOKEN", "UV_PUBLISH_TOKEN", "UV_PUBLISH_PASSWORD"})  # of gh and uv
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
        return self.repository.rpartition("/")[2].lower() == "fatwheel"  # a fork keeps the name

    @property
    def is_call(self) -> bool:
        """Whether it is one of Fatwheel's reusable workflows."""
        return self.is_fatwheel and CALLS.fullmatch(self.path) is not None

    @property
    def placeholders(self) -> list[str]:
        """The words in it that our documentation leaves for its reader to replace."""
        return [word for word in ("OWNER", "SHA") if word in {self.repository.partition("/")[0], self.ref}]

    def __str__(self) -> str:
        return f"{self.repository}{self.path}@{self.ref}".rstrip("@")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowJob:
    """One job: its permissions, the actions it uses, and the environment and secrets it names."""

    name: str
    where: str
    grants: Grants | None  # its own or the workflow's; None if neither sets any
    needs: Grants  # the permissions that its own steps are known to need
    call: Used | None  # the workflow that it calls
    steps: tuple[Used, ...]
    environment: str
    condition: str  # its `if:`
    secrets: frozenset[str]
    passed: frozenset[str]  # names of secrets passed to the called workflow
    given: Mapping[str, str]  # its `with:`
    is_trusted_publisher: bool  # it uploads to PyPI without a password

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
    def builds_recipes(self) -> bool:
        """Whether the job calls recipes.yml or request.yml, which build and publish recipes."""
        return self._calls(RECIPES)

    @property
    def config(self) -> str:
        """The path of the config in its call of Fatwheel."""
        return self.given.get("config") or CONFIG_FILE

    @property
    def attest(self) -> str:
        """The input `attest` of its call of Fatwheel: whether the files are signed."""
        return self.given.get("attest") or ATTEST_PUBLIC

    def _calls(self, path: re.Pattern[str]) -> bool:
        return bool(self.call and self.call.is_call and path.search(self.call.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """One workflow file."""

    path: str
    triggers: tuple[str, ...]
    jobs: tuple[WorkflowJob, ...]
    secrets: frozenset[str]  # secrets named outside of its jobs
    required: frozenset[str]  # secrets that a caller must pass

    @property
    def is_caller(self) -> bool:
        """Whether any of its jobs uses Fatwheel."""
        return any(used.is_fatwheel for job in self.jobs for used in job.uses)


# -- what a file says of them


def outline(file: WorkflowDocument, own: str = "") -> Workflow:
    """Return what a workflow says of its jobs; in Fatwheel's repository `own`, its local calls are of that."""
    taken = file.declared("secrets", CALL).items()
    return Workflow(
        path=one_line(file.path),
        triggers=tuple(filter(NAME.fullmatch, file.triggers)),
        jobs=tuple(_outline_job(file, job, own) for job in file.jobs),
        secrets=_secrets_in({key: value for key, value in file.value.items() if key != "jobs"}),
        required=frozenset(name for name, (_, one) in taken if NAME.fullmatch(name) and one.get("required") is True),
    )


def outline_all(files: Iterable[WorkflowDocument], repository: str) -> tuple[Workflow, ...]:
    """Return what the workflows of a repository say of their jobs."""
    own = repository if repository.rpartition("/")[2].lower() == "fatwheel" else ""
    return tuple(outline(file, own) for file in files)  # in our own repository `./` is a call of Fatwheel's


def _outline_job(file: WorkflowDocument, name: str, own: str) -> WorkflowJob:
    value, steps, keys = file.jobs[name], file.steps_of(name), ("jobs", name)
    passed, given = value.get("secrets"), table_of(value.get("with"))
    environment = value.get("environment", given.get("environment"))  # or the one that it passes on for publishing
    used = (_parse_use(file, step.uses, (*step.keys, "uses"), own) for step in steps)
    return WorkflowJob(
        name=name,
        where=file.where(keys),
        grants=granted_to(file, name),
        needs=unite_grants(_needs(file, step) for step in steps),
        call=_parse_use(file, scalar_of(value.get("uses")), (*keys, "uses"), own),
        steps=tuple(one for one in used if one),
        environment=one_line(scalar_of(table_of(environment).get("name", environment))),
        condition=one_line(condition_of(value), LONGEST_CONDITION),
        secrets=_secrets_in(value),
        passed=frozenset([INHERITED] if passed == INHERITED else table_of(passed)),
        given={key: one_line(scalar_of(text)) for key, text in given.items()},
        is_trusted_publisher=any(_is_trusted(step) and _needs(file, step) for step in steps),
    )


def _parse_use(file: WorkflowDocument, text: str, keys: Keys, own: str) -> Used | None:
    """Return the action or workflow that a `uses:` names; None for a container or an invalid name."""
    if text.startswith(("./", "$/")):
        return Used(own, one_line(text[1:]), "", file.where(keys))
    found = USES.fullmatch(text)
    if not found or found[2] in {".", ".."} or ".." in found[3].split("/"):  # GitHub takes no such path
        return None
    path, ref = one_line(found[3].rstrip("/")), one_line(found[4])
    return Used(f"{found[1]}/{found[2]}", path, ref, file.where(keys))


def _needs(file: WorkflowDocument, step: WorkflowStep) -> Grants:
    """Return the permissions a step is known to need; none if it may have another token than its job's."""
    if has_other_token(file, step):
        return {}
    # OWNER/REPO, without the folder of an action within it
    needs = dict(TRUSTED if _is_trusted(step) else NEEDS.get("/".join(step.action.split("/")[:2]).lower(), ()))
    return {**needs, **dict(RELEASE)} if releases(step.run) else needs


def _is_trusted(step: WorkflowStep) -> bool:
    """Whether a step uploads to PyPI, and says no user, password or token."""
    return step.action.lower() == TRUSTED_PUBLISHER or bool(UV_PUBLISH.search(step.run))


def has_other_token(file: WorkflowDocument, step: WorkflowStep) -> bool:
    """Whether a step gets a secret, or a token that a step before it made: in it, or by a variable around it."""
    own, texts = table_of(step.value.get("env")), list(strings(step.value))
    around = (table_of(one.get("env")) for one in (file.value, file.jobs.get(step.job, {})))
    for name, value in (item for table in around for item in table.items() if item[0] not in own):
        if name in FOR_TOOLS or any(name in text for _, text in texts):
            texts.append(((name,), str(value)))
    return any(_secrets_in(text) or ("token" in str(keys[-1]).lower() and "steps." in text) for keys, text in texts)


def releases(script: str) -> bool:
    """Whether a script creates or changes a GitHub release."""
    return any(RELEASES.search(line[:WIDEST]) for line in script.splitlines())  # generated data may fill a longer one


def _secrets_in(value: object) -> frozenset[str]:
    """Return the names of secrets in the expressions of a value, in upper case, since GitHub ignores case."""
    parts = (part.partition("}}")[0] for _, text in strings(value) for part in text.split("${{")[1:])
    return frozenset(found.upper() for part in parts for found in SECRET.findall(part)) - {OWN_TOKEN}
