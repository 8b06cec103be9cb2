"""The lists of files in the releases of a repository, for an index over its releases."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.utils import parse_wheel_filename

from ci_tools.catalog.accelerators import FOLDER
from ci_tools.errors import InputError, MachineError
from ci_tools.github.attested import find_provenances, find_remake
from ci_tools.github.client import Hub, printable
from ci_tools.index.file_names import project_and_version
from ci_tools.index.foreign.files import MAX_METADATA, MAX_READ, METADATA_SUFFIX, is_metadata_of, requires_python_in
from ci_tools.index.of_releases import UnitListing, read_listing
from ci_tools.index.pages import ROOT, IndexedFile
from ci_tools.machine.http.client import open_session
from ci_tools.machine.http.faults import NoParts, TooLarge
from ci_tools.machine.remote_wheel import remote_wheel
from ci_tools.machine.storage import write_atomically
from ci_tools.model.edition import candidate_of
from ci_tools.model.request import Channel
from ci_tools.model.versions import parse_version
from ci_tools.publish.targets import notice
from ci_tools.publish.targets.github_release.assets import hash_asset, list_uploaded, read_assets, read_list

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    import requests
    from github.GitRelease import GitRelease
    from github.GitReleaseAsset import GitReleaseAsset

    from ci_tools.github.attested import SignedProvenance


LIST = re.compile(r"fatwheel-[A-Za-z0-9-]+\.json")


def read_listings(hub: Hub, *, others: bool = False) -> tuple[tuple[str, UnitListing], ...]:
    """Return the lists of a repository's published releases, each with its channel of an index, newest first.

    Their files stay on GitHub, and those of a retracted release are yanked. A file that was deleted from its release is
    left out. Each says its repository, and each wheel whether it is attested there. With `others`, a wheel that no list
    names has one of its own. Raises MachineError if a list is damaged.
    """
    with hub.opened(anonymous=True) as repository:
        releases = hub.ask(lambda _: list(repository.get_releases()))
        public = [release for release in releases if not release.draft]  # a token that may write sees drafts too
        found = [one for release in public for one in _read_listings(hub, release, others=others)]
        wheels = {file.sha256 for _, one in found for file in one.files if file.name.endswith(".whl")}
        attested = find_provenances(hub, repository, wheels)
    return tuple((channel, _say_whose(one, hub.repository, wheels, attested)) for channel, one in found)


def _say_whose(
    one: UnitListing,
    repository: str,
    asked: Collection[str],
    attested: Mapping[str, tuple[SignedProvenance, ...]] | None,
) -> UnitListing:
    """Return a list with the repository of each file, whether GitHub keeps a provenance of it, and who remade it."""

    def said(sha256: str) -> str:
        return "" if attested is None or sha256 not in asked else "yes" if sha256 in attested else "no"

    def describe(file: IndexedFile) -> IndexedFile:
        remade = find_remake((attested or {}).get(file.sha256, ()))
        return file._replace(repository=repository, attested=said(file.sha256), remade=remade)

    return one._replace(files=tuple(map(describe, one.files)))


def _read_listings(hub: Hub, release: GitRelease, *, others: bool) -> Iterator[tuple[str, UnitListing]]:
    """Yield a release's lists, each with its channel, and report the wheels that no list names, or list them, too."""
    if not others and not any(asset.name.startswith("fatwheel-") for asset in release.assets):
        return
    there = list_uploaded(read_assets(hub, release))
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
        return read_listing(read_list(hub, asset), release.published_at.strftime("%Y-%m-%dT%H:%M:%SZ"))
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


# ---------------------------------------------------------------- wheels that no list names


DIGEST = re.compile("sha256:([0-9a-f]{64})")
ACCELERATOR = re.compile(r"(?:^|\.)(cpu|xpu|cu[0-9]{3,4}|rocm[0-9]+\.[0-9]+)")  # a part of a local version: 2.10.cu130
MEMBER = re.compile(r"[^/]+\.dist-info/METADATA")
FREE_THREADED = re.compile(r"cp[0-9]+t")
TORCH = re.compile(r"torch([0-9]+\.[0-9]+)")


def read_strangers(hub: Hub, release: GitRelease, assets: Mapping[str, GitReleaseAsset]) -> Iterator[UnitListing]:
    """Yield a list for each wheel of a release; report those that no index should have, with the reason.

    Raises MachineError if a wheel cannot be reached.
    """
    with open_session() as session:
        for name, asset in sorted(assets.items()):
            try:
                file = _describe(session, hub, asset, release)
            except ValueError as error:
                reason = printable(str(error))
                hub.outside.reporter.say(f"left out: {printable(name)} of {printable(release.tag_name)}: {reason}")
                continue
            project, version = project_and_version(name)
            yield UnitListing(project, version.public, (file,), ())


def _describe(session: requests.Session, hub: Hub, asset: GitReleaseAsset, release: GitRelease) -> IndexedFile:
    """Return a wheel as an index has it; raise ValueError if its name is wrong, or its METADATA, or it has no hash."""
    local = project_and_version(asset.name)[1].local or ""
    wrong = next((tag for tag in parse_wheel_filename(asset.name)[3] if FREE_THREADED.fullmatch(tag.interpreter)), None)
    if wrong:  # PEP 703 puts the t into the tag of the ABI
        msg = f"no Python has the tag {wrong.interpreter}, expected {wrong.interpreter[:-1]}-{wrong.interpreter}"
        raise ValueError(msg)
    digest = DIGEST.fullmatch(asset.digest or "")
    if digest is None:
        raise ValueError("GitHub has no sha256 of it")
    metadata = _read_metadata(session, hub, asset, digest[1])
    if not is_metadata_of(asset.name, metadata):
        raise ValueError("the project and version of its METADATA are not those of its name, and installers refuse it")
    return IndexedFile(
        name=asset.name,
        folder=_folder(local),
        sha256=digest[1],
        size=asset.size,
        uploaded=release.published_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        requires_python=requires_python_in(metadata),
        at=asset.browser_download_url,
        origin="added",
    )


def _folder(local: str) -> str:
    """Return the folder of an index for a local version: cu130torch2.10 for cu130sm89torch2.10.0; or the root."""
    kind, torch = ACCELERATOR.search(local), TORCH.search(local)
    folder = f"{kind[1]}{torch[0] if torch else ''}" if kind else ROOT
    return folder if FOLDER.fullmatch(folder) else ROOT


def _read_metadata(session: requests.Session, hub: Hub, asset: GitReleaseAsset, sha256: str) -> bytes:
    """Return a wheel's METADATA; it is kept, so that an index that is written every hour reads each wheel once."""
    kept = hub.outside.cache / "release-metadata" / sha256
    if kept.is_file():
        return kept.read_bytes()
    try:
        with remote_wheel(session, asset.browser_download_url, MAX_READ) as wheel:
            found = [one for one in wheel.archive.infolist() if MEMBER.fullmatch(one.filename)]
            if len(found) != 1 or found[0].file_size > MAX_METADATA:
                raise ValueError(f"it has {len(found)} METADATA, expected one of at most {MAX_METADATA:,} bytes")
            content = wheel.read(found[0])
    except (InputError, NoParts, TooLarge) as error:
        raise ValueError(str(error)) from error
    except OSError as error:
        msg = f"{printable(asset.browser_download_url)} cannot be read: {printable(str(error))}"
        raise MachineError(msg, hint="the same command goes on where this one stopped") from error
    kept.parent.mkdir(parents=True, exist_ok=True)
    with write_atomically(kept) as file:
        file.write(content)
    return content
