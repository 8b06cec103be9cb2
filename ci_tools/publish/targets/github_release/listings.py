"""The lists of files in the releases of a repository, for an index over its releases."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_tools.errors import MachineError
from ci_tools.github.attested import find_attested
from ci_tools.github.client import printable
from ci_tools.index import of_releases
from ci_tools.index.file_names import project_and_version
from ci_tools.index.foreign.files import METADATA_SUFFIX
from ci_tools.index.of_releases import read_listing
from ci_tools.model.edition import candidate_of
from ci_tools.model.pep440 import parse_version
from ci_tools.model.request import Channel
from ci_tools.publish.targets import notice
from ci_tools.publish.targets.github_release.assets import download_asset, hash_asset, read_assets
from ci_tools.publish.targets.github_release.strangers import read_strangers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from github.GitRelease import GitRelease
    from github.GitReleaseAsset import GitReleaseAsset

    from ci_tools.github.client import Hub
    from ci_tools.index.of_releases import UnitListing
    from ci_tools.index.pages import IndexedFile

LIST = re.compile(r"fatwheel-[A-Za-z0-9-]+\.json")


def read_listings(hub: Hub, *, others: bool = False) -> tuple[tuple[str, UnitListing], ...]:
    """Return the lists of a repository's published releases, each with its channel of an index, newest first.

    Their files stay on GitHub, and those of a retracted release are yanked. A file that was deleted from its release is
    left out. Each says its repository, and each wheel whether it is attested there. With `others`, a wheel that no list
    names has one of its own. Raises MachineError if a list is damaged.
    """
    with hub.opened(anonymous=True) as repository:
        releases = hub.ask(lambda _: list(repository.get_releases()))
        public = [release for release in releases if not release.draft]
        found = [one for release in public for one in _read_listings(hub, release, others=others)]
        wheels = {file.sha256 for _, one in found for file in one.files if file.name.endswith(".whl")}
        attested = find_attested(hub, repository, wheels)
    return tuple((channel, _say_whose(one, hub.repository, wheels, attested)) for channel, one in found)


def _say_whose(
    one: UnitListing, repository: str, asked: Collection[str], attested: Collection[str] | None
) -> UnitListing:
    """Return a list with the repository of each file, and whether GitHub keeps a provenance of it."""

    def said(sha256: str) -> str:
        return "" if attested is None or sha256 not in asked else "yes" if sha256 in attested else "no"

    return one._replace(
        files=tuple(file._replace(repository=repository, attested=said(file.sha256)) for file in one.files)
    )


def _read_listings(hub: Hub, release: GitRelease, *, others: bool) -> Iterator[tuple[str, UnitListing]]:
    """Yield a release's lists, each with its channel, and report the wheels that no list names, or list them, too."""
    if not others and not any(asset.name.startswith("fatwheel-") for asset in release.assets):
        return
    there = {name: asset for name, asset in read_assets(hub, release).items() if asset.state == "uploaded"}
    listings = [_read_listing(hub, release, there[name]) for name in sorted(filter(LIST.fullmatch, there))]
    named = {name for one in listings for name in (*one.aliases, *(file.name for file in one.files))}
    strangers = {name: asset for name, asset in there.items() if name.endswith(".whl") and name not in named}
    if strangers and not others:
        what = f"{len(strangers)} wheels of {printable(release.tag_name)} that no fatwheel-*.json lists"
        hub.outside.reporter.say(f"left out: {what}, such as {min(strangers)}")
    retracted = notice.notice_of(release.body or "")
    for one in listings:
        files = (_link_file(hub, file, there, release) for file in one.files if file.name in there)
        shown = tuple(file._replace(yanked=retracted.reason) if retracted else file for file in files)
        yield _channel_of(release, one), one._replace(files=shown)
    for one in read_strangers(hub, release, strangers) if others else ():
        yield f"{Channel.TEST}/" if release.prerelease else _channel_of(release, one), one


def _read_listing(hub: Hub, release: GitRelease, asset: GitReleaseAsset) -> UnitListing:
    """Return the content of a list; raise MachineError if it is damaged."""
    try:
        if asset.size > of_releases.MAX_BYTES:
            msg = f"it has {asset.size:,} bytes, expected at most {of_releases.MAX_BYTES:,}"
            raise ValueError(msg)  # noqa: TRY301 - every defect gives the same error
        content = hub.ask(lambda _: b"".join(download_asset(asset)))
        return read_listing(content, release.published_at.strftime("%Y-%m-%dT%H:%M:%SZ"))
    except ValueError as error:
        where = f"{asset.name} of {printable(release.tag_name)} in {hub.repository}"
        msg = f"{where} is damaged: {printable(str(error))}"
        raise MachineError(msg, hint="delete it there, and publish that version again") from error


def _link_file(hub: Hub, file: IndexedFile, there: Mapping[str, GitReleaseAsset], release: GitRelease) -> IndexedFile:
    """Return a file with its address; with METADATA only if exactly its bytes are in the release too."""
    beside = there.get(f"{file.name}{METADATA_SUFFIX}")
    digest = "" if beside is None else beside.digest or f"sha256:{hub.ask(lambda _: hash_asset(beside))}"
    return file._replace(
        at=there[file.name].browser_download_url,
        candidate=candidate_of(release.tag_name, project_and_version(file.name)[1]),
        metadata_sha256=file.metadata_sha256 if digest == f"sha256:{file.metadata_sha256}" else "",
    )


def _channel_of(release: GitRelease, listing: UnitListing) -> str:
    """Return a release's folder in an index; by its version, since its flags may have been changed."""
    version = parse_version(listing.version)
    if version.is_devrelease:
        return f"{Channel.NIGHTLY}/"
    return f"{Channel.TEST}/" if candidate_of(release.tag_name, version) else ""
