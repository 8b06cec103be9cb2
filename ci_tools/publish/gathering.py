"""Gathers the files that several machines built from one plan: each file once, audited here, with all its trials."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ci_tools.errors import MAX_SHOWN, Problem, RejectedInput, nearest
from ci_tools.formats import receipts
from ci_tools.machine.context import Outside
from ci_tools.machine.storage import hold_lock, write_atomically
from ci_tools.model.files import Outcome, Receipt, Trial, Validated
from ci_tools.model.plan import SDIST, Plan

UNSEEN = Trial("install it", Outcome.FAILED, "no result was received from there")


class GatheredFile(NamedTuple):
    """One file as a machine left it, and its receipt."""

    path: Path
    receipt: Receipt


def gather(folders: Sequence[Path], plan: Plan, out: Path, outside: Outside) -> tuple[Path, ...]:
    """Copy every file of a plan from some folders into `out`, with a receipt that merges all receipts of the file.

    A receipt says who built the file and how it was tried at the plan's sites, even one whose file is not beside it;
    its audit is not trusted. If two receipts differ about a site, the one with a failure is used. Raises RejectedInput
    if a file is not in the plan, if two differ, or if one does not match its receipt.
    """
    problems: list[Problem] = []
    folders = [folder for folder in folders if _is_there(folder, outside)]
    kept = _merge_files(_find_files(folders, plan, problems), problems)
    if problems:
        raise RejectedInput(problems)
    for receipt in filter(None, map(receipts.read, _below(folders, "receipts/*.json"))):
        if receipt.file in kept and kept[receipt.file].receipt.sha256 == receipt.sha256:
            kept[receipt.file] = _add_places(kept[receipt.file], receipt)
    with hold_lock(out / ".fatwheel", outside.reporter.say):
        return tuple(_copy_file(found, plan, out, outside) for _, found in sorted(kept.items()))


def _find_files(folders: Iterable[Path], plan: Plan, problems: list[Problem]) -> Iterator[GatheredFile]:
    """Yield every file below the folders that is in the plan, with its receipt; record the others as problems."""
    jobs = files_of(plan)
    for path in (*_below(folders, "*.whl"), *_below(folders, "*.tar.gz")):
        receipt = receipts.load(path)
        if path.name not in jobs:
            near = nearest(path.name, jobs) if len(problems) < MAX_SHOWN else ""  # for those that are shown: it is slow
            problems.append(Problem(str(path), f"the plan has no such file, {near}"))
        elif path.is_symlink() or receipt is None:  # a link may lead to a file of this machine
            problems.append(Problem(str(path), "it has no receipt of its present bytes"))
        elif (receipt.job, receipt.source) != (jobs[path.name], plan.pins.source_sha256):
            problems.append(Problem(str(path), "it is of another job, or of another source than the plan's"))
        else:
            yield GatheredFile(path, receipt)


def find_built(folders: Iterable[Path], plan: Plan) -> frozenset[str]:
    """Return the files of a plan that, by the receipts below some folders, were built from its source."""
    jobs = files_of(plan)
    found = filter(None, map(receipts.read, _below(folders, "*.json")))
    return frozenset(
        one.file for one in found if (one.job, one.source) == (jobs.get(one.file), plan.pins.source_sha256)
    )


def files_of(plan: Plan) -> dict[str, str]:
    """Return every file of a plan, with the job that makes it."""
    wheels: dict[str, str] = {name: job.name for name, job in plan.makers.items()}
    return {**({plan.sdist: SDIST} if plan.sdist else {}), **wheels}


def _is_there(folder: Path, outside: Outside) -> bool:
    """Return whether a folder exists, and report it if not: a run in which everything failed leaves no folder."""
    if not folder.is_dir():
        outside.reporter.say(f"there is no folder {folder}, so nothing is copied from it")
    return folder.is_dir()


def _below(folders: Iterable[Path], pattern: str) -> Iterator[Path]:
    """Yield the files below some folders, but for those in hidden folders: what was made for publishing."""
    for folder in folders:
        files = sorted(path for path in folder.rglob(pattern) if path.is_file())
        yield from (path for path in files if not any(part[0] == "." for part in path.relative_to(folder).parts))


def _merge_files(found: Iterable[GatheredFile], problems: list[Problem]) -> dict[str, GatheredFile]:
    """Return each file once; record a problem where two machines built different bytes under one name."""
    kept: dict[str, GatheredFile] = {}
    for one in found:
        first = kept.setdefault(one.path.name, one)
        if first.receipt.sha256 != one.receipt.sha256:
            problems.append(Problem(str(one.path), f"it has other bytes than {first.path}"))
    return kept


def _add_places(found: GatheredFile, other: Receipt) -> GatheredFile:
    """Add the places of another receipt; a place with a failure is not replaced by one without.

    Receipts travel between machines, and the project's code runs on each of them: only the site itself can report that
    it failed, but any machine could claim that it passed.
    """
    receipt = found.receipt
    for place in other.validated:
        before = receipt.at(place.where)
        if before is None or not before.failures:
            receipt = receipt.add_place(place)
    return found._replace(receipt=receipt)


def _copy_file(found: GatheredFile, plan: Plan, out: Path, outside: Outside) -> Path:
    """Copy one file, and write its receipt with the trials at each site of the plan that tries it."""
    path = out / found.path.name
    with outside.reporter.step(f"copy {path.name}"), write_atomically(path) as sink, found.path.open("rb") as source:
        shutil.copyfileobj(source, sink)
    sites = [site.name for site in plan.sites if path.name in site.tried]
    validated = tuple(found.receipt.at(name) or Validated(name, "", (UNSEEN,)) for name in sites)
    receipts.save(path, replace(found.receipt, findings=(), audited=False, validated=validated))
    return path
