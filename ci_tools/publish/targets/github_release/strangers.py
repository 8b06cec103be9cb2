"""Wheels of others in releases, for an index: hashes as GitHub says, and METADATA by range requests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.utils import parse_wheel_filename

from ci_tools.catalog.index_folders import FOLDER
from ci_tools.errors import InputError, MachineError
from ci_tools.github.client import printable
from ci_tools.index.file_names import project_and_version
from ci_tools.index.foreign.files import MAX_METADATA, MAX_READ, is_metadata_of, requires_python_in
from ci_tools.index.of_releases import UnitListing
from ci_tools.index.pages import ROOT, IndexedFile
from ci_tools.machine.http.client import open_session
from ci_tools.machine.http.faults import NoParts, TooLarge
from ci_tools.machine.remote_wheel import remote_wheel
from ci_tools.machine.storage import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import requests
    from github.GitRelease import GitRelease
    from github.GitReleaseAsset import GitReleaseAsset

    from ci_tools.github.client import Hub

DIGEST = re.compile("sha256:([0-9a-f]{64})")
ACCELERATOR = re.compile(r"(?:^|\.)(cpu|xpu|cu[0-9]{3,4}|rocm[0-9]+\.[0-9]+)")
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
        msg = "GitHub has no sha256 of it"
        raise ValueError(msg)
    metadata = _read_metadata(session, hub, asset, digest[1])
    if not is_metadata_of(asset.name, metadata):
        msg = "the project and version of its METADATA are not those of its name, and installers refuse it"
        raise ValueError(msg)
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
                msg = f"it has {len(found)} METADATA, expected one of at most {MAX_METADATA:,} bytes"
                raise ValueError(msg)
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
