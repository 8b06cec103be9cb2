"""GitHub's limits for tags, releases and their files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_tools.errors import InputError, Problem, RejectedInput
from ci_tools.github.client import printable
from ci_tools.model.names import is_tag
from ci_tools.model.repository import COMMIT
from ci_tools.publish.targets.github_release.assets import MAX_ASSETS, Sent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from github.GitRelease import GitRelease

    from ci_tools.index.units import Alias, Item, Unit

MAX_BYTES = 2 << 30  # an asset must be smaller
KEPT_NAME = re.compile(r"[A-Za-z0-9_-]([A-Za-z0-9_.+@-]*[A-Za-z0-9_+@-])?")  # GitHub replaces other characters by dots


def refuse_by_rules(unit: Unit) -> None:
    """Raise RejectedInput with every violation of GitHub's rules."""
    files: tuple[Item | Alias, ...] = (*unit.items, *unit.aliases)
    problems = [*_problems_of_tag(unit.tag), *(problem for file in files for problem in _problems_of(file))]
    if len(files) >= MAX_ASSETS:
        what = f"{len(files):,} files and their list, GitHub accepts {MAX_ASSETS:,} in a release"
        problems.append(Problem(unit.tag, what))
    if problems:
        raise RejectedInput(problems, hint="publish these files to an index of your own, such as s3://BUCKET/whl")


def _problems_of_tag(tag: str) -> Iterator[Problem]:
    if not tag:
        yield Problem("", "the plan names no tag for the release, expected one such as v1.0")
    elif not is_tag(tag) or COMMIT.fullmatch(tag):
        yield Problem("", f'"{printable(tag)}" is not a tag that git accepts, expected one such as v1.0')


def _problems_of(item: Item | Alias) -> Iterator[Problem]:
    if item.size >= MAX_BYTES:
        yield Problem(printable(item.name), f"{item.size:,} bytes, GitHub accepts files of less than {MAX_BYTES:,}")
    if item.size == 0:
        yield Problem(printable(item.name), "it is empty, and GitHub accepts no empty files")
    if not KEPT_NAME.fullmatch(item.name):
        yield Problem(printable(item.name), "GitHub would rename it, and installers do not accept the new name")


def refuse_more(unit: Unit, published: GitRelease, there: Collection[str], lacking: Sequence[Sent]) -> None:
    """Raise InputError if a published release cannot take the missing files."""
    if lacking and published.immutable:
        msg = f"{unit.tag} is an immutable release, and it lacks {lacking[0].name}"
        hint = "raise the version, with this platform among the required ones, or turn immutable releases off before it"
        raise InputError(msg, hint=hint)
    if len(there) + len(lacking) > MAX_ASSETS:
        msg = f"{unit.tag} would have {len(there) + len(lacking):,} files, GitHub accepts {MAX_ASSETS:,} in a release"
        raise InputError(msg)
