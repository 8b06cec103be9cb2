"""Reads the wheels that a project has published on the user's package index, for `plan --published`.

Of each wheel come its METADATA, from the index if that has it (PEP 658), and the directory of the zip file, by a
request for its end. From a server that sends no parts of files, wheels come whole within a limit, and a message says
so. Only if finished wheels are compared come extension modules as well. Nothing is installed or executed.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from email.parser import HeaderParser
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from packaging.utils import parse_wheel_filename
from pypi_simple import NoMetadataError, NoSuchProjectError

from ci_tools.errors import InputError, Rejected
from ci_tools.formats.wheel import Wheel
from ci_tools.machine.package_index import TIMEOUT, listing_of, users_index
from ci_tools.machine.remote_wheel import NoParts, TooLarge, remote_wheel, whole_wheel
from ci_tools.model.names import FileName
from ci_tools.model.pep440 import parse_version
from ci_tools.model.published import Inside, PublishedWheel
from ci_tools.plan.compare.contents import Kind, sort_members
from ci_tools.plan.compare.finished import read_finished, read_members, read_symbols
from ci_tools.plan.compare.published import compare_published

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version
    from pypi_simple import DistributionPackage

    from ci_tools.machine.context import Outside, Step
    from ci_tools.machine.package_index import Listing
    from ci_tools.model.published import Release, Symbols
    from ci_tools.plan.compare.published import Beside
    from ci_tools.plan.make import Planned

    Packages = Mapping[str, DistributionPackage]

__all__ = ["compare_with_published"]

AT_ONCE = 8  # wheels that are read at the same time
MOST_OF_A_WHEEL = 64 << 20  # bytes read of a wheel for its directory and METADATA
MOST_WHOLE = 256 << 20  # bytes of all wheels from servers that send no parts
MOST_LIBRARIES = 512 << 20  # bytes, as compressed, of the extension modules of all published wheels
NO_OTHER = "and none of any other version"
SHOWN = 10  # versions that a message names
UNSENT = "its server sends no parts of files, and the wheels have too many bytes to be fetched whole"
UNCOMPARED = "the symbols of its extension modules are not compared: they have too many bytes"
Value = TypeVar("Value")


def compare_with_published(planned: Planned, release: Release, dist: Path | None, outside: Outside) -> Beside:
    """Return a plan beside a release on the user's package index; with `dist`, by the finished wheels in that folder.

    Raises InputError if the index has no such project or no wheel of that version, or `dist` no wheel of the plan;
    MachineError if the index does not answer.
    """
    plan, catalog = planned.plan, planned.catalog
    finished, notes = read_finished(dist, plan) if dist else ({}, ())
    with _name_project(plan.project.name), listing_of(release.project, users_index(outside.environ)) as listing:
        packages = _select_wheels(listing.files, release)
        with outside.reporter.step(f"{release} on the package index") as step:
            reader = _Reader(listing, step)
            wheels = reader.read_wheels(packages)
            if finished:
                found = compare_published(plan, catalog, release, wheels, finished)
                wheels = reader.read_libraries(packages, wheels, dict(_choose_libraries(found, finished)))
            step.result(f"{len(wheels)} wheel{'' if len(wheels) == 1 else 's'}, {reader.fetched:,} bytes read")
    if reader.whole:
        outside.reporter.say(
            f"the server sends no parts of files, these were fetched whole: {', '.join(sorted(reader.whole))}"
        )
    return compare_published(plan, catalog, release, wheels, finished, notes)


@contextmanager
def _name_project(name: str) -> Iterator[None]:
    """Add the name of the plan's project to the error of one that the index does not have."""
    try:
        yield
    except InputError as error:
        if not isinstance(error.__cause__, NoSuchProjectError):
            raise
        hint = f'the config names "{name}"; the index is that of pip, which PIP_INDEX_URL sets'
        raise InputError(error.message, hint=hint) from error


def _select_wheels(files: Iterable[DistributionPackage], release: Release) -> Packages:
    """Return the wheels of a release by name; raise InputError if there is none, with the versions that have some."""
    named = [(file, version) for file in files if (version := _read_version(file, release.project))]
    wanted = release.version
    found = {file.filename: file for file, version in named if wanted in {version, _without_local(version)}}
    if found:
        return found
    others = f"there are wheels of {', '.join(known)}" if (known := _list_versions(named, wanted)) else NO_OTHER
    sdists = [file.filename for file in files if file.package_type == "sdist" and file.version == str(wanted)]
    msg = f"the package index has no wheel of {release}{f', only {sdists[0]}' if sdists else ''}, {others}"
    raise InputError(msg)


def _list_versions(named: Iterable[tuple[DistributionPackage, Version]], wanted: Version) -> list[str]:
    """Return the versions that have wheels: with the local part of those of the wanted version, or else the newest."""
    versions = {version for _, version in named}
    if same := sorted(version for version in versions if wanted.local and version.public == wanted.public):
        return list(map(str, same))
    public = sorted(set(map(_without_local, versions)))
    final = [version for version in public if not version.is_prerelease]
    return [str(version) for version in (final or public)[-SHOWN:]]


def _read_version(file: DistributionPackage, project: NormalizedName) -> Version | None:
    """Return the version of a wheel of a project; None for any other file."""
    try:
        name, version, _, _ = parse_wheel_filename(file.filename)
    except ValueError:
        return None
    return version if name == project else None


def _without_local(version: Version) -> Version:
    return parse_version(version.public)


# ---------------------------------------------------------------- the wheels


@dataclass(frozen=True)
class _Look(Generic[Value]):
    """The value that was read of a wheel, or the reason why it was not."""

    value: Value | None
    reason: str = ""
    fetched: int = 0  # bytes
    needs_whole: bool = False  # whether its server sends no parts of it


class _Reader:
    """Reads wheels of one index, several at the same time."""

    def __init__(self, listing: Listing, step: Step) -> None:
        self.client, self.step = listing.client, step
        self.fetched = 0  # bytes
        self.whole: set[str] = set()  # wheels that were fetched as a whole

    def read_wheels(self, packages: Packages) -> tuple[PublishedWheel, ...]:
        """Return the facts of each wheel, as far as they can be read."""
        texts = self._run(self._fetch_metadata, packages.values())
        read = [partial(_read_wheel, package, text) for package, text in zip(packages.values(), texts, strict=True)]
        looks = self._look([*packages.values()], read, MOST_OF_A_WHEEL)
        return tuple(
            _describe_wheel(package, text)._replace(unread=look.reason) if look.value is None else look.value
            for package, text, look in zip(packages.values(), texts, looks, strict=True)
        )

    def read_libraries(
        self, packages: Packages, wheels: Sequence[PublishedWheel], wanted: Mapping[str, Collection[str]]
    ) -> tuple[PublishedWheel, ...]:
        """Return the wheels with the symbols of the members that `wanted` names for each."""
        chosen, left = {}, MOST_LIBRARIES
        for wheel in wheels:
            size = sum(wheel.inside.members[name] for name in wanted.get(wheel.file, ())) if wheel.inside else 0
            if wanted.get(wheel.file) and size <= left:
                chosen[wheel.file] = packages[wheel.file]
                left -= size
        read = [partial(_read_libraries, names=wanted[name]) for name in chosen]
        looks = dict(zip(chosen, self._look([*chosen.values()], read, MOST_LIBRARIES), strict=True))
        return tuple(
            _add_symbols(wheel, looks.get(wheel.file, _Look(None, UNCOMPARED))) if wheel.file in wanted else wheel
            for wheel in wheels
        )

    def _fetch_metadata(self, package: DistributionPackage) -> str | None:
        """Return a wheel's METADATA as the index has it, verified by its hash; None if the index has none."""
        if not package.has_metadata:
            return None
        try:
            verify = bool(package.metadata_digests)
            return self.client.get_package_metadata(package, verify=verify, timeout=TIMEOUT)
        except NoMetadataError:
            return None

    def _look(
        self, packages: Sequence[DistributionPackage], read: Sequence[Callable[[Wheel], Value]], most: int
    ) -> list[_Look[Value]]:
        """Return what `read` returns for each wheel, opened by parts; those without parts come whole, in order."""
        looks = self._run(partial(self._look_into_parts, most), packages, read)
        left = MOST_WHOLE
        for number, (package, look) in enumerate(zip(packages, looks, strict=True)):
            if look.needs_whole:
                looks[number] = self._look_into_whole(left, package, read[number])
                left -= looks[number].fetched
        return looks

    def _look_into_parts(self, most: int, package: DistributionPackage, read: Callable[[Wheel], Value]) -> _Look[Value]:
        try:
            with _uncover_network_errors(), remote_wheel(self.client.s, package.url, most) as remote:
                value = read(Wheel(Path(package.filename), remote.archive))
                return _Look(value, fetched=remote.file.fetched)
        except NoParts:
            return _Look(None, needs_whole=True)
        except (InputError, Rejected, TooLarge) as error:
            return _Look(None, f"it is not compared in detail: {error}")

    def _look_into_whole(self, left: int, package: DistributionPackage, read: Callable[[Wheel], Value]) -> _Look[Value]:
        try:
            with _uncover_network_errors(), whole_wheel(self.client.s, package.url, left) as (archive, size):
                self.whole.add(package.filename)
                self.fetched += size
                return _Look(read(Wheel(Path(package.filename), archive)), fetched=size)
        except TooLarge:
            return _Look(None, UNSENT)
        except (InputError, Rejected) as error:
            return _Look(None, f"it is not compared in detail: {error}")

    def _run(self, function: Callable[..., Value], *arguments: Iterable[object]) -> list[Value]:
        """Return the results of a function for each of its arguments, and show the progress."""
        results = []
        with ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                for result in pool.map(function, *arguments):
                    results.append(result)
                    self.fetched += result.fetched if isinstance(result, _Look) else 0
                    self.step.progress(self.fetched, 0)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return results


@contextmanager
def _uncover_network_errors() -> Iterator[None]:
    """Raise the error of the network that made a member of a wheel look damaged."""
    try:
        yield
    except Rejected as error:
        if isinstance(error.__cause__, (NoParts, TooLarge)):
            raise type(error.__cause__)(str(error.__cause__)) from error.__cause__
        if isinstance(error.__cause__, OSError):
            raise OSError(str(error.__cause__)) from error.__cause__
        raise


def _describe_wheel(package: DistributionPackage, metadata: str | None) -> PublishedWheel:
    """Return what the index and METADATA say of a wheel."""
    _, version, _, tags = parse_wheel_filename(package.filename)
    fields = HeaderParser().parsestr(metadata or "")
    return PublishedWheel(
        file=FileName(package.filename),
        label=version.local or "",
        tags=tags,
        size=package.size,
        is_yanked=bool(package.is_yanked),
        requires_python=str(package.requires_python or fields["Requires-Python"] or "").strip(),
        requires=None if metadata is None else tuple(map(str, fields.get_all("Requires-Dist", []))),
    )


def _read_wheel(package: DistributionPackage, metadata: str | None, wheel: Wheel) -> PublishedWheel:
    """Return the facts of an open wheel; its own METADATA counts if the index has none."""
    text = wheel.dist_info_text("METADATA") if metadata is None else metadata
    return _describe_wheel(package, text)._replace(inside=Inside(read_members(wheel)))


def _read_libraries(wheel: Wheel, names: Collection[str]) -> Mapping[str, Symbols]:
    return read_symbols(wheel, (info for info in wheel.infos if info.filename in names))


def _choose_libraries(beside: Beside, finished: Mapping[str, Inside]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the extension modules of each published wheel that a finished wheel in its place has as well."""
    for one in beside.wheels:
        ours = {name for job in one.jobs if job in finished for name in _list_modules(finished[job].symbols)}
        theirs = _list_modules(one.wheel.inside.members) if one.wheel.inside else {}
        if common := ours & theirs.keys():
            yield one.wheel.file, tuple(theirs[name] for name in sorted(common))


def _list_modules(members: Iterable[str]) -> Mapping[str, str]:
    return sort_members(members)[Kind.MODULE]


def _add_symbols(wheel: PublishedWheel, look: _Look[Mapping[str, Symbols]]) -> PublishedWheel:
    if look.value is None or wheel.inside is None:
        return wheel._replace(unread=look.reason)
    return wheel._replace(inside=wheel.inside._replace(symbols=look.value))
