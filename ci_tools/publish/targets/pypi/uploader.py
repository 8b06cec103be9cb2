"""The program that uploads a file, twine or uv: its command, its environment, and the error if it fails."""

from __future__ import annotations

import html
import re
import sys
import tempfile
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.addresses import redact
from ci_tools.errors import FatwheelError, InputError, MachineError, Rejected
from ci_tools.machine.http.policy import is_temporary
from ci_tools.machine.process import run, start_module
from ci_tools.machine.waits import Waits
from ci_tools.publish.targets.pypi.place import AGAIN, READ_AT, UNAUTHORISED, UploadIndex, clean_text

if TYPE_CHECKING:
    from ci_tools.index.units import Item
    from ci_tools.machine.context import Outside

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
