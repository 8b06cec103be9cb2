"""The values that several verbs read from their options."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools import catalog
from ci_tools.config import location
from ci_tools.errors import InputError, RejectedInput, nearest
from ci_tools.machine.context import Outside
from ci_tools.model import edition
from ci_tools.model.names import CONFIG_FILE
from ci_tools.model.plan import Plan
from ci_tools.model.platforms import Platform
from ci_tools.model.request import UNTAGGED, CatalogRow, Edition, Run
from ci_tools.model.versions import Python
from ci_tools.plan import make, plan_file
from ci_tools.plan.make import Planned

if TYPE_CHECKING:
    import argparse


def find_config(options: argparse.Namespace, outside: Outside) -> Path:
    """Return the config that is named, by itself or its folder, or else the nearest; report one in another folder.

    Raises InputError if there is none.
    """
    if options.config and (named := Path(options.config)).is_dir():
        return location.config_in(named) or named / CONFIG_FILE  # reading it says that there is none
    if options.config:
        return Path(options.config)
    path = location.find_config(Path(), _home(outside))
    if path.parent != Path():  # a person may not expect it
        outside.reporter.say(f"the config is {location.describe(path)}")
    return path


def find_config_or_none(options: argparse.Namespace, outside: Outside) -> Path | None:
    """Return the same; None if there is none, as in a repository of recipes. Raises RejectedInput for a damaged one."""
    try:
        return find_config(options, outside)
    except RejectedInput:  # an InputError too, but a damaged config is not a missing one
        raise
    except InputError:
        return None


def find_project(outside: Outside) -> Path:
    """Return the nearest folder with a project, this one or one above, else this one; report one above."""
    path = location.find_project(Path(), _home(outside))
    if path != Path():
        outside.reporter.say(f"the project is in {path}")
    return path


def _home(outside: Outside) -> Path:
    return Path(outside.environ.get("HOME") or outside.environ.get("USERPROFILE") or os.sep)


def make_plan(options: argparse.Namespace, path: Path, outside: Outside, *, targets: Sequence[str] = ()) -> Planned:
    """Make the plan of the requested edition, for `targets` in place of the config's if there are any."""
    pinned = getattr(options, "plan", None)  # only some verbs have --plan
    tag = options.tag or (make.resolve_tag(options.ref, path, outside) if options.ref else "")  # "" for a branch
    run = Run(tuple(options.torch), tuple(options.gpu_runner), tuple(targets))
    return make.make_plan(path, outside, pinned=pinned, edition=_edition(options), tag=tag, run=run)


def _edition(options: argparse.Namespace) -> Edition | None:
    """Return the edition that the command line names; None if git determines it."""
    if options.nightly:
        return edition.nightly(options.nightly)
    return UNTAGGED if options.untagged else None


def narrow(plan: Plan, name: str | None) -> Plan:
    """Return the part of a plan for one platform, or all of it without a name."""
    if name is None:
        return plan
    asked = [str(platform.platform) for platform in plan.request.platforms]
    if name not in asked:
        raise InputError(f'the request has no platform "{name}", {nearest(name, asked)}')
    return plan_file.only(plan, Platform(name))


def share(plan: Plan, platform: str | None) -> Plan:
    """Return the part of a plan that one workflow builds: one platform, or all without a separate workflow."""
    return plan_file.own(narrow(plan, platform), Platform(platform)) if platform else plan_file.together(plan)


def read_python(text: str, rows: tuple[CatalogRow, ...] = ()) -> Python:
    """Return the Python of a version; raise InputError if neither the catalog nor a project's rows have it."""
    known = {str(python): python for python in catalog.load(rows).pythons}
    if text not in known:
        raise InputError(f'--python: there is no Python "{text}" in the catalog, {nearest(text, known)}')
    return known[text]


def outputs(values: Mapping[str, str]) -> str:
    """Return the lines that a workflow step writes to $GITHUB_OUTPUT; every value is a single line."""
    return "".join(f"{name}={value}\n" for name, value in values.items())
