"""Rules for the refs of actions and workflows: tags and branches, which can move, and outdated commits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_tools.doctor.report import DoctorFinding, RepositoryFacts, RepositoryTag, Unseen, Weight, report_unseen
from ci_tools.model.names import COMMIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_tools.doctor.workflows import Used


def check_pins(facts: RepositoryFacts) -> Iterator[DoctorFinding]:
    """Yield the uses of tags and branches, which can move, and of outdated commits."""
    for used in list_once(used for workflow in facts.callers for job in workflow.jobs for used in job.uses):
        tags = facts.tags.get(used.repository.lower(), ())
        if isinstance(tags, Unseen):
            yield report_unseen(used.where, tags)
        else:
            is_pinned = COMMIT.fullmatch(used.ref)
            yield from _check_pin(facts, used, tags) if is_pinned else _moving(used, tags)


def _moving(used: Used, tags: tuple[RepositoryTag, ...]) -> Iterator[DoctorFinding]:
    what = f"{used} is a tag or a branch, which can be moved"
    why = "anyone who moves it runs code in your release"
    how = pinned_use(used, newest_release(tags, used.ref))
    yield DoctorFinding("moving", Weight.WARNING, used.where, what, why, how)


def _check_pin(facts: RepositoryFacts, used: Used, tags: tuple[RepositoryTag, ...]) -> Iterator[DoctorFinding]:
    own = next((tag for tag in tags if tag.commit == used.ref and tag.version), None)
    newest = newest_release(tags, own.name if own else "")
    if own and newest:
        passed = sum(_is_between(tag, own, newest) for tag in tags)
        behind = f"{own.name}, {passed} release{'s'[: passed != 1]} behind" if passed else ""
    else:
        count = facts.behind.get((used.repository.lower(), used.ref), 0)
        if count is None:
            what, why = f"{used.repository} has no commit {used.ref[:12]}", "the run ends before its first job"
            yield DoctorFinding("no-commit", Weight.ERROR, used.where, what, why, pinned_use(used, newest))
        behind = f"a commit without a release, {count} behind" if count else ""
    if behind and newest:
        weight = Weight.WARNING if used.is_fatwheel else Weight.HINT
        what = f"{used.repository} is at {behind} {newest.name}"
        why, how = "the fixes since then are missing", pinned_use(used, newest)
        yield DoctorFinding("behind", weight, used.where, what, why, how)


def _is_between(tag: RepositoryTag, own: RepositoryTag, newest: RepositoryTag) -> bool:
    """Whether a tag is a release after `own`, up to `newest`."""
    versions = own.version, tag.version, newest.version
    return bool(versions[0] and versions[1] and versions[2] and versions[0] < versions[1] <= versions[2])


def newest_release(tags: tuple[RepositoryTag, ...], name: str) -> RepositoryTag | None:
    """Return the newest release of the major version in a name such as `v4` or `release/v1`; of all if it has none."""
    major = re.search(r"(?:^|/)v?(\d+)(?:\.|$)", name)
    versions = [(tag.version, tag) for tag in tags if tag.version]
    same = [pair for pair in versions if not major or pair[0].major == int(major[1])]
    return max(same, key=lambda pair: pair[0])[1] if same else None


def pinned_use(used: Used, newest: RepositoryTag | None) -> str:
    """Return the `uses:` line that pins a release, or a template of one."""
    pinned = f"{newest.commit} # {newest.name}" if newest else "SHA # vX.Y.Z"
    return f"uses: {used.repository}{used.path}@{pinned}"


def list_once(several: Iterable[Used]) -> Iterator[Used]:
    """Yield each use of another repository once, at its first place; uses of the own repository have no `@REF`."""
    first: dict[tuple[str, str, str], Used] = {}
    for used in several:
        if used.ref:
            first.setdefault(used[:3], used)
    yield from first.values()
