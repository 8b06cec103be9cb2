"""Mends a source whose plan is refused: the patch is tried on a copy, and shown only if the copy has a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools import catalog as catalogs
from ci_tools.config import loader
from ci_tools.observe.collector import gather
from ci_tools.plan.advise.advice import Advice, Advised
from ci_tools.plan.advise.mend_options import find_guard_options, find_tag_options
from ci_tools.source import files as source
from ci_tools.verify.patches import Patched, patch_of, try_patch

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.machine.context import Outside
    from ci_tools.plan.make import Planned


def find_mends(path: Path, outside: Outside) -> tuple[Planned, Advised, tuple[Patched, ...]] | None:
    """Return the plan of the config at `path` with all mends of its source, and each mend; None if that has no plan.

    Advice without a patch mends nothing: then the others are not enough either.
    """
    request = loader.load(path, catalogs.load(), outside=outside)
    catalog = catalogs.load(request.catalog)
    tree = source.open_tree(request, path.parent, outside)
    platforms = gather(request, tree, catalog, outside).platforms
    shown = tuple(dict.fromkeys(one for found in platforms for one in (found.shown, *found.apart.values())))
    options = (*find_tag_options(shown, tree), *find_guard_options(shown, tree))
    patch = patch_of(tree, tuple(edit for option in options for edit in option.edits))
    planned = try_patch(request, tree, catalog, patch, outside) if patch else None
    if planned is None:
        return None
    jobs = len(planned.plan.jobs)
    advice = tuple(Advice(option, jobs, jobs) for option in options)
    patched = tuple(Patched(one, patch_of(tree, one.option.edits)) for one in advice)
    return planned._replace(tree=tree), Advised(advice, jobs, jobs), patched
