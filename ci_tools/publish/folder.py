"""A release folder on this machine: its plan, the receipts of its files, and its incomplete parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple

from ci_tools.errors import InputError, RejectedInput, nearest
from ci_tools.formats import receipts
from ci_tools.index.units import CORE, ReleasePlan, Withheld, is_left, units_of
from ci_tools.model.files import Receipt
from ci_tools.model.plan import Plan
from ci_tools.plan import plan_file, plan_reader
from ci_tools.plan.compare.changes import Side
from ci_tools.plan.compare.comparison import Comparison, compare
from ci_tools.publish import release_plan
from ci_tools.publish.gathering import files_of


class Finished(NamedTuple):
    """A plan and the state of its files: the receipts of their present bytes, and the parts not published yet."""

    plan: Plan
    receipts: Mapping[str, Receipt]  # by file name
    unsure: frozenset[str] = frozenset()  # files without a receipt of their present bytes
    withheld: tuple[Withheld, ...] = ()  # parts of the release that are incomplete or bad

    @property
    def files(self) -> dict[str, str]:
        """Every file of the plan, with the job that makes it."""
        return files_of(self.plan)


def is_plan(path: Path) -> bool:
    """Whether a path is a plan, or a folder with one."""
    return path.is_file() or (path / plan_file.PLAN).is_file()


def read(path: Path, only: str = "") -> Finished:
    """Return the release folder at `path`, or a plan.json without any files; with `only`, one platform's own part.

    Raises InputError if it is neither, or has no such platform.
    """
    if not is_plan(path):
        msg = f"there is no plan at {path}, expected a plan.json or a folder with one in it"
        raise InputError(msg, hint="`fatwheel plan --out`, `fatwheel build` and `fatwheel release` write one")
    folder = path if path.is_dir() else None
    data = plan_file.read(path / plan_file.PLAN if folder else path)
    built = {file.name for file in folder.iterdir()} if folder else set[str]()  # of a platform that was built here
    whole = plan_reader.plan_of(data, str(path))
    plan = _part(whole, only, built)
    if folder is None:
        return Finished(plan, {})
    names = files_of(plan)
    found = {name: receipts.load(folder / name) for name in names if (folder / name).is_file()}
    return Finished(
        plan,
        {name: receipt for name, receipt in found.items() if receipt},
        frozenset(name for name, receipt in found.items() if receipt is None),  # changed since, or never had one
        tuple(one for one in _withheld(release_plan.release_of(whole, str(path)), found) if only in {"", one.name}),
    )


def compare_folders(after: Finished, against: Path) -> Comparison:
    """Return how a release folder, or a plan, differs from an earlier one, with the file sizes that both have."""
    before = read(against)
    old, new = (Side(one.plan, sizes=sizes(one)) for one in (before, after))
    return compare(old, new, str(against))


def _part(plan: Plan, only: str, built: AbstractSet[str]) -> Plan:
    asked = {str(platform.platform): platform.platform for platform in plan.request.platforms}
    if only and only not in asked:
        raise InputError(f'the plan has no platform "{only}", {nearest(only, asked)}')
    return plan_file.own(plan, asked[only]) if only else plan_file.together(plan, built)


def _withheld(plan: ReleasePlan, found: Mapping[str, Receipt | None]) -> Iterator[Withheld]:
    """Yield the units that cannot be published now, and why."""
    files = {name: (Path(name), receipt) for name, receipt in found.items()}
    made = {job.platform for job in plan.jobs}
    has_core = plan.sdist or made - {*plan.optional}  # added wheels may all be of optional platforms
    for name in (*([CORE] if has_core else []), *(platform for platform in plan.optional if platform in made)):
        if not is_left(name, plan, files) and (problems := _problems(plan, files, name)):
            yield Withheld(name, problems)


def _problems(plan: ReleasePlan, files: Mapping[str, tuple[Path, Receipt | None]], name: str) -> str:
    """Return why one unit cannot be published, or ""."""
    try:
        units_of(plan, files, name)
    except RejectedInput as error:
        return "; ".join(map(str, error.problems))
    return ""


def sizes(finished: Finished) -> dict[str, int]:
    """Return the known sizes of wheels in bytes, by job."""
    known = ((job.name, finished.receipts.get(job.wheel)) for job in finished.plan.jobs)
    return {name: receipt.size for name, receipt in known if receipt}
