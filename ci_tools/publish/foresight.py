"""Asks the targets, before anything is compiled, what they would refuse of the release."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from ci_tools.catalog.targets import is_local, split_places
from ci_tools.errors import FatwheelError, InputError, MachineError, RejectedInput, count
from ci_tools.index.ledger import Damaged
from ci_tools.index.units import CORE, Item, Unit
from ci_tools.model.edition import tag_of, title_of
from ci_tools.model.files import Receipt
from ci_tools.model.plan import Plan
from ci_tools.model.request import Edition, Route
from ci_tools.publish.targets import Target

IN_DATA = re.compile(r"^[^/]+\.data/(?:purelib|platlib)/")  # installed as if they were beside it (PEP 427)
NOT_INSTALLED = re.compile(r"^[^/]+\.(?:dist-info|data)/")
NOTHING_COMPILED = "nothing was compiled yet"


def core_of(plan: Plan, edition: Edition, made: tuple[Path, Receipt] | None = None) -> Unit:
    """Return the known part of a plan's core before it is built: its names, and its sdist if that is built.

    The bytes of a smart sdist are known only when every wheel is; until then, the sdist that it is made of is a draft.
    """
    sdist = (Item(made[0], made[1].sha256, made[1].size, None),) if made else ()
    known = {"name": plan.project.name, "version": plan.project.version}
    is_smart = plan.request.publish.pypi is Route.SMART
    return Unit(
        name=CORE,
        project=plan.project.name,
        version=plan.project.version,
        items=() if is_smart else sdist,
        drafts=sdist if is_smart else (),
        edition=edition,
        commit=plan.pins.commit or "",
        tag=tag_of(edition, plan.request.release.tag, known),
        title=title_of(edition, plan.request.release.title, known),
        route=plan.request.publish.pypi,
    )


def refuse_clash(core: Unit, targets: Iterable[Target], say: Callable[[str], None]) -> None:
    """Raise the error of a target that will certainly refuse a release, judged by its sdist: it has the whole source.

    A target that does not answer is reported and refuses nothing: it may answer once everything is built.
    """
    refusals = [refusal for target in targets if (refusal := _ask_target(core, target, say))]
    if refusals:
        hint = "; ".join(filter(None, (NOTHING_COMPILED, refusals[0].hint)))
        problems = [problem for error in refusals if isinstance(error, RejectedInput) for problem in error.problems]
        raise RejectedInput(problems, hint=hint) if problems else InputError(refusals[0].message, hint=hint)


def _ask_target(core: Unit, target: Target, say: Callable[[str], None]) -> FatwheelError | None:
    """Return a target's refusal; a damaged file of an index's own state blocks every release."""
    try:
        target.foresee(core)
    except Damaged:  # before MachineError, whose kind it is
        raise
    except MachineError as error:
        say(f"{target.address} could not be checked for {core.project} {core.version}: {error.message}")
    except FatwheelError as error:
        return error
    return None


def say_clash(core: Unit, targets: Iterable[Target], say: Callable[[str], None]) -> None:
    """Report what publishing would refuse, for a build that may go elsewhere or be one part of a release."""
    try:
        refuse_clash(core, targets, say)
    except FatwheelError as error:
        say(f"warning: publishing this would be refused: {error.message}")


def report_existing(core: Unit, targets: Iterable[Target], say: Callable[[str], None]) -> None:
    """Report which targets have files of a version, if none of its files is built yet to compare with them."""
    for target, held in find_holders(core, targets, say):
        what = f"{count(held, 'file')} of {core.project} {core.version}"
        rule = "it accepts a file of the same name only with the same bytes"
        say(f"warning: {target.address} already has {what}: {rule}")


def find_holders(core: Unit, targets: Iterable[Target], say: Callable[[str], None]) -> Iterator[tuple[Target, int]]:
    """Yield the targets that have files of a version, and how many; report the targets that do not answer."""
    for target in targets:
        if held := _list_existing(core, target, say):
            yield target, len(held)


def _list_existing(core: Unit, target: Target, say: Callable[[str], None]) -> frozenset[str]:
    try:
        return target.holds(core)
    except FatwheelError as error:
        say(f"{target.address} could not be checked for {core.project} {core.version}: {error.message}")
        return frozenset()


def say_shared(unit: Unit, targets: Iterable[Target], say: Callable[[str], None]) -> None:
    """Say which files of a unit the newest wheel of another project in the same folder installs as well.

    Of a wheel only the directory is read. Manifests have no lists of members, so other kinds of index are not asked.
    """
    owned = {name: item.name for item in unit.items for name in _list_installed(item.path)}
    places = (place for target in targets for place in split_places(target.address) if is_local(place))
    for index in (Path(place.partition(":")[2]) for place in places):
        newest: dict[str, tuple[Version, Path]] = {}
        for path in sorted(index.rglob("*.whl")):
            with suppress(InvalidWheelFilename):
                project, version = parse_wheel_filename(path.name)[:2]
                newest[project] = max(newest.get(project, (version, path)), (version, path))
        newest.pop(canonicalize_name(unit.project), None)  # an upgrade replaces its own files
        for other, (_, path) in newest.items():
            if shared := sorted(_list_installed(path) & owned.keys()):
                both = f"{owned[shared[0]]} and {path.name} of {other} both install {', '.join(shared[:4])}"
                say(
                    f"warning: {both}: with both, one is lost, and removing either breaks both; see it: unzip -l {path}"
                )


def _list_installed(path: Path) -> frozenset[str]:
    """Return the files that a wheel puts into site-packages, but for its dist-info; none of any other file."""
    with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        names = (IN_DATA.sub("", name) for name in archive.namelist() if not name.endswith("/"))
        return frozenset(name for name in names if not NOT_INSTALLED.search(name))
    return frozenset()
