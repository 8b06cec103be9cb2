"""Reads the workflow files of a repository, and the parts of its configs that matter to them.

The files are untrusted. Each node is read once, so aliases cost nothing. Names that GitHub would not accept are
ignored, and control characters are removed from every text.
"""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import yaml

from ci_tools.config.location import TABLE
from ci_tools.doctor.grants import ACCESSES, EVERY, Grants, unite_grants
from ci_tools.doctor.nodes import (
    NAME,
    SECRET,
    children_of,
    line_of,
    list_events,
    list_items,
    list_pairs,
    list_texts,
    one_line,
    secrets_in,
    text_of,
)
from ci_tools.doctor.workflows import INHERITED, ConfigOutline, Used, Workflow, WorkflowJob
from ci_tools.errors import Problem, RejectedInput
from ci_tools.formats.toml.document import require_table
from ci_tools.formats.yaml_file import compose
from ci_tools.model.request import Release

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LARGEST = 256_000  # bytes of a file; the longest real files have a fifth of that
MAX_JOBS = 500
LONGEST_CONDITION = 2_000  # characters of an `if:` that are read
WIDEST = 1_000  # characters of a line that are searched for a command
USES = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*)/([A-Za-z0-9_.-]+)((?:/[^@\s]*)?)@([!-~]+)")

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
RELEASES = re.compile(r"\bgh\s+release\s+(?:create|delete|edit|upload)\b|\bfatwheel\s+(?:publish|release)\b.*\bgithub:")


def read_workflow(text: str, path: str) -> Workflow:
    """Return the workflow in a file's text; raise RejectedInput with the place if it is not a workflow."""
    path = one_line(path)
    top = children_of(compose(text, path))
    if not children_of(top.get("jobs")):
        raise _rejection(path, 1, "this is not a workflow: it has no jobs")
    outside = [node for key, node in top.items() if key != "jobs"]
    return Workflow(
        path=path,
        triggers=tuple(list_events(top.get("on"))),
        grants=_grants(top.get("permissions")),
        jobs=tuple(_jobs(list_pairs(top["jobs"]), path)),
        secrets=secrets_in(outside),
        required=frozenset(_list_required_secrets(top.get("on"))),
    )


def read_config(text: str, path: str) -> ConfigOutline:
    """Return the targets and platforms of a config; raise InputError if it is not YAML, or TOML by its name."""
    if path.endswith(".toml"):
        text = yaml.safe_dump(require_table(text, one_line(path), TABLE))  # an outline has no places
    top = children_of(compose(text, one_line(path)))
    tables = {
        name: children_of(node) for name, node in children_of(top.get("platforms")).items() if NAME.fullmatch(name)
    }
    targets = list_items(children_of(top.get("publish")).get("targets"))
    release = children_of(top.get("release"))
    return ConfigOutline(
        package=one_line(text_of(top.get("package"))),
        tag=one_line(text_of(release.get("tag"))) or Release().tag,
        targets=tuple(one_line(text_of(target)) for target in targets),
        platforms={name: _has_its_own(table) for name, table in tables.items() if not _is(table, "enabled", "false")},
        included={name: text_of(table["include"]) for name, table in tables.items() if text_of(table.get("include"))},
    )


def read_included(text: str, path: str) -> bool:
    """Return whether a platform's table, in an included file, sets `own-workflow`."""
    return _has_its_own(children_of(compose(text, one_line(path))))


def _has_its_own(table: Mapping[str, yaml.Node]) -> bool:
    return _is(table, "own-workflow", "true")


def _is(table: Mapping[str, yaml.Node], key: str, word: str) -> bool:
    return text_of(table.get(key)).lower() == word


def _rejection(path: str, line: int, what: str) -> RejectedInput:
    return RejectedInput([Problem(f"{path}:{line}", what)])


def _jobs(pairs: Sequence[tuple[yaml.ScalarNode, yaml.Node]], path: str) -> Iterator[WorkflowJob]:
    """Yield each job; a node that several names share by an alias is read once."""
    if len(pairs) > MAX_JOBS:
        raise _rejection(path, line_of(pairs[0][0]), f"it has {len(pairs)} jobs, expected at most {MAX_JOBS}")
    known: dict[int, WorkflowJob] = {}
    for key, node in pairs:
        if not NAME.fullmatch(key.value):
            raise _rejection(path, line_of(key), f'"{one_line(key.value)}" is not a valid name for a job')
        if id(node) not in known:
            known[id(node)] = _job(node, path)
        yield replace(known[id(node)], name=key.value, where=f"{path}:{line_of(key)}")


def _job(node: yaml.Node, path: str) -> WorkflowJob:
    """Return a job without its name and place, which come from its key."""
    parts = children_of(node)
    steps = {id(step): children_of(step) for step in list_items(parts.get("steps"))}
    used = (_parse_use(step.get("uses"), path) for step in steps.values())
    passed = parts.get("secrets")
    return WorkflowJob(
        name="",
        where="",
        grants=_grants(parts.get("permissions")),
        needs=unite_grants(_needs(step) for step in steps.values()),
        call=_parse_use(parts.get("uses"), path),
        steps=tuple(one for one in used if one),
        environment=_environment(parts),
        condition=one_line(text_of(parts.get("if")), LONGEST_CONDITION),
        secrets=secrets_in([node]),
        passed=frozenset([INHERITED]) if text_of(passed) == INHERITED else frozenset(children_of(passed)),
        given={key: one_line(text_of(value)) for key, value in children_of(parts.get("with")).items()},
    )


def _parse_use(node: yaml.Node | None, path: str) -> Used | None:
    """Return the action or workflow that a `uses:` names; None for a container or an invalid name."""
    text = text_of(node)
    where = f"{path}:{line_of(node)}" if node else path
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
    text = text_of(node)
    if text in {"read-all", "write-all"}:
        return {EVERY: text.partition("-")[0]}
    named = ((scope, text_of(wanted)) for scope, wanted in children_of(node).items())
    return {scope: wanted for scope, wanted in named if NAME.fullmatch(scope) and wanted in ACCESSES}


def _needs(step: Mapping[str, yaml.Node]) -> Grants:
    """Return the permissions a step is known to need; none if it uses a secret, such as its own token."""
    if any(map(_names_a_secret, list_texts(step.values()))):
        return {}
    found = USES.fullmatch(text_of(step.get("uses")))
    needs = dict(NEEDS.get(f"{found[1]}/{found[2]}".lower(), ())) if found else {}
    return {**needs, **dict(RELEASE)} if releases(text_of(step.get("run"))) else needs


@functools.lru_cache(maxsize=100)  # steps may share a script by an alias
def releases(script: str) -> bool:
    """Whether a script creates or changes a GitHub release."""
    return any(RELEASES.search(line[:WIDEST]) for line in script.splitlines())


@functools.lru_cache(maxsize=100)
def _names_a_secret(text: str) -> bool:
    return "${{" in text and SECRET.search(text) is not None


def _environment(parts: Mapping[str, yaml.Node]) -> str:
    """Return the environment in which a job runs, or which it passes to Fatwheel for publishing."""
    given = children_of(parts.get("with")).get("environment")
    node = parts.get("environment", given)
    return one_line(text_of(children_of(node).get("name")) or text_of(node))


def _list_required_secrets(node: yaml.Node | None) -> Iterator[str]:
    secrets = children_of(children_of(children_of(node).get("workflow_call")).get("secrets"))
    for name, secret in secrets.items():
        if NAME.fullmatch(name) and text_of(children_of(secret).get("required")).lower() == "true":
            yield name
