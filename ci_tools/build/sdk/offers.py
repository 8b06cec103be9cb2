"""The wheels of a project that the user's pip could install, on all its indexes and in its folders (find-links)."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name, parse_wheel_filename

from ci_tools.errors import FatwheelError, InputError
from ci_tools.machine import package_index
from ci_tools.machine.http.faults import UNANSWERED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import requests
    from packaging.tags import Tag
    from packaging.version import Version


class WheelOffer(NamedTuple):
    """A wheel: its file name, its address, and the sha256 that the index gives for it ("": none)."""

    file: str
    url: str
    sha256: str = ""

    @property
    def version(self) -> Version:
        """Its version, with the local part."""
        return parse_wheel_filename(self.file)[1]

    @property
    def tags(self) -> frozenset[Tag]:
        """The tags of its file name."""
        return parse_wheel_filename(self.file)[3]

    @property
    def pythons(self) -> frozenset[str]:
        """The Pythons it is for, as `cp311` or `cp313t`."""
        return frozenset(f"{tag.interpreter}{'t' if tag.abi.endswith('t') else ''}" for tag in self.tags)

    def is_for_python(self, python: str) -> bool:
        """Whether it is for a Python such as `cp311`, or for every Python."""
        return python in self.pythons or "py3" in self.pythons

    def is_for(self, host: str) -> bool:
        """Whether it is for a kind of machine, such as `linux-x86_64` or `windows-amd64`, or for every machine."""
        system, _, machine = host.partition("-")
        own = {"windows": "win", "macos": "macosx"}.get(system, system)
        names = [tag.platform for tag in self.tags]
        return any(name == "any" or (name.endswith(f"_{machine}") and own in name) for name in names)


class Offers(NamedTuple):
    """The wheels of a project, and an HTTP session that reads them."""

    session: requests.Session
    wheels: tuple[WheelOffer, ...]


@contextmanager
def find_offers(project: str, environ: Mapping[str, str]) -> Iterator[Offers]:
    """Yield every wheel of `project` where the user's pip looks, each file name once: the first place that has it.

    Raises the first error of an index if no place has any wheel.
    """
    settings = package_index.users_places(environ)
    found: dict[str, WheelOffer] = {}
    errors: list[FatwheelError] = []
    with package_index.users_session(environ) as session:
        for place in settings.folders:
            found |= {offer.file: offer for offer in _in_folder(project, place, session) if offer.file not in found}
        for place in settings.indexes:
            listed = _list_index(project, place, session, errors)
            found |= {offer.file: offer for offer in listed if offer.file not in found}
        if not found:
            raise errors[0] if errors else _nothing(project)
        yield Offers(session, tuple(found.values()))


def _nothing(project: str) -> InputError:
    return InputError(f'no package index and no folder of pip\'s settings has a wheel of "{project}"')


def _list_index(
    project: str, index: str, session: requests.Session, errors: list[FatwheelError]
) -> tuple[WheelOffer, ...]:
    """Return the wheels on an index; if it has no such project, or does not answer, add its error to `errors`."""
    try:
        return tuple(_on_index(project, index, session))
    except FatwheelError as error:
        errors.append(error)
        return ()


def _on_index(project: str, index: str, session: requests.Session) -> Iterator[WheelOffer]:
    if index.startswith("file:"):
        page = _path(index) / canonicalize_name(project) / "index.html"
        if page.is_file():
            yield from _on_page(project, page.read_text(encoding="utf-8"), page.as_uri())
        return
    with package_index.listing_of(project, package_index.Index(index, str(session.verify or ""))) as listing:
        yield from _offers((each.filename, each.url, each.digests.get("sha256", "")) for each in listing.files)


def _in_folder(project: str, place: str, session: requests.Session) -> Iterator[WheelOffer]:
    """Yield the wheels that `--find-links` names: those in a folder, or those that a page links to."""
    if not place.startswith(("http://", "https://")):
        folder = _path(place)
        files = sorted(folder.iterdir()) if folder.is_dir() else []
        yield from _offers((path.name, path.as_uri(), "") for path in files if _is_of(path.name, project))
        return
    from ci_tools.machine.http.client import read_document  # noqa: PLC0415 - it loads longer than a plan is made

    try:
        page = read_document(session, place) or b""
    except UNANSWERED:
        return  # as pip does: another place may have it
    yield from _on_page(project, page.decode(errors="replace"), place)


def _on_page(project: str, html: str, url: str) -> Iterator[WheelOffer]:
    from pypi_simple import ProjectPage  # noqa: PLC0415 - as `requests` above

    page = ProjectPage.from_html(project, html, base_url=url)
    named = (each for each in page.packages if _is_of(each.filename, project))
    yield from _offers((each.filename, each.url, each.digests.get("sha256", "")) for each in named)


def _offers(found: Iterable[tuple[str, str, str]]) -> Iterator[WheelOffer]:
    for file, url, sha256 in found:
        try:
            parse_wheel_filename(file)
        except ValueError:
            continue  # an sdist, or a name older than the rules of PEP 427
        yield WheelOffer(file, url, sha256)


def _is_of(file: str, project: str) -> bool:
    return canonicalize_name(file.partition("-")[0]) == canonicalize_name(project)


def _path(place: str) -> Path:
    return Path(unquote(urlsplit(place).path)) if place.startswith("file:") else Path(place)
