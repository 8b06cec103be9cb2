"""Permissions of a job's token: their union, and what is missing of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.catalog.targets import kind_of
from ci_tools.doctor.documents import NAME, Table, WorkflowDocument, table_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


EVERY = "*"  # stands for all permissions that are not named, as in `read-all` and `write-all`
ATTEST_PUBLIC, ATTEST_NEVER = "public", "never"  # of the input `attest`
ACCESSES = ("none", "read", "write")


Grants = dict[str, str]


def read_grants(value: Table) -> Grants | None:
    """Return `permissions:` of a workflow or a job as written, None without it; what it does not name is not granted.

    https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-syntax#permissions
    """
    if "permissions" not in value:
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
        ("id-token", "write"): bool(given.get("aws-role")),  # to assume the role
    }
    own = {right for kind in filter(None, map(kind_of, targets)) for right in kind.rights}
    return {scope: wanted for (scope, wanted), applies in reasons.items() if applies} | dict(sorted(own))
