"""Compares a plan with the one of an earlier revision of its repository."""

from __future__ import annotations

from pathlib import Path

from ci_tools import catalog as catalogs
from ci_tools.config import loader
from ci_tools.config.location import read_document
from ci_tools.errors import InputError
from ci_tools.machine.context import Outside
from ci_tools.model.request import PathSource
from ci_tools.plan import make
from ci_tools.plan.compare.changes import Side
from ci_tools.plan.compare.comparison import Comparison, compare, empty_comparison
from ci_tools.plan.make import Planned
from ci_tools.source import files as source
from ci_tools.source import git


def compare_with_revision(planned: Planned, path: Path, against: str, outside: Outside) -> Comparison:
    """Return how the plan of the config at `path` differs from that of a revision of the config's repository.

    The earlier plan is made in a copy below the cache. If none can be made there, for example before the project had
    a config, the comparison says so. Raises InputError if the revision does not exist.
    """
    copy, earlier = _config_at(path, against, outside)
    after = _side(planned, path)
    try:
        before = _plan_copy(copy, earlier, planned, outside)
    except InputError as error:
        said = error.message.replace(f"{copy}/", "").replace(str(copy), "the repository")
        return empty_comparison(after, against, said)
    return compare(_side(before, earlier), after, against, catalogs.load())


def _config_at(path: Path, revision: str, outside: Outside) -> tuple[Path, Path]:
    """Return a copy of the config's repository at a revision, and the config's path in it, which may not exist."""
    place = path.resolve()
    root = git.top(place.parent, outside.environ)
    copy = source.copy_revision(root, revision, outside)
    return copy, copy / place.relative_to(root.resolve())


def _plan_copy(copy: Path, path: Path, later: Planned, outside: Outside) -> Planned:
    """Return the plan of the config at `path` in a copy; raise InputError if its source is outside the copy."""
    asked = loader.load(path, catalogs.load(), outside=outside).source
    if isinstance(asked, PathSource) and not (path.parent / asked.path).resolve().is_relative_to(copy.resolve()):
        msg = f"{path} names a source outside of its repository, {asked.path}, whose earlier state is not known"
        raise InputError(msg)
    return make.make_plan(path, outside, edition=later.plan.edition)


def _side(planned: Planned, path: Path) -> Side:
    """Return a plan with its evidence and the lines of its config."""
    document = read_document(path, planned.plan.request.config)
    keys = ("python", "torch", "platforms")
    lines = {key: document.where((key,), key=True).rpartition(":")[0] for key in keys}  # file:line, without the column
    return Side(planned.plan, planned.evidence, lines)
