"""Predicts which compile units and links of a plan's jobs are in the store, by those of each job's last build.

Only files of the source are compared: torch, the toolkit and options are those of a build that has not begun.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.build.units import manifests
from ci_tools.build.units.calls import LINK, LINKED
from ci_tools.build.units.desk import read_object
from ci_tools.build.units.manifests import Digests, TextManifest, name_folders
from ci_tools.build.units.report import PLAIN, UnitReport
from ci_tools.build.units.seeds import PASSING, digest_value
from ci_tools.build.units.store import UnitStore, name_object
from ci_tools.formats.binaries.fatbinary import digest_images
from ci_tools.model.plan import Job, JobKind, Plan

if TYPE_CHECKING:
    from ci_tools.source.files import Tree

SOURCE = "<source>/"
OF_PYTHON = ("<include>", "<platinclude>")
OF_BUILD = (SOURCE, "<build>/", "<here>/")
NOTHING_KNOWN = "its text is not in the store"


class JobForecast(NamedTuple):
    """The compile units and the links of a job, each with what has changed, or "" if it is in the store."""

    job: str
    units: tuple[str, ...]
    links: tuple[str, ...]


class MadeUnit(NamedTuple):
    """The time that a unit took, whether each Python compiles it, and the hashes of its device code."""

    seconds: float  # of processor time
    is_of_python: bool
    images: Mapping[str, str]

    def describe(self) -> str:
        """Return the time, and how often it is taken."""
        return f"{self.seconds:.0f} CPU s {'for each Python' if self.is_of_python else 'once for every Python'}"


class _PlannedSource(NamedTuple):
    """The source that a plan builds, and the store; `is_own` says whether the units are the job's, or a sibling's."""

    tree: Tree
    files: Digests
    store: UnitStore
    is_own: bool = True
    made: frozenset[str] | None = None  # the digests of the objects that are taken, if not all are


def keep_job(project: str, job: str, report: UnitReport, store: UnitStore) -> None:
    """Write the units of a job that was built, by their names in the store, and its links, with why one is not kept."""
    units = dict.fromkeys(one.unit for one in report.units if one.how != PLAIN)
    store.write(_name(project, job), json.dumps([*units]).encode())
    store.write(_name(project, job, LINK), json.dumps({one.unit: one.why for one in report.links}).encode())


def forecast(plan: Plan, tree: Tree, store: UnitStore) -> Iterator[JobForecast]:
    """Yield what the store has of each job whose units are known, from its own build or from another Python's."""
    source = _PlannedSource(tree, Digests(), store)  # each file is hashed once for all jobs
    for job in plan.jobs:
        for built in [job, *_list_siblings(job, plan)]:
            if known := store.read(_name(plan.project.name, built.name)):
                units, one = json.loads(known), source._replace(is_own=built is job)
                found = tuple(_find_change(unit, one) for unit in units)
                links = json.loads(store.read(_name(plan.project.name, built.name, LINK)) or b"{}")  # no link was kept
                one = one._replace(made=_list_made(units, one) if any(found) else None)
                yield JobForecast(job.name, found, tuple(why or _find_change(link, one) for link, why in links.items()))
                break  # a sibling's only where its own is not known


def read_made(plan: Plan, job: str, tree: Tree, store: UnitStore) -> dict[str, MadeUnit]:
    """Return the compile units of a job as they were made of this source, by the names of their sources."""
    source, made = _PlannedSource(tree, Digests(), store), dict[str, MadeUnit]()
    for unit in json.loads(store.read(_name(plan.project.name, job)) or b"[]"):
        for found in manifests.load_all(unit, store):
            stored = read_object(found.key, store) if not _compare(found, source) else None
            if stored:
                is_of_python = any(path.startswith(OF_PYTHON) for path in found.read)
                images = digest_images(io.BytesIO(stored.content))
                made[found.told["source"].removeprefix(SOURCE)] = MadeUnit(stored.seconds, is_of_python, images)
                break  # the youngest that fits
    return made


def _list_siblings(job: Job, plan: Plan) -> list[Job]:
    """Return the jobs that differ only in their Python."""
    axes = (job.platform, job.accelerator, job.requires_torch)
    native = [one for one in plan.jobs if one.kind is JobKind.NATIVE and one is not job]
    return [one for one in native if (one.platform, one.accelerator, one.requires_torch) == axes]


def _find_change(unit: str, source: _PlannedSource) -> str:
    """Return what has changed since a unit was made, by the youngest of its manifests; "" if nothing has."""
    changes = [_compare(found, source) for found in manifests.load_all(unit, source.store)]
    return "" if "" in changes else next(iter(changes), NOTHING_KNOWN)


def _list_made(units: Iterable[str], source: _PlannedSource) -> frozenset[str]:
    """Return the digests of the objects that a build takes from the store."""
    known = (one for unit in units for one in manifests.load_all(unit, source.store) if not _compare(one, source))
    stored = (read_object(one.key, source.store) for one in known)
    return frozenset(hashlib.sha256(one.content).hexdigest() for one in stored if one)


def _compare(manifest: TextManifest, source: _PlannedSource) -> str:
    names, own = name_folders({"source": source.tree.root}), source.tree.names
    read = {path: digest for path, digest in manifest.read.items() if path.removeprefix(SOURCE) in own}
    for path, digest in read.items():
        if path.startswith(SOURCE) and source.files.digest(names.expand(path)) != digest:
            return manifests.name_place(manifest, path, names, source.store)
    for path in manifest.absent:
        if path.startswith(SOURCE) and path.removeprefix(SOURCE) in own:
            return path
    if not source.is_own and any(path.startswith(OF_PYTHON) for path in manifest.read):
        return "it reads Python's headers"
    if not source.is_own and PASSING.search(manifest.told["options"]):
        return "its options name a Python"
    objects = {digest for path, digest in manifest.read.items() if path.startswith(OF_BUILD) and path.endswith(LINKED)}
    if source.made is not None and objects - {*read.values()} - source.made:
        return "it links what is compiled again"
    return "" if source.store.has(name_object(manifest.key)) else NOTHING_KNOWN


def _name(*told: str) -> str:
    return f"jobs/{digest_value(told)}"
