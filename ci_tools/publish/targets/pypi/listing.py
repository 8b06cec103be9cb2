"""The files that an index lists of a project, read with the user's credentials."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from packaging.version import Version
from pypi_simple import (
    ACCEPT_ANY,
    DistributionPackage,
    NoSuchProjectError,
    ProjectPage,
    PyPISimple,
    UnsupportedRepoVersionError,
)
from twine.auth import CredentialInput, Resolver
from twine.exceptions import TwineException

from ci_tools.errors import InputError, MachineError
from ci_tools.formats.pypi_rules import Held
from ci_tools.index.file_names import project_and_version
from ci_tools.index.units import Item
from ci_tools.machine.context import Outside
from ci_tools.machine.http.client import Body, open_session
from ci_tools.machine.http.policy import SERVER_ERROR, TIMEOUT, UNANSWERED, innermost, status_of
from ci_tools.model.versions import parse_version
from ci_tools.publish.targets.pypi.uploader import AGAIN, READ_AT, UNAUTHORISED, UploadIndex, clean_text

if TYPE_CHECKING:
    import requests

# Addresses to read other indexes at, relative to the upload address: devpi; pypiserver, Artifactory and most; Azure.
SIMPLE_NEARBY = ("+simple/", "simple/", "../simple/")
SIMPLE_TYPES = ("text/html", "application/vnd.pypi.simple.v1+")


class IndexPages:
    """The pages of one index, read with the user's credentials."""

    def __init__(self, address: str, place: UploadIndex, outside: Outside) -> None:
        self._address = address
        self._place = place
        self._outside = outside

    def held(self, project: str, items: Iterable[Item]) -> tuple[Held, ...] | None:
        """Return the index's files of a project, or None if it has no such project.

        If the index gives no sha256 for one of `items`, the file is downloaded to compute it.
        """
        names = {item.name for item in items}
        with self._client() as client:
            try:
                packages = self._page(client, project).packages
            except NoSuchProjectError:
                return None
            return tuple(self._entry(client, package, asked=package.filename in names) for package in packages)

    def yanks(self, project: str, version: Version) -> dict[str, str | None]:
        """Return the files of a version, each with the reason for its yank; None if it is not yanked."""
        with self._client() as client:
            try:
                packages = self._page(client, project).packages
            except NoSuchProjectError:
                return {}
        own = (one for one in packages if _public_version(one.filename) == version)
        return {one.filename: clean_text(one.yanked_reason or "") if one.is_yanked else None for one in own}

    def _entry(self, client: PyPISimple, package: DistributionPackage, *, asked: bool) -> Held:
        sha256, uploaded = package.digests.get("sha256", ""), package.upload_time
        if asked and not sha256:
            say = self._outside.reporter.say
            say(f"{self._address} gives no sha256 of {package.filename}: it is downloaded to compute it")
            sha256 = _fetch_sha256(client.s, package.url)
        known = uploaded if uploaded and uploaded.tzinfo else None  # PEP 700 asks for UTC; some leave it out
        return Held(package.filename, sha256.lower(), package.url.partition("#")[0], known)

    def _page(self, client: PyPISimple, project: str) -> ProjectPage:
        """Return a project's page, with the user's credentials if the page is not public."""
        fresh = {"Cache-Control": "no-cache"}  # PyPI's pages are cached for ten minutes
        try:
            return client.get_project_page(project, timeout=TIMEOUT, headers=fresh)
        except OSError as error:  # as all errors of requests are
            if client.s.auth or status_of(error) not in UNAUTHORISED:
                raise
        client.s.auth = self._credentials()
        return client.get_project_page(project, timeout=TIMEOUT, headers=fresh)

    @contextmanager
    def _client(self) -> Iterator[PyPISimple]:
        try:
            environ = self._outside.environ
            named = environ.get("TWINE_CERT") or self._place.section.get("ca_cert") or environ.get("REQUESTS_CA_BUNDLE")
            with open_session(named or "") as session:
                endpoint = self._simple(session)
                session.hooks["response"].append(partial(_stay, endpoint))  # before requests follows it
                with PyPISimple(endpoint, session=session) as client:
                    yield client
        except (*UNANSWERED, UnsupportedRepoVersionError) as error:
            if status_of(error) in UNAUTHORISED:
                raise self._access_error(clean_text(innermost(error))) from error
            msg = f"{self._address} cannot be read: {clean_text(innermost(error))}"
            raise MachineError(msg, hint=f"check the network; {AGAIN}") from error

    def _simple(self, session: requests.Session) -> str:
        """Return the address to read the index at; on first use, the first candidate that is an index."""
        if not self._place.simple:
            base = f"{self._place.upload.rstrip('/')}/"
            candidates = dict.fromkeys(urljoin(base, path) for path in SIMPLE_NEARBY)
            found = next((address for address in candidates if self._is_index(session, address)), "")
            if not found:
                tried = ", ".join(candidates)
                msg = f"{self._address} cannot be read at any of {tried}"
                raise InputError(msg, hint=f"name the address that pip installs from in {READ_AT}")
            self._place = self._place._replace(simple=found)
        return self._place.simple

    def _is_index(self, session: requests.Session, address: str) -> bool:
        for _ in range(2):  # without credentials, then with them
            headers = {"Accept": ACCEPT_ANY}
            with session.get(address, headers=headers, stream=True, allow_redirects=False, timeout=TIMEOUT) as answer:
                if answer.status_code not in UNAUTHORISED or session.auth:
                    break
            session.auth = self._credentials()
        status, kind = answer.status_code, answer.headers.get("Content-Type", "")
        if status == HTTPStatus.UNAUTHORIZED or status >= SERVER_ERROR:
            answer.raise_for_status()
        return status == HTTPStatus.OK and kind.startswith(SIMPLE_TYPES)

    def _credentials(self) -> tuple[str, str]:
        """Return the user and password for this index, as twine finds them; raise InputError if there are none."""
        environ = self._outside.environ
        user = environ.get("TWINE_USERNAME") or environ.get("UV_PUBLISH_USERNAME")
        password = environ.get("TWINE_PASSWORD") or environ.get("UV_PUBLISH_PASSWORD")
        resolver = Resolver.choose(interactive=False)(self._place.section, CredentialInput(user, password))
        try:
            return resolver.username or "", resolver.password or ""
        except TwineException as error:
            raise self._access_error("it requires a password, and none is set") from error

    def _access_error(self, reason: str) -> InputError:
        hint = "set TWINE_USERNAME and TWINE_PASSWORD, or the index's section of .pypirc, to a user who may read it"
        return InputError(f"{self._address} cannot be read: {reason}", hint=hint)


def _public_version(name: str) -> Version | None:
    """Return the version in a file's name, without its local part; None if it is neither wheel nor sdist."""
    try:
        return parse_version(project_and_version(name)[1].public)
    except ValueError:
        return None


def _stay(endpoint: str, answer: requests.Response, **_: object) -> None:
    """Raise an error on a redirect to another index, as pypiserver sends for a project that it does not have."""
    there = urljoin(answer.url, answer.headers.get("Location", ""))
    if answer.is_redirect and answer.url.startswith(endpoint) and urlsplit(there).netloc != urlsplit(endpoint).netloc:
        raise NoSuchProjectError(answer.url, answer.url)


def _fetch_sha256(session: requests.Session, url: str) -> str:
    digest = hashlib.sha256()
    for piece in Body(session, url):
        digest.update(piece)
    return digest.hexdigest()
