"""The index that a user names, and the program that uploads a file to it: twine or uv."""

from __future__ import annotations

import configparser
import html
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import SplitResult, urljoin, urlsplit

from pypi_simple import PYPI_SIMPLE_ENDPOINT
from twine.exceptions import TwineException
from twine.utils import DEFAULT_REPOSITORY, TEST_REPOSITORY, RepositoryConfig, get_config

from ci_tools.addresses import redact
from ci_tools.errors import FatwheelError, InputError, MachineError, Rejected, nearest
from ci_tools.formats.wheel import CONTROL
from ci_tools.index.units import Item
from ci_tools.machine.context import Outside
from ci_tools.machine.http.policy import is_temporary
from ci_tools.machine.process import run, start_module
from ci_tools.machine.waits import Waits

# The two indexes with PyPI's rules: their upload hosts, and the addresses to read them at.
SIMPLE = MappingProxyType(
    {
        urlsplit(DEFAULT_REPOSITORY).hostname: PYPI_SIMPLE_ENDPOINT,
        urlsplit(TEST_REPOSITORY).hostname: urljoin(TEST_REPOSITORY, "/simple/"),
    }
)

READ_AT = "UV_PUBLISH_CHECK_URL"  # uv's variable for the same address
CONNECTING = 600.0  # seconds an upload may take, whatever its size
SLOWEST = 20_000  # bytes per second; a slower upload is aborted
SECRETS = ("TWINE_PASSWORD", "UV_PUBLISH_PASSWORD", "UV_PUBLISH_TOKEN")
ELSEWHERE = ("TWINE_REPOSITORY", "TWINE_REPOSITORY_URL", "UV_PUBLISH_INDEX", "UV_PUBLISH_URL", READ_AT)
PLAIN = MappingProxyType({"COLUMNS": "1000", "NO_COLOR": "1", "TERM": "dumb", "PYTHONSAFEPATH": "1"})
STYLE = re.compile(r"\x1b\[[0-9;]*m")  # colours
ANSWER = re.compile(
    r"(?:Response from\s+\S+|Server returned status code)\s*(?P<status>\d{3})(?P<words>.*?)"
    r"(?:(?:ERROR\s+)?(?:HTTPError|RedirectDetected)|\Z)",
    re.DOTALL,
)

TAKEN = (400, 409)  # HTTP statuses of an index that has a file of this name
NO_CREDENTIALS = re.compile(r"Credential not found|could not determine credentials|Missing credentials")
NO_WORDS = re.compile(r"<head>.*?</head>|<[^<>]+>|^INFO\s", re.DOTALL | re.MULTILINE | re.IGNORECASE)


class Uploader(NamedTuple):
    """twine or uv, for one index; it finds the credentials itself, as its users expect."""

    program: str  # twine or uv
    address: str  # of the target, in the user's notation
    place: UploadIndex
    outside: Outside

    def run(self, item: Item) -> str | None:
        """Run the uploader; return None on success, else its output without secrets."""
        limit = CONNECTING + item.size / SLOWEST  # seconds
        what = f"{self.address} to accept {item.name}, for {limit:.0f} s at most"
        with tempfile.TemporaryDirectory(prefix="fatwheel-") as folder, Waits(self.outside.reporter.say).over(what):
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
                return f"it did not end within {limit:.0f} s"
            log = ended.log.read_bytes()[ended.start :].decode(errors="replace")
        return self._redact_secrets(STYLE.sub("", log)) or "it printed nothing"

    def _command(self, path: Path) -> list[str | Path]:
        own = Path(sys.executable).with_name("uv")
        uv = own if own.is_file() else "uv"
        if self.program == "uv":
            return [uv, "publish", "--no-progress", "--publish-url", self.place.upload, path]
        options = ("--non-interactive", "--disable-progress-bar", "--verbose")  # the last shows the index's answer
        return [*start_module("twine"), "upload", *options, path]

    def _environment(self) -> dict[str, str]:
        """Return the user's whole environment, which the uploader and keyrings need."""
        environ = {name: value for name, value in self.outside.environ.items() if name not in ELSEWHERE}
        section = self.place.section
        if self.program == "twine":
            where = "TWINE_REPOSITORY" if self.place.name else "TWINE_REPOSITORY_URL"
            return {**environ, **PLAIN, where: self.place.name or self.place.upload}
        known = {"UV_PUBLISH_USERNAME": section.get("username"), "UV_PUBLISH_PASSWORD": section.get("password")}
        said = not environ.keys().isdisjoint({*known, "UV_PUBLISH_TOKEN"})  # one of each would be a wrong pair
        return {**environ, **PLAIN, **{name: value for name, value in known.items() if value and not said}}

    def _redact_secrets(self, text: str) -> str:
        secrets = [self.outside.environ.get(name) for name in SECRETS]
        for secret in filter(None, [*secrets, self.place.section.get("password")]):
            text = text.replace(secret, "***")
        return redact(text)

    def explain(self, item: Item, status: int, words: str) -> FatwheelError:
        """Return the error for a failed upload; status 0: there was no answer."""
        answered = f"{status or ''} {words}".strip()
        if status in UNAUTHORISED or (not status and NO_CREDENTIALS.search(words)):
            return self._authorisation_error(f"{item.name} was not accepted", answered)
        if status in TAKEN and "exist" in words:
            msg = f"{self.address} says that it has {item.name}, but does not list it: {answered}"
            return MachineError(msg, hint=f"its pages may lag behind; {AGAIN}")
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            msg = f"{self.address} does not accept uploads: {answered}"
            return InputError(msg, hint="give the address for uploads")
        if status >= HTTPStatus.BAD_REQUEST and not is_temporary(status):
            hint = "fix what it names; if an earlier file of the release is there, raise the version"
            return Rejected(f"{self.address} refuses {item.name}: {answered}", hint=hint)
        msg = f"{item.name} could not be uploaded to {self.address}: {answered}"
        return MachineError(msg, hint=f"check the network; {AGAIN}")

    def _authorisation_error(self, what: str, reason: str) -> InputError:
        if self.program == "uv":
            how = "set UV_PUBLISH_TOKEN, or UV_PUBLISH_USERNAME and UV_PUBLISH_PASSWORD"
        elif self.place.has_rules:
            how = "set TWINE_PASSWORD to an API token of this index (and TWINE_USERNAME to __token__, or unset it)"
        else:
            how = "set TWINE_USERNAME and TWINE_PASSWORD, or both in the index's section of .pypirc"
        scope = "; the token's scope must cover the project, a new one needs a token for the whole account"
        trusted = "; or upload from the job that is the project's trusted publisher, with `id-token: write`"
        hint = f"{how}{f'{scope}{trusted}' if self.place.has_rules else ', to a user who may upload'}"
        return InputError(f"{self.address}: {what}: {reason}", hint=hint)


def parse_answer(said: str) -> tuple[int, str]:
    """Return the status and message that an uploader got from an index; without an answer, 0 and its own last line."""
    answer = ANSWER.search(said)
    if not answer:
        return 0, clean_text(said.strip().rpartition("\n")[2])
    return int(answer["status"]), clean_text(html.unescape(NO_WORDS.sub(" ", answer["words"])))


class UploadIndex(NamedTuple):
    """One index for uploads."""

    name: str  # of its section in .pypirc; empty: the user gave an address
    upload: str  # its upload address
    simple: str  # its address for reading; empty: not known yet
    section: RepositoryConfig  # its settings in .pypirc
    has_rules: bool  # whether it has PyPI's rules


def place_of(name: str, environ: Mapping[str, str]) -> UploadIndex:
    """Return the index that the user means; raise InputError if there is none of that name."""
    is_address = "://" in name
    section: RepositoryConfig = {"repository": name} if is_address else _section(name, environ)
    upload = section["repository"] or ""
    parts = _parts(upload, name)
    simple = SIMPLE.get(parts.hostname)
    if simple:
        upload = parts._replace(scheme="https").geturl()  # a password is sent there
    read_at = simple or environ.get(READ_AT, "")
    return UploadIndex("" if is_address else name, upload, read_at, section, simple is not None)


def _parts(upload: str, name: str) -> SplitResult:
    try:
        parts = urlsplit(upload)
        _ = parts.port  # parsed only now; it may be part of a password
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        shown = "…" if "@" in name else clean_text(name)
        raise InputError(f'pypi:{shown} has no address to upload to, expected one such as "https://host/path/"')
    if parts.username or parts.password:
        msg = f"the upload address at {parts.hostname} names a user or a password"
        raise InputError(msg, hint="set them in TWINE_USERNAME and TWINE_PASSWORD, or in .pypirc")
    return parts


def _section(name: str, environ: Mapping[str, str]) -> RepositoryConfig:
    """Return the settings of an index from the user's .pypirc, or twine's defaults."""
    path = Path(environ.get("HOME") or environ.get("USERPROFILE") or "~").expanduser() / ".pypirc"
    try:
        config = get_config(str(path) if path.is_file() else os.devnull)
    except (OSError, TwineException, ValueError, configparser.Error):  # the error's text may contain a password
        raise InputError(f"{path} cannot be read as the configuration of indexes") from None
    if not config.get(name, {}).get("repository"):
        msg = f'there is no index "{clean_text(name)}", {nearest(name, config)}'
        raise InputError(msg, hint=f"give it a section with its `repository` in {path}, or give its upload address")
    return config[name]


MAX_SAID = 400  # characters of a server's message
UNAUTHORISED = (401, 403)
AGAIN = "run the same command again: it continues where it stopped"


def clean_text(text: str) -> str:
    """Return a server's message as one short line, without terminal control characters."""
    return CONTROL.sub(" ", " ".join(text.split()))[:MAX_SAID]
