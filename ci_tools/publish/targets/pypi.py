"""PyPI, TestPyPI and every other index with their upload API: twine or uv uploads file after file."""

from __future__ import annotations

import configparser
import hashlib
import html
import os
import re
import sys
import tarfile
import tempfile
import time
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin, urlsplit
from zipfile import ZIP_DEFLATED, ZIP_STORED

import requests
from packaging.utils import parse_wheel_filename
from pypi_simple import ACCEPT_ANY, PYPI_SIMPLE_ENDPOINT, NoSuchProjectError, PyPISimple
from twine.auth import CredentialInput, Resolver
from twine.exceptions import TwineException
from twine.utils import DEFAULT_REPOSITORY, TEST_REPOSITORY, get_config

from ci_tools.errors import InputError, MachineError, Problem, Rejected, RejectedInput, nearest
from ci_tools.formats.pypi_rules import (
    Archive,
    Held,
    Release,
    pypi_problems,
    strangers,
)
from ci_tools.formats.wheel import CONTROL, open_wheel
from ci_tools.machine.package_index import (
    AS_IT_IS,
    TIMEOUT,
    UNANSWERED,
    innermost,
)
from ci_tools.machine.process import redact, run
from ci_tools.machine.storage import CHUNK, sha256_of
from ci_tools.machine.waits import Waits
from ci_tools.model.pep440 import parse_version
from ci_tools.model.request import Route
from ci_tools.publish.index.pages import project_and_version
from ci_tools.publish.targets import UPLOADERS
from ci_tools.publish.units import CORE, Change, Published

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from urllib.parse import SplitResult

    from packaging.version import Version
    from pypi_simple import DistributionPackage, ProjectPage
    from twine.utils import RepositoryConfig

    from ci_tools.errors import FatwheelError
    from ci_tools.machine.context import Outside
    from ci_tools.publish.units import Item, Unit

__all__ = ["PyPITarget", "archive_of"]

PATIENCE = 300.0  # seconds until the index must list an uploaded file; PyPI's pages are cached
SETTLING = 10.0  # seconds to wait for another publisher's upload of a file
PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)  # seconds between two reads of a page; the last one repeats
CONNECTING = 600.0  # seconds an upload may take, whatever its size
SLOWEST = 20_000  # bytes per second; a slower upload is aborted
MOST_PKG_INFO = 16 << 20  # bytes
MOST_SAID = 400  # characters of a server's message
UNAUTHORISED = (401, 403)
NOT_YET = (408, 425, 429)  # HTTP statuses that ask for another try
TAKEN = (400, 409)  # HTTP statuses of an index that has a file of this name
# The two indexes with PyPI's rules: their upload hosts, and the addresses to read them at.
SIMPLE = MappingProxyType(
    {
        urlsplit(DEFAULT_REPOSITORY).hostname: PYPI_SIMPLE_ENDPOINT,
        urlsplit(TEST_REPOSITORY).hostname: urljoin(TEST_REPOSITORY, "/simple/"),
    }
)
# Addresses to read other indexes at, relative to the upload address: devpi; pypiserver, Artifactory and most; Azure.
SIMPLE_NEARBY = ("+simple/", "simple/", "../simple/")
SIMPLE_TYPES = ("text/html", "application/vnd.pypi.simple.v1+")
READ_AT = "UV_PUBLISH_CHECK_URL"  # uv's variable for the same address
SECRETS = ("TWINE_PASSWORD", "UV_PUBLISH_PASSWORD", "UV_PUBLISH_TOKEN")
ELSEWHERE = ("TWINE_REPOSITORY", "TWINE_REPOSITORY_URL", "UV_PUBLISH_INDEX", "UV_PUBLISH_URL", READ_AT)
PLAIN = MappingProxyType({"COLUMNS": "1000", "NO_COLOR": "1", "TERM": "dumb", "PYTHONSAFEPATH": "1"})
STYLE = re.compile(r"\x1b\[[0-9;]*m")
ANSWER = re.compile(
    r"(?:Response from\s+\S+|Server returned status code)\s*(?P<status>\d{3})(?P<words>.*?)"
    r"(?:(?:ERROR\s+)?(?:HTTPError|RedirectDetected)|\Z)",
    re.DOTALL,
)
NO_WORDS = re.compile(r"<head>.*?</head>|<[^<>]+>|^INFO\s", re.DOTALL | re.MULTILINE | re.IGNORECASE)
NO_CREDENTIALS = re.compile(r"Credential not found|could not determine credentials|Missing credentials")
AGAIN = "run the same command again: it goes on where it stopped"


class Place(NamedTuple):
    """One index for uploads."""

    name: str  # of its section in .pypirc; empty: the user gave an address
    upload: str  # its upload address
    simple: str  # its address for reading; empty: not known yet
    section: RepositoryConfig  # its settings in .pypirc
    has_rules: bool  # whether it has PyPI's rules


class PyPITarget:
    """An index for uploads: PyPI, TestPyPI, a section of the user's .pypirc, or an upload address.

    `name` is the part after `pypi:` in `--to`. The unit's route selects the files. PyPI's own rules (pypirules) are
    applied on PyPI and TestPyPI; every other index accepts local versions, linux tags and files of any size, and is
    only asked whether it has a file already. The uploader itself finds the credentials, as its users expect.
    """

    order = 3  # the last: an upload cannot be undone
    stages = False

    def __init__(self, name: str, outside: Outside, *, uploader: str = "twine", patience: float = PATIENCE) -> None:
        if uploader not in UPLOADERS:
            msg = f'there is no uploader "{uploader}", {nearest(uploader, UPLOADERS)}'
            raise InputError(msg)
        self.address = f"pypi:{name}" if name not in {"", "pypi"} else "pypi"
        self._outside = outside
        self._waits = Waits(outside.reporter.say)
        self._uploader = uploader
        self._patience = patience
        self._place = _place(name or "pypi", outside.environ)
        self._pages = _Pages(self.address, self._place, outside)

    # -- the four steps

    def check(self, unit: Unit) -> Sequence[Change]:
        """Return which files would be added and which exist already, in upload order.

        Raises RejectedInput with everything for which the index would refuse a file, or has it with other bytes;
        InputError if the config does not select the files for PyPI; MachineError if the index does not answer.
        """
        items = _select_items(unit, self.address)
        new = self._new(unit, items)
        return [Change("add" if item in new else "keep", f"{self.address}/{item.name}") for item in items]

    def holds(self, unit: Unit) -> frozenset[str]:
        """Return the files of the unit's version that the index lists."""
        return frozenset(self._pages.yanks(unit.project, parse_version(unit.version)))

    def foresee(self, unit: Unit) -> None:
        """Raise the errors of `check`: they concern each file by itself."""
        self.check(unit)

    def stage(self, unit: Unit) -> None:
        """Do nothing: an uploaded file is public at once, until indexes support draft releases (PEP 694)."""

    def verify(self, unit: Unit) -> None:
        """Do nothing: nothing is staged; `switch` reads back the hashes of all files it uploads."""

    def switch(self, unit: Unit) -> Sequence[Published]:
        """Upload the missing files, and return every file once the index lists it with its sha256.

        Wheels of one platform come first, then the pure one, the sdist last: a user's best file is uploaded before the
        lesser ones, and until then an installer takes the previous release. In any other order somebody with a GPU
        would get the pure wheel, or anybody would start a build.

        Raises as `check` does, InputError if the credentials are wrong, Rejected if the index refuses a file,
        MachineError if it cannot be reached, does not list an uploaded file in time, or a file changed meanwhile.
        """
        items = _select_items(unit, self.address)
        new = self._new(unit, items)
        for item in new:
            self._upload(unit, item)
        held = self._await_listing(unit, items, self._patience) if items else {}
        return [Published(item.name, _clean_text(held[item.name].url), item in new) for item in items]

    # -- bad releases

    def yanks(self, project: str, version: Version) -> dict[str, str | None]:
        """Return the listed files of a version, each with the reason for its yank; None if it is not yanked."""
        return self._pages.yanks(project, version)

    def manage_page(self, project: str) -> str:
        """Return the page where a maintainer yanks a project's releases, or "" if it is not known."""
        host = urlsplit(self._place.simple).netloc
        return f"https://{host}/manage/project/{project}/releases/" if self._place.has_rules else ""

    # -- problems

    def _new(self, unit: Unit, items: Sequence[Item]) -> list[Item]:
        """Return the unit's files that the index lacks; raise RejectedInput if it would not accept them."""
        if not items:
            return []
        held = self._pages.held(unit.project, items)
        there = {file.name: file.sha256 for file in held or ()}
        new = [item for item in items if item.name not in there]
        changed = [item for item in items if item not in new and there[item.name] != item.sha256]
        release = Release(unit.project, unit.version, held, datetime.now(timezone.utc))
        problems = [
            *(self._describe_conflict(item, there[item.name]) for item in changed),
            *self._problems(new, release),
        ]
        if problems:
            raise RejectedInput(problems, hint=f"nothing was sent to {self.address}")
        return new

    def _describe_conflict(self, item: Item, sha256: str) -> Problem:
        hashes = f"sha256 {_clean_text(sha256)[:12]}…, new {item.sha256[:12]}…"
        what = f"{self.address} has it with other bytes ({hashes}), and a published file never changes"
        return Problem(item.name, f"{what}: raise the version")

    def _problems(self, items: Iterable[Item], release: Release) -> Iterator[Problem]:
        files = []
        for item in items:
            if sha256_of(item.path) != item.sha256:
                yield Problem(item.name, "its bytes are not those that were recorded when it was made")
            try:
                files.append(archive_of(item.path))
            except Rejected as error:
                yield Problem("", error.message)
        yield from strangers(files, release)
        if self._place.has_rules:
            yield from pypi_problems(files, release, sys.stdlib_module_names)

    # -- uploading

    def _authorisation_error(self, what: str, reason: str) -> InputError:
        if self._uploader == "uv":
            mend = "set UV_PUBLISH_TOKEN, or UV_PUBLISH_USERNAME and UV_PUBLISH_PASSWORD"
        elif self._place.has_rules:
            mend = "set TWINE_PASSWORD to an API token of this index (and TWINE_USERNAME to __token__, or leave it out)"
        else:
            mend = "set TWINE_USERNAME and TWINE_PASSWORD, or both in the index's section of .pypirc"
        scope = "; the token's scope must cover the project, a new one needs a token for the whole account"
        trusted = "; or upload from the job that is the project's trusted publisher, with `id-token: write`"
        hint = f"{mend}{f'{scope}{trusted}' if self._place.has_rules else ', to a user who may upload'}"
        return InputError(f"{self.address}: {what}: {reason}", hint=hint)

    def _upload(self, unit: Unit, item: Item) -> None:
        """Upload one file; if that fails, ask the index whether it has the file, from us or from another publisher."""
        with self._outside.reporter.step(f"upload {item.name} to {self.address}"):
            _refuse_change(item)
            said = self._run_uploader(item)
            if said is None:
                return
            status, words = _answer(said)
            if not self._is_there(unit, item, SETTLING if status in TAKEN else 0.0):
                raise self._failure(item, status, words)

    def _is_there(self, unit: Unit, item: Item, patience: float) -> bool:
        try:
            self._await_listing(unit, [item], patience)
        except MachineError:
            return False
        return True

    def _run_uploader(self, item: Item) -> str | None:
        """Run the uploader; return None on success, else its output without secrets."""
        limit = CONNECTING + item.size / SLOWEST
        what = f"{self.address} to take {item.name}, for {limit:.0f} s at most"
        with tempfile.TemporaryDirectory(prefix="fatwheel-") as folder, self._waits.over(what):
            ended = run(
                self._command(item.path.absolute()),
                log=Path(folder) / "log",
                cwd=Path(folder),  # an empty folder: no module or config there can replace the uploader's
                env=self._environment(),
                timeout=limit,
            )
            if ended.status == 0:
                return None
            if ended.timed_out:
                return f"it had not ended after {limit:.0f} s"
            log = ended.log.read_bytes()[ended.start :].decode(errors="replace")
        return self._redact_secrets(STYLE.sub("", log)) or "it ended without a word"

    def _command(self, path: Path) -> list[str | Path]:
        own = Path(sys.executable).with_name("uv")
        uv = own if own.is_file() else "uv"
        if self._uploader == "uv":
            return [uv, "publish", "--no-progress", "--publish-url", self._place.upload, path]
        options = ("--non-interactive", "--disable-progress-bar", "--verbose")  # the last shows the index's answer
        return [sys.executable, "-m", "twine", "upload", *options, path]

    def _environment(self) -> dict[str, str]:
        """Return the user's whole environment, which the uploader and keyrings need."""
        environ = {name: value for name, value in self._outside.environ.items() if name not in ELSEWHERE}
        section = self._place.section
        if self._uploader == "twine":
            where = "TWINE_REPOSITORY" if self._place.name else "TWINE_REPOSITORY_URL"
            return {**environ, **PLAIN, where: self._place.name or self._place.upload}
        known = {"UV_PUBLISH_USERNAME": section.get("username"), "UV_PUBLISH_PASSWORD": section.get("password")}
        said = not environ.keys().isdisjoint({*known, "UV_PUBLISH_TOKEN"})
        return {**environ, **PLAIN, **{name: value for name, value in known.items() if value and not said}}

    def _redact_secrets(self, text: str) -> str:
        secrets = [self._outside.environ.get(name) for name in SECRETS]
        for secret in filter(None, [*secrets, self._place.section.get("password")]):
            text = text.replace(secret, "***")
        return redact(text)

    def _failure(self, item: Item, status: int, words: str) -> FatwheelError:
        """Return the error for a failed upload; status 0: there was no answer."""
        answered = f"{status or ''} {words}".strip()
        if status in UNAUTHORISED or (not status and NO_CREDENTIALS.search(words)):
            return self._authorisation_error(f"{item.name} was not taken", answered)
        if status in TAKEN and "exist" in words:
            msg = f"{self.address} says that it has {item.name}, and does not list it: {answered}"
            return MachineError(msg, hint=f"its pages may lag behind; {AGAIN}")
        if requests.codes.multiple_choices <= status < requests.codes.bad_request:
            msg = f"{self.address} is not where files are uploaded to: {answered}"
            return InputError(msg, hint="give the very address that takes uploads")
        if requests.codes.bad_request <= status < requests.codes.server_error and status not in NOT_YET:
            hint = "mend what it names; where an earlier file of the release is there, raise the version"
            return Rejected(f"{self.address} refuses {item.name}: {answered}", hint=hint)
        msg = f"{item.name} could not be uploaded to {self.address}: {answered}"
        return MachineError(msg, hint=f"check the network; {AGAIN}")

    # -- reading back

    def _await_listing(self, unit: Unit, items: Sequence[Item], patience: float) -> dict[str, Held]:
        """Return the entries of `items` once the index lists them all with their sha256.

        Raises InputError if the index has one with other bytes, MachineError if it does not list all in time.
        """
        start = time.monotonic()
        for pause in chain(PAUSES, repeat(PAUSES[-1])):
            held = {file.name: file for file in self._pages.held(unit.project, items) or ()}
            other = [item for item in items if item.name in held and held[item.name].sha256 != item.sha256]
            lacking = [item.name for item in items if item.name not in held or item in other]
            if not lacking:
                return held
            waited = time.monotonic() - start
            if other and waited + pause > min(SETTLING, self._patience):
                raise RejectedInput([self._describe_conflict(item, held[item.name].sha256) for item in other])
            if waited + pause > patience:
                break
            self._outside.reporter.say(f"waiting for {self.address} to list {', '.join(lacking)}")
            time.sleep(pause)
        msg = f"{self.address} does not list {', '.join(lacking)} after {waited:.0f} seconds"
        raise MachineError(msg, hint=f"its pages may lag behind; {AGAIN}")


class _Pages:
    """The pages of one index, read with the user's credentials."""

    def __init__(self, address: str, place: Place, outside: Outside) -> None:
        self._address = address
        self._place = place
        self._outside = outside

    def held(self, project: str, items: Iterable[Item]) -> tuple[Held, ...] | None:
        """Return the index's files of a project, or None if it has no such project.

        If the index gives no sha256 for one of `items`, the file is downloaded to compute it.
        """
        names = {item.name for item in items}
        with Waits(self._outside.reporter.say).over(f"{self._address} to list {project}"), self._client() as client:
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
        return {one.filename: _yank_reason(one) for one in packages if _public_version(one.filename) == version}

    def _entry(self, client: PyPISimple, package: DistributionPackage, *, asked: bool) -> Held:
        sha256, uploaded = package.digests.get("sha256", ""), package.upload_time
        if asked and not sha256:
            say = self._outside.reporter.say
            say(f"{self._address} gives no sha256 of {package.filename}: it is fetched to compare")
            sha256 = _fetch_sha256(client.s, package.url)
        known = uploaded if uploaded and uploaded.tzinfo else None
        return Held(package.filename, sha256.lower(), package.url.partition("#")[0], known)

    def _page(self, client: PyPISimple, project: str) -> ProjectPage:
        """Return a project's page, with the user's credentials if the page is not public."""
        fresh = {"Cache-Control": "no-cache"}
        try:
            return client.get_project_page(project, timeout=TIMEOUT, headers=fresh)
        except requests.HTTPError as error:
            if client.s.auth or _status(error) not in UNAUTHORISED:
                raise
        client.s.auth = self._credentials()
        return client.get_project_page(project, timeout=TIMEOUT, headers=fresh)

    @contextmanager
    def _client(self) -> Iterator[PyPISimple]:
        try:
            with requests.Session() as session:
                session.verify = self._certificates()
                endpoint = self._simple(session)
                session.hooks["response"].append(partial(_stay, endpoint))
                with PyPISimple(endpoint, session=session) as client:
                    yield client
        except UNANSWERED as error:
            if _status(error) in UNAUTHORISED:
                raise self._access_error(_clean_text(innermost(error))) from None
            msg = f"{self._address} cannot be read: {_clean_text(innermost(error))}"
            raise MachineError(msg, hint=f"check the network; {AGAIN}") from None

    def _simple(self, session: requests.Session) -> str:
        """Return the address to read the index at; on first use, the first candidate that is an index."""
        if not self._place.simple:
            base = f"{self._place.upload.rstrip('/')}/"
            candidates = dict.fromkeys(urljoin(base, path) for path in SIMPLE_NEARBY)
            found = next((address for address in candidates if self._is_index(session, address)), "")
            if not found:
                tried = ", ".join(map(redact, candidates))
                msg = f"{self._address} can be read at none of {tried}"
                raise InputError(msg, hint=f"name the address that pip installs from in {READ_AT}")
            self._place = self._place._replace(simple=found)
        return self._place.simple

    def _is_index(self, session: requests.Session, address: str) -> bool:
        for _ in range(2):
            headers = {"Accept": ACCEPT_ANY}
            with session.get(address, headers=headers, stream=True, allow_redirects=False, timeout=TIMEOUT) as answer:
                if answer.status_code not in UNAUTHORISED or session.auth:
                    break
            session.auth = self._credentials()
        status, kind = answer.status_code, answer.headers.get("Content-Type", "")
        if status == requests.codes.unauthorized or status >= requests.codes.server_error:
            answer.raise_for_status()
        return status == requests.codes.ok and kind.startswith(SIMPLE_TYPES)

    def _certificates(self) -> str | bool:
        environ = self._outside.environ
        named = environ.get("TWINE_CERT") or self._place.section.get("ca_cert") or environ.get("REQUESTS_CA_BUNDLE")
        return named or True

    def _credentials(self) -> tuple[str, str]:
        """Return the user and password for this index, as twine finds them; raise InputError if there are none."""
        environ = self._outside.environ
        user = environ.get("TWINE_USERNAME") or environ.get("UV_PUBLISH_USERNAME")
        password = environ.get("TWINE_PASSWORD") or environ.get("UV_PUBLISH_PASSWORD")
        resolver = Resolver.choose(interactive=False)(self._place.section, CredentialInput(user, password))
        try:
            return resolver.username or "", resolver.password or ""
        except TwineException:
            reason = "it asks for a password, and there is none"
            raise self._access_error(reason) from None

    def _access_error(self, reason: str) -> InputError:
        hint = "set TWINE_USERNAME and TWINE_PASSWORD, or the index's section of .pypirc, to a user who may read it"
        return InputError(f"{self._address} cannot be read: {reason}", hint=hint)


def _yank_reason(package: DistributionPackage) -> str | None:
    return _clean_text(package.yanked_reason or "") if package.is_yanked else None


def _public_version(name: str) -> Version | None:
    """Return the version in a file's name, without its local part; None if it is neither wheel nor sdist."""
    try:
        return parse_version(project_and_version(name)[1].public)
    except ValueError:
        return None


def _place(name: str, environ: Mapping[str, str]) -> Place:
    """Return the index that the user means; raise InputError if there is none of that name."""
    is_address = "://" in name
    section: RepositoryConfig = {"repository": name} if is_address else _section(name, environ)
    upload = section["repository"] or ""
    parts = _parts(upload, name)
    simple = SIMPLE.get(parts.hostname)
    if simple:
        upload = parts._replace(scheme="https").geturl()
    return Place("" if is_address else name, upload, simple or environ.get(READ_AT, ""), section, simple is not None)


def _parts(upload: str, name: str) -> SplitResult:
    try:
        parts = urlsplit(upload)
        _ = parts.port  # parsed only now; it may be part of a password
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        shown = "…" if "@" in name else _clean_text(name)
        msg = f'pypi:{shown} has no address to upload to, expected one such as "https://host/path/"'
        raise InputError(msg)
    if parts.username or parts.password:
        msg = f"the upload address at {parts.hostname} names a user or a password"
        raise InputError(msg, hint="say them in TWINE_USERNAME and TWINE_PASSWORD, or in .pypirc")
    return parts


def _section(name: str, environ: Mapping[str, str]) -> RepositoryConfig:
    """Return the settings of an index from the user's .pypirc, or twine's defaults."""
    path = Path(environ.get("HOME") or environ.get("USERPROFILE") or "~").expanduser() / ".pypirc"
    try:
        config = get_config(str(path) if path.is_file() else os.devnull)
    except (OSError, TwineException, ValueError, configparser.Error):  # the error's text may contain a password
        msg = f"{path} cannot be read as the configuration of indexes"
        raise InputError(msg) from None
    if not config.get(name, {}).get("repository"):
        msg = f'there is no index "{_clean_text(name)}", {nearest(name, config)}'
        raise InputError(msg, hint=f"give it a section with its `repository` in {path}, or give its upload address")
    return config[name]


def _select_items(unit: Unit, address: str) -> list[Item]:
    """Return the unit's files for an index by its route, in upload order; raise InputError if the config has none."""
    if unit.route is Route.NONE:
        msg = f"nothing of {unit.project} goes to {address}: the config does not say what PyPI gets"
        raise InputError(msg, hint="set `pypi: wheels` below `publish:`")
    taken = [item for item in unit.files if _goes(item, unit.route)]
    if unit.name == CORE and not taken:
        msg = f"{unit.project} {unit.version} has nothing that goes to {address} by `pypi: {unit.route}`"
        raise InputError(msg)
    return sorted(taken, key=lambda item: (_rank(item), item.name))


def _goes(item: Item, route: Route) -> bool:
    if item.made is None:
        return True
    return route is Route.WHEELS and (item.made.kind == "pure" or not _has_local_version(item.name))


def _rank(item: Item) -> int:
    if item.made is None:
        return 2
    return 1 if item.made.kind == "pure" else 0


def _has_local_version(wheel: str) -> bool:
    try:
        return parse_wheel_filename(wheel)[1].local is not None
    except ValueError:  # InvalidWheelFilename, InvalidVersion, or more digits than Python converts
        return False  # the rules report what is wrong with its name


# -- files


def _refuse_change(item: Item) -> None:
    """Raise MachineError if a file has changed since it was checked; earlier uploads may have taken an hour."""
    if sha256_of(item.path) != item.sha256:
        msg = f"{item.name} changed while it was published"
        raise MachineError(msg, hint="run the same command again once nothing writes to it")


def archive_of(path: Path) -> Archive:
    """Return the parts of a file that the rules check; raise Rejected if it cannot be read."""
    return _wheel(path) if path.name.endswith(".whl") else _sdist(path)


def _wheel(path: Path) -> Archive:
    wheel = open_wheel(path)
    with wheel.archive as archive, path.open("rb") as file:
        infos = archive.infolist()
        members = tuple(info.filename for info in infos)
        unpacked = sum(info.file_size for info in infos)
        file.seek(-min(path.stat().st_size, 22 + len(archive.comment)), os.SEEK_END)  # end of central directory
        flaws = (
            *_flaws(infos),
            *([] if file.read(4) == b"PK\x05\x06" else ["it goes on after the end of its zip file"]),
        )
        return Archive(path.name, path.stat().st_size, wheel.dist_info_data("METADATA"), members, unpacked, flaws)


def _flaws(infos: Sequence[zipfile.ZipInfo]) -> Iterator[str]:
    if infos and min(info.header_offset for info in infos):
        yield "it begins with something that is no zip file"
    for info in infos:
        if info.compress_type not in {ZIP_STORED, ZIP_DEFLATED}:
            yield f"{info.filename!r} is neither stored nor deflated"
        if info.flag_bits & 8:
            yield f"{info.filename!r} gives its size only after its content (a data descriptor)"
        if info.comment:
            yield f"{info.filename!r} has a comment"


def _sdist(path: Path) -> Archive:
    top = path.name.removesuffix(".tar.gz")
    try:
        with tarfile.open(path, "r:gz") as archive:
            members = tuple(archive.getnames())
            found = f"{top}/PKG-INFO" in members and archive.getmember(f"{top}/PKG-INFO")
            file = archive.extractfile(found) if found and found.size <= MOST_PKG_INFO else None
            return Archive(path.name, path.stat().st_size, file.read() if file else b"", members)
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        msg = f"{path.name} is no sdist: {error}"
        raise Rejected(msg) from None


# -- answers


def _stay(endpoint: str, answer: requests.Response, **_: object) -> None:
    """Raise an error on a redirect to another index, as pypiserver sends for a project that it does not have."""
    there = urljoin(answer.url, answer.headers.get("Location", ""))
    if answer.is_redirect and answer.url.startswith(endpoint) and urlsplit(there).netloc != urlsplit(endpoint).netloc:
        raise NoSuchProjectError(answer.url, answer.url)


def _fetch_sha256(session: requests.Session, url: str) -> str:
    digest = hashlib.sha256()
    with session.get(url, stream=True, timeout=TIMEOUT, headers=AS_IT_IS) as answer:
        answer.raise_for_status()
        for chunk in answer.iter_content(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _status(error: Exception) -> int:
    answer = error.response if isinstance(error, requests.RequestException) else None
    return 0 if answer is None else answer.status_code


def _answer(said: str) -> tuple[int, str]:
    """Return the status and message that an uploader got from an index; without an answer, 0 and its own last line."""
    answer = ANSWER.search(said)
    if not answer:
        return 0, _clean_text(said.strip().rpartition("\n")[2])
    return int(answer["status"]), _clean_text(html.unescape(NO_WORDS.sub(" ", answer["words"])))


def _clean_text(text: str) -> str:
    """Return a server's message as one short line, without terminal control characters."""
    return CONTROL.sub(" ", " ".join(text.split()))[:MOST_SAID]
