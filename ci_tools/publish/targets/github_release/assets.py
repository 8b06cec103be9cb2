"""The files of a release unit as the assets of a GitHub Release."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from github.GithubException import UnknownObjectException

from ci_tools.errors import InputError, MachineError, Problem, Rejected, RejectedInput
from ci_tools.github.client import Hub, printable
from ci_tools.index import of_releases
from ci_tools.index.arrivals import metadata_of
from ci_tools.index.foreign.files import METADATA_SUFFIX
from ci_tools.index.of_releases import WheelMetadata, listing, listing_name
from ci_tools.index.units import Alias, Item, Unit
from ci_tools.machine.storage import CHUNK
from ci_tools.model.names import COMMIT, is_tag

if TYPE_CHECKING:
    from github.GitRelease import GitRelease
    from github.GitReleaseAsset import GitReleaseAsset


MAX_ASSETS = 1000  # of a release (GitHub: about releases, storage quotas)


class Sent(NamedTuple):
    """One file that becomes an asset: the bytes in `content`, or if that is None, the file at `path`."""

    name: str
    sha256: str
    size: int
    path: Path | None
    content: bytes | None = None

    @property
    def is_list(self) -> bool:
        """Whether it is the list of the unit's files."""
        return self.content is not None and not self.name.endswith(METADATA_SUFFIX)


@functools.lru_cache(maxsize=8)  # every step needs them, and each wheel is opened for its METADATA
def assets_of(unit: Unit) -> tuple[Sent, ...]:
    """Return every file of the unit's release: its items, their METADATA (PEP 658), and the list of them.

    Second names of wheels have neither: their METADATA is not of their version, so they are for no index.
    """
    facts = {item.name: _facts_of(item) for item in unit.items}
    items = [Sent(item.name, item.sha256, item.size, item.path) for item in unit.items]
    beside = [
        _make_asset(f"{name}{METADATA_SUFFIX}", known.metadata) for name, known in facts.items() if known.metadata
    ]
    aliases = [Sent(alias.name, alias.sha256, alias.size, alias.path) for alias in unit.aliases]
    return (*items, *aliases, *beside, _make_asset(listing_name(unit.name), listing(unit, facts)))


def _make_asset(name: str, content: bytes) -> Sent:
    return Sent(name, hashlib.sha256(content).hexdigest(), len(content), None, content)


def _facts_of(item: Item) -> WheelMetadata:
    """Return the metadata of a wheel; that of an sdist is not reliable for installers."""
    if item.path.suffix != ".whl":
        return WheelMetadata()
    metadata, requires = metadata_of(item.path)
    return WheelMetadata(requires, metadata)


def select_assets(unit: Unit, there: Collection[str]) -> tuple[Sent, ...]:
    """Return the files for the unit's release, without METADATA if the release would have too many assets."""
    files = assets_of(unit)
    others = set(there) - {sent.name for sent in files}
    if len(others) + len(files) <= MAX_ASSETS:
        return files
    return tuple(sent for sent in files if not sent.name.endswith(METADATA_SUFFIX))


def read_assets(hub: Hub, release: GitRelease) -> dict[str, GitReleaseAsset]:
    """Return a release's assets by name; raise MachineError if the release no longer exists."""
    return {asset.name: asset for asset in hub.ask(lambda _: _list_assets(release))}


def _list_assets(release: GitRelease) -> list[GitReleaseAsset]:
    try:
        return list(release.get_assets())
    except UnknownObjectException as error:
        msg = f"the release of {printable(release.tag_name)} was deleted in the meantime"
        raise MachineError(msg, hint="run the same command again") from error


def list_uploaded(assets: Mapping[str, GitReleaseAsset]) -> dict[str, GitReleaseAsset]:
    """Return the assets that are complete: GitHub lists one as `starter` while it is uploaded."""
    return {name: asset for name, asset in assets.items() if asset.state == "uploaded"}


def is_whole(asset: GitReleaseAsset | None, sent: Sent) -> bool:
    """Whether an asset holds the file, by GitHub's digest or else by its size; `verify` reads one without a digest."""
    if asset is None or asset.state != "uploaded":
        return False
    return asset.digest == f"sha256:{sent.sha256}" if asset.digest else asset.size == sent.size  # older ones have none


def download_asset(asset: GitReleaseAsset) -> Iterator[bytes]:
    """Yield an asset's bytes."""
    yield from asset.download_asset(chunk_size=CHUNK)[2]


def read_list(hub: Hub, asset: GitReleaseAsset) -> bytes:
    """Return the bytes of a list of files; raise ValueError if it is larger than any that Fatwheel writes."""
    if asset.size > of_releases.MAX_BYTES:
        raise ValueError(f"it has {asset.size:,} bytes, expected at most {of_releases.MAX_BYTES:,}")
    return hub.ask(lambda _: b"".join(download_asset(asset)))


def hash_asset(asset: GitReleaseAsset) -> str:
    """Return the sha256 of an asset, which is downloaded for it."""
    digest = hashlib.sha256()
    for chunk in download_asset(asset):
        digest.update(chunk)
    return digest.hexdigest()


def verify_assets(hub: Hub, release: GitRelease, unit: Unit, *, whole: bool) -> None:
    """Compare the hash of every asset; raise Rejected if one differs, or with `whole`, if one is missing."""
    there = read_assets(hub, release)
    sent = select_assets(unit, there)
    differences = [find_difference(hub, there.get(one.name), one, whole=whole) for one in sent]
    problems = list(filter(None, differences))
    if problems:
        msg = f"{unit.tag} of {hub.repository} differs from the files that were uploaded:\n" + "\n".join(problems)
        raise Rejected(msg, hint="the same command uploads those files again, unless they are published already")


def find_difference(hub: Hub, asset: GitReleaseAsset | None, sent: Sent, *, whole: bool) -> str:
    """Return how an asset differs from its file, or ""; with `whole`, a missing asset is a difference."""
    if asset is None or asset.state != "uploaded":
        return f"{sent.name} is {'missing' if asset is None else 'incomplete'}" if whole else ""
    digest = asset.digest or f"sha256:{hub.ask(lambda _: hash_asset(asset))}"  # then it is downloaded
    found = printable(digest.removeprefix("sha256:"))
    if found != sent.sha256 and sent.is_list:
        content = hub.ask(lambda _: b"".join(download_asset(asset)))
        found = sent.sha256 if of_releases.names_the_same(content, sent.content or b"") else found
    return "" if found == sent.sha256 else f"{sent.name} has sha256 {found[:12]}…, expected {sent.sha256[:12]}…"


# ---------------------------------------------------------------- GitHub's limits


MAX_BYTES = 2 << 30  # an asset must be smaller
KEPT_NAME = re.compile(r"[A-Za-z0-9_-]([A-Za-z0-9_.+@-]*[A-Za-z0-9_+@-])?")  # GitHub replaces other characters by dots


def refuse_by_rules(unit: Unit) -> None:
    """Raise RejectedInput with every violation of GitHub's rules."""
    files: tuple[Item | Alias, ...] = (*unit.items, *unit.aliases)
    problems = [*_problems_of_tag(unit.tag), *(problem for file in files for problem in _problems_of(file))]
    if len(files) >= MAX_ASSETS:
        what = f"{len(files):,} files and their list, GitHub accepts {MAX_ASSETS:,} in a release"
        problems.append(Problem(unit.tag, what))
    if problems:
        raise RejectedInput(problems, hint="publish these files to an index of your own, such as s3://BUCKET/whl")


def _problems_of_tag(tag: str) -> Iterator[Problem]:
    if not tag:
        yield Problem("", "the plan names no tag for the release, expected one such as v1.0")
    elif not is_tag(tag) or COMMIT.fullmatch(tag):
        yield Problem("", f'"{printable(tag)}" is not a tag that git accepts, expected one such as v1.0')


def _problems_of(item: Item | Alias) -> Iterator[Problem]:
    if item.size >= MAX_BYTES:
        yield Problem(printable(item.name), f"{item.size:,} bytes, GitHub accepts files of less than {MAX_BYTES:,}")
    if item.size == 0:
        yield Problem(printable(item.name), "it is empty, and GitHub accepts no empty files")
    if not KEPT_NAME.fullmatch(item.name):
        yield Problem(printable(item.name), "GitHub would rename it, and installers do not accept the new name")


def refuse_more(unit: Unit, published: GitRelease, there: Collection[str], lacking: Sequence[Sent]) -> None:
    """Raise InputError if a published release cannot take the missing files."""
    if lacking and published.immutable:
        msg = f"{unit.tag} is an immutable release, and it lacks {lacking[0].name}"
        hint = "raise the version, with this platform among the required ones, or turn immutable releases off before it"
        raise InputError(msg, hint=hint)
    if len(there) + len(lacking) > MAX_ASSETS:
        msg = f"{unit.tag} would have {len(there) + len(lacking):,} files, GitHub accepts {MAX_ASSETS:,} in a release"
        raise InputError(msg)
