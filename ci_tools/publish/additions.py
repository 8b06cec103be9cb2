"""Publishes files that Fatwheel did not build to an index, audited without a plan."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from packaging.version import Version

from ci_tools import catalog
from ci_tools.build.sdist import audit_sdist
from ci_tools.catalog.accelerators import FOLDER
from ci_tools.errors import InputError, Problem, Rejected, RejectedInput, count, nearest
from ci_tools.index.file_names import project_and_version
from ci_tools.index.pages import VARIANTS
from ci_tools.index.units import Change, Item, JobEntry, Unit
from ci_tools.machine.context import Outside
from ci_tools.machine.storage import sha256_of
from ci_tools.model.evidence import Project
from ci_tools.model.files import Finding, Level, WheelMembers
from ci_tools.model.names import ProjectName, VersionText
from ci_tools.publish import transaction
from ci_tools.publish.transaction import Shown
from ci_tools.verify.audit import RULES, audit
from ci_tools.verify.together import find_disagreements, find_shared_files

if TYPE_CHECKING:
    from ci_tools.index.wheel_index import WheelIndex

ADDED = "added"  # the origin of such files, and the name of their release unit
MOST_PROJECTS = 200  # of an index whose wheels are compared with new ones: each takes a request or two
READABLE = "archive"  # the rule that a file is readable
ACCELERATOR = re.compile(r"cpu|xpu|(cu|rocm)[0-9]")  # the start of a local version that seems to name a folder


class Addition(NamedTuple):
    """Files to add, and the folders of an index that list them."""

    files: tuple[Path, ...]
    folder: str = ""  # their index folder; empty: the one in the local version, or every folder
    also: tuple[str, ...] = ()  # other folders that list them
    despite: frozenset[str] = frozenset()  # rules of the audit whose errors are accepted


class Added(NamedTuple):
    """The published files, and the accepted findings of the audit."""

    shown: tuple[Shown, ...]
    findings: tuple[Finding, ...]


def add(targets: Sequence[WheelIndex], addition: Addition, outside: Outside) -> Added:
    """Publish files that others built to an index and its mirrors, each release as a whole and labelled as added.

    Raises InputError for a file that is neither wheel nor sdist, and if the index cannot accept it; Rejected if the
    audit finds an error.
    """
    units = _units(addition)
    findings = (*_audit(addition, outside), *_compare(addition, targets[0], units, outside))
    shown = (
        one
        for unit in units
        for one in transaction.publish(unit, targets, _journals(targets, unit, outside), outside.reporter)
    )
    return Added(tuple(shown), findings)


def preview(
    targets: Sequence[WheelIndex], addition: Addition, outside: Outside
) -> tuple[tuple[tuple[str, str, Change], ...], tuple[Finding, ...]]:
    """Return what adding files would change, for each release at the index, and the audit's findings."""
    units = _units(addition)
    findings = (*_audit(addition, outside), *_compare(addition, targets[0], units, outside))
    found = ((unit, transaction.preview(unit, targets, _journals(targets, unit, outside))) for unit in units)
    return tuple((f"{unit.project} {unit.version}", *change) for unit, changes in found for change in changes), findings


def _journals(targets: Sequence[WheelIndex], unit: Unit, outside: Outside) -> Path:
    what = f"{targets[0].address} {unit.project}=={unit.version}"  # mirrors follow the first
    return outside.cache / "additions" / hashlib.sha256(what.encode()).hexdigest()


# ---------------------------------------------------------------- files to add


def _units(addition: Addition) -> tuple[Unit, ...]:
    """Return the releases of the files; raise RejectedInput with all errors in their names."""
    problems = [problem for path in addition.files for problem in _problems(path, addition)]
    if problems:
        raise RejectedInput(problems)
    units: dict[tuple[str, str], list[Item]] = {}
    for path in addition.files:
        project, version = project_and_version(path.name)
        units.setdefault((project, version.public), []).append(_item(path, version, addition))
    return tuple(
        Unit(name=ADDED, project=ProjectName(project), version=version, items=tuple(items))
        for (project, version), items in sorted(units.items())
    )


def _problems(path: Path, addition: Addition) -> Iterator[Problem]:
    if not path.is_file():
        yield Problem("", f"there is no file {path}")
        return
    try:
        version = project_and_version(path.name)[1]
    except ValueError as error:
        yield Problem("", f"{path.name} is not the name of a wheel or an sdist: {error}")
        return
    folder = _folder(version, addition)
    if not FOLDER.fullmatch(folder) or folder == VARIANTS:
        what = "--folder says" if addition.folder else f"the version {version} seems to say"
        expected = "expected --folder with an accelerator such as cu130 or rocm7.1"
        yield Problem("", f"{path.name}: {what} {folder}, {expected}")
    if addition.also and not folder:
        yield Problem("", f"--also: every folder lists {path.name}, expected --folder with the one that it is for")


def _folder(version: Version, addition: Addition) -> str:
    """Return the folder of a file from its local version, or "" if that does not name an accelerator."""
    local = version.local or ""
    return addition.folder or (local if FOLDER.fullmatch(local) or ACCELERATOR.match(local) else "")


def _item(path: Path, version: Version, addition: Addition) -> Item:
    folder = _folder(version, addition)
    kind = "pure" if path.name.endswith("-none-any.whl") else "native"  # PEP 425: any ABI, any platform
    made = JobEntry("", kind, accelerator=folder) if path.suffix == ".whl" else None  # in no plan: little is known
    return Item(path, sha256_of(path), path.stat().st_size, made, folder, addition.also, origin=ADDED)


# ---------------------------------------------------------------- audit


def _audit(addition: Addition, outside: Outside) -> tuple[Finding, ...]:
    """Audit every file; raise Rejected if one is bad, InputError if `despite` names an unknown rule."""
    known = (*RULES, READABLE)
    for name in sorted(addition.despite.difference(known)):
        raise InputError(f'--despite: the audit has no rule "{name}", {nearest(name, known)}')
    found: list[Finding] = []
    for path in addition.files:
        with outside.reporter.step(f"audit {path.name}"):
            found += _audit_file(path, outside)
    bad = [one for one in found if one.level is Level.ERROR and one.rule not in addition.despite]
    if bad:
        lines = [f"{one.wheel}: {one.rule}: {one.message}: {one.found}, expected {one.expected}" for one in bad]
        rules = " ".join(f"--despite {rule}" for rule in dict.fromkeys(one.rule for one in bad))
        raise Rejected("\n".join(lines), hint=f"nothing was added; {rules} adds it as it is")
    return tuple(found)


def _compare(addition: Addition, index: WheelIndex, units: Sequence[Unit], outside: Outside) -> Iterator[Finding]:
    """Yield where the files disagree, or a wheel installs files of another one or of another project in the index."""
    yield from find_disagreements(addition.files)
    own = [(str(unit.project), item.path) for unit in units for item in unit.items if item.path.suffix == ".whl"]
    added = [WheelMembers(project, path.name, _read_members(path)) for project, path in own]
    owners = dict[str, WheelMembers]()
    for unit in units:
        others = [one for one in index.list_others(unit) if one not in owners and one not in dict(own)]
        if len(others) > MOST_PROJECTS:
            outside.reporter.say(f"not compared with the wheels of {count(len(others), 'other project')}: too many")
        else:
            owners |= {one.project: one for one in index.read_owners(unit, others)}
    yield from find_shared_files([*owners.values(), *added])


def _read_members(path: Path) -> dict[str, tuple[int, int]]:
    with suppress(zipfile.BadZipFile, OSError), zipfile.ZipFile(path) as archive:
        return {one.filename: (one.file_size, one.CRC) for one in archive.infolist()}
    return {}


def _audit_file(path: Path, outside: Outside) -> Sequence[Finding]:
    if path.suffix == ".whl":
        return audit(path, job=None, limits=catalog.load().limits, work=outside.cache / "audit", to_pypi=False)
    project, version = project_and_version(path.name)
    return audit_sdist(path, Project(ProjectName(project), VersionText(str(version)), "", "", path.name))
