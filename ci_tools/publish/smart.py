"""The smart sdist of a release: made last, from the finished wheels and the addresses where they will be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ci_tools import catalog as catalogs
from ci_tools.catalog import SourceSeconds
from ci_tools.errors import InputError
from ci_tools.formats.path_patterns import matcher_of
from ci_tools.index.units import Item, JobEntry, Unit
from ci_tools.index.wheel_facts import WheelMachines, add_facts, lowest_torch
from ci_tools.install.fatwheel_backend import is_secure
from ci_tools.install.lock import Compiling, LockedWheel, write_lock
from ci_tools.install.smart_sdist import is_smart, list_files, make_smart
from ci_tools.machine.storage import sha256_of, write_atomically
from ci_tools.model.names import FileName, Sha256
from ci_tools.model.request import CatalogRow, Route
from ci_tools.publish.targets import Target
from ci_tools.publish.targets.reach import refuse_private
from ci_tools.source.includes import COMPILED

DEVICE = (".cu", ".hip", ".sycl")  # the endings of sources that are compiled for each architecture
SMART = ".smart"  # the folder of smart sdists, in a folder of finished files


def refuse_unreachable(core: Unit, targets: Sequence[Target], say: Callable[[str], None]) -> None:
    """Raise InputError if no target gives the wheels of a smart release an address, or one that is known to be private.

    It is for a release that is not built yet.
    """
    if core.route is Route.SMART:
        sdist = Item(Path(f"{core.project}-{core.version}.tar.gz"), "", 0, None)
        _addresses(core, sdist, targets, say)
        refuse_private(replace(core, drafts=(sdist,)), targets, say)


def make_sdists_smart(
    units: Sequence[Unit], targets: Sequence[Target], folder: Path, say: Callable[[str], None]
) -> tuple[Unit, ...]:
    """Return the units with smart sdists, written to `folder`, in place of their sdists.

    A smart sdist lists the wheels of all these units, with their addresses at the targets. Raises InputError if no
    target gives a wheel an address that users can reach, Rejected if an sdist cannot be made smart.
    """
    wheels = [(unit, item) for unit in units for item in unit.items if item.made]
    sdist = next((item.path for unit in units for item in unit.items if not item.made), None)
    files = list_files(sdist) if sdist else ()
    locked = tuple(_lock(item, _addresses(unit, item, targets, say), unit.catalog, files) for unit, item in wheels)
    return tuple(
        replace(unit, items=tuple(_make_smart(item, unit, locked, folder) for item in unit.items)) for unit in units
    )


def _make_smart(item: Item, unit: Unit, locked: Sequence[LockedWheel], folder: Path) -> Item:
    if item.made or is_smart(item.path):  # an earlier run has made it so
        return item
    path = folder / item.name
    with write_atomically(path) as sink:
        name = FileName(item.name)
        make_smart(item.path, sink, lambda system: write_lock(unit.project, unit.version, name, system, locked))
    return item._replace(path=path, sha256=sha256_of(path), size=path.stat().st_size)


def _lock(item: Item, urls: tuple[str, ...], rows: tuple[CatalogRow, ...], files: Iterable[str]) -> LockedWheel:
    if item.made is None:
        raise ValueError(item)
    made, catalog = item.made, catalogs.load(rows)
    wheel = LockedWheel(
        file=FileName(item.name),
        urls=urls,
        sha256=Sha256(item.sha256),
        size=item.size,
        archs=made.archs,
        env=dict(made.env),
        compiling=estimate(made, files, catalog.source_seconds),
    )
    built = WheelMachines(made.accelerator, made.platform, (item.folder, *item.also), lowest_torch(made.covers))
    return add_facts(wheel, built, catalog)


def estimate(made: JobEntry, files: Iterable[str], rate: SourceSeconds) -> Compiling | None:
    """Return the work to compile a wheel from the files of an sdist; None if none of them is compiled for it.

    It is an estimate from the files, not the time of a build, so that each release of the same source says the same.
    A config's patterns name files below the source root, and an sdist may have them below the project's folder.
    """
    is_native, is_excluded = matcher_of(made.native.include), matcher_of(made.native.exclude)
    spelled = [(name, f"{made.subdirectory}/{name}".lstrip("/")) for name in files if COMPILED.search(name)]
    sources = [name for name, whole in spelled if any(is_native(one) and not is_excluded(one) for one in (name, whole))]
    device = sum(name.endswith(DEVICE) for name in sources)
    seconds = rate.estimate(len(sources) - device, device, max(len(made.archs), 1))
    return Compiling(len(sources), seconds) if sources else None


def _addresses(unit: Unit, item: Item, targets: Sequence[Target], say: Callable[[str], None]) -> tuple[str, ...]:
    """Return the addresses of a file at the targets, none of this machine if it is published to another.

    A smart sdist whose addresses are all of this machine is reported: nobody else can install by it.
    """
    found = [one for target in targets if (one := target.locate(item, unit)) and is_secure(one)]
    public = [address for address in found if not address.startswith("file:")]  # no other machine has a file: address
    if not found or (not public and any(target.stages is False for target in targets)):
        msg = f"no target gives {item.name} an https address that users of the smart sdist can reach"
        hint = (
            "name a place beside PyPI, under `publish: targets`, with --to, or as the workflow's input `to`: "
            "github:OWNER/REPO or s3://BUCKET/PREFIX?public=https://…"
        )
        raise InputError(msg, hint=hint, page="how-to/install-from-pypi.md#release-it")
    if not public:
        what = f"the smart sdist of {unit.project} {unit.version} looks for its wheels in a folder of this machine"
        say(f"warning: {what}, so it installs them here only: `--to` a place that others reach makes one for them")
    return tuple(public or found)
