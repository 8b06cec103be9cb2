"""Publishes a folder of finished files to its targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ci_tools import catalog
from ci_tools.catalog.targets import is_local, kind_of, split_places
from ci_tools.errors import InputError
from ci_tools.formats import receipts
from ci_tools.formats.relabel import write_plain
from ci_tools.index.pages import VARIANTS
from ci_tools.index.units import Alias, Change, Item, Unit, Withheld, units_of
from ci_tools.index.variants import variants_of
from ci_tools.install.fatwheel_backend import LABEL
from ci_tools.machine.context import Outside
from ci_tools.machine.storage import fill_once, hold_lock, refuse_change, sha256_of
from ci_tools.model.request import STABLE, UNTAGGED, Edition, Route
from ci_tools.plan import plan_file
from ci_tools.publish import release_plan, transaction
from ci_tools.publish.smart import SMART, make_sdists_smart
from ci_tools.publish.targets import UPLOADERS, Target
from ci_tools.publish.targets.addresses import refuse_unwritable, refuse_wrong, targets_of
from ci_tools.publish.transaction import Shown

MAX_NAMED = 3  # jobs that a message names
HOW_UNTAGGED = (
    "release its tag, which `fetch-depth: 0` of actions/checkout fetches, or a nightly;"
    " `release: { untagged: true }` in the config does without tags"
)


class Destination(NamedTuple):
    """The targets of a folder's release, and the parts of it to publish."""

    addresses: tuple[str, ...] = ()  # empty: the plan's targets
    also: tuple[str, ...] = ()  # further targets
    only: str = ""  # one unit: core, or a platform
    without: frozenset[str] = frozenset()  # jobs left out on purpose; allowed for folders only
    released: bool = False  # refuse a commit without its tag, for any target
    distant: bool = False  # refuse a folder as a target
    unattested: bool = False  # state that the files are not attested
    replace: bool = False  # overwrite published files whose contents differ (own index only)
    uploader: str = UPLOADERS[0]  # for PyPI and similar indexes

    def list_distant(self) -> list[str]:
        """Return the places that are no folders."""
        return [place for address in self.addresses for place in split_places(address) if not is_local(place)]


class PublishedUnits(NamedTuple):
    """The published files, and the units that are withheld because they are incomplete."""

    shown: tuple[Shown, ...]
    withheld: tuple[Withheld, ...]


def publish(folder: Path, to: Destination, outside: Outside) -> PublishedUnits:
    """Publish the complete release units of a folder, each at every target or at none.

    Raises InputError if the folder holds no plan; if a part that has to be published is missing, not known to be good
    or different from its receipt; or if a target cannot accept it.
    """
    units, left, targets = _open_folder(folder, to, outside, folder)
    with hold_lock(folder / ".publishing", outside.reporter.say):  # two runs would write one journal
        shown = [
            one
            for unit in units
            for one in transaction.publish(unit, targets, _journals(folder, unit), outside.reporter)
        ]
    return PublishedUnits(tuple(shown), left)


def preview(
    folder: Path, to: Destination, outside: Outside
) -> tuple[tuple[tuple[str, str, Change], ...], tuple[Withheld, ...]]:
    """Return what publishing would change, for each unit at each target, and the units that would be withheld."""
    units, withheld, targets = _open_folder(folder, to, outside, outside.cache)
    found = ((unit, transaction.preview(unit, targets, _journals(folder, unit))) for unit in units)
    return tuple((unit.name, *change) for unit, changes in found for change in changes), withheld


def _journals(folder: Path, unit: Unit) -> Path:
    candidate = f"-rc{unit.edition.candidate}" if unit.edition.candidate else ""  # each is published by itself
    return folder / "journals" / f"{unit.project}-{unit.version}{candidate}"


def _open_folder(
    folder: Path, to: Destination, outside: Outside, extra: Path
) -> tuple[tuple[Unit, ...], tuple[Withheld, ...], tuple[Target, ...]]:
    """Return the units to publish, the incomplete ones, and the targets.

    Below `extra` is written what is made of finished files: the smart sdist, wheel variants, wheels under second names.
    """
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}, expected one that `fatwheel build` or `fatwheel release` wrote")
    refuse_wrong((*to.addresses, *to.also), distant=to.distant)  # a slip of the pen, before the files are looked at
    plan = release_plan.read(folder / plan_file.PLAN)
    to = to._replace(addresses=(*(to.addresses or plan.targets), *to.also))
    refuse_wrong(to.addresses, distant=to.distant)
    refuse_missing_tag(plan.edition, f"{plan.project} {plan.version}", to)
    plan = plan._replace(edition=folder_edition(plan.edition))
    files = (*folder.glob("*.whl"), *folder.glob("*.tar.gz"))
    found = {path.name: (path, receipts.load(path)) for path in sorted(files)}
    kept = tuple(made for made in plan.jobs if made.job not in to.without)  # else units would lack their files
    units, left = units_of(plan._replace(jobs=kept), found, to.only)
    targets = targets_at(to, outside)
    units = tuple(replace(unit, unattested=to.unattested) for unit in units)
    kinds, say = [*filter(None, map(kind_of, to.addresses))], outside.reporter.say
    if plan.variants and any(kind.is_index for kind in kinds):
        units = tuple(
            replace(unit, variants=variants_of(unit.items, extra / VARIANTS, catalog.load(unit.catalog), say))
            for unit in units
        )
    if plan.aliases and any(kind.takes_aliases for kind in kinds):
        units = tuple(replace(one, aliases=aliases_of(one.items, plan.aliases, extra / FOLDER, say)) for one in units)
    if plan.route is Route.SMART:
        units = make_sdists_smart(units, targets, extra / SMART, say)
    return units, left, targets


def refuse_missing_tag(edition: Edition, what: str, to: Destination) -> None:
    """Raise InputError if others would see a commit that has no tag; a folder may have it for inspection."""
    if edition != UNTAGGED:
        return
    distant = to.list_distant()
    if distant or to.released:
        taker = distant[0] if distant else "a workflow"
        msg = f"this is {what} of a commit without its tag, and {taker} does not accept it"
        raise InputError(msg, hint=HOW_UNTAGGED, page="how-to/publish-a-release.md#candidates-and-nightlies")


def folder_edition(edition: Edition) -> Edition:
    """Return the edition under which a user's own folder has this one: an untagged commit counts as stable there."""
    return STABLE if edition == UNTAGGED else edition


def targets_at(to: Destination, outside: Outside) -> tuple[Target, ...]:
    """Return the targets of a destination; raise InputError if it has none, or one that cannot accept the release."""
    if not to.addresses:
        msg = "no target is named, neither with --to nor in the config under `publish: targets`"
        raise InputError(msg, hint="--to dir:PATH makes a folder a package index")
    refuse_wrong(to.addresses, distant=False)
    if to.without and (distant := to.list_distant()):
        more = f" and {len(to.without) - MAX_NAMED} more jobs" if len(to.without) > MAX_NAMED else ""
        named = f"{', '.join(sorted(to.without)[:MAX_NAMED])}{more}"
        msg = f"{distant[0]} cannot take a release without {named}, only a folder can"
        raise InputError(msg, hint="--here is for trying a release on one machine: publish it with --to dir:PATH")
    targets = targets_of(to.addresses, outside, replace=to.replace, uploader=to.uploader)
    refuse_unwritable(targets)
    return targets


# ---------------------------------------------------------------- second names of wheels


FOLDER = ".aliases"  # of these copies, in a folder of finished files


def aliases_of(
    items: Iterable[Item], names: Mapping[str, str], folder: Path, say: Callable[[str], None]
) -> tuple[Alias, ...]:
    """Return the files of some wheels under their second names; each wheel is written once, below `folder`."""
    return tuple(alias for item in items for alias in _aliases(item, names, folder, say))


def _aliases(item: Item, names: Mapping[str, str], folder: Path, say: Callable[[str], None]) -> Iterator[Alias]:
    own = sorted(name for name, wheel in names.items() if wheel == item.name)
    if not own:
        return
    local = item.name.split("-")[1].partition("+")[2]

    def fill(empty: Path) -> None:
        refuse_change(item.path, item.sha256)  # the copy's hash is its own, so nobody checks it later
        write_plain(item.path, empty / item.name, {LABEL: local.encode()})

    path = fill_once(folder / item.sha256[:16], fill, say) / item.name
    sha256, size = sha256_of(path), path.stat().st_size
    yield from (Alias(name, path, sha256, size) for name in own)
