"""The HTTP client: sessions that try again, documents read as a whole, and files read from any byte on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError, ReadTimeoutError
from urllib3.util import Retry

from ci_tools.machine.http.policy import (
    MAX_ASKED,
    MAX_DOCUMENT,
    NOT_YET,
    REQUEST,
    SERVER_ERROR,
    TIMEOUT,
    BrokenOff,
    NoParts,
    TooLarge,
)
from ci_tools.machine.waits import OF_RUN

if TYPE_CHECKING:
    from urllib3.response import BaseHTTPResponse

AS_IT_IS = {"Accept-Encoding": "identity"}  # the bytes that have the file's hash, as in pip
PIECE = 1 << 16  # bytes; of an answer that breaks off, the last piece is lost
PART_OF = re.compile(r"bytes (\d+)-\d+/(\d+)")  # Content-Range (RFC 9110, 14.4)


class _BoundedRetry(Retry):
    """urllib3's own, but for a server that names a long wait or was silent: the user would see nothing meanwhile."""

    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        """Return the seconds that a server asks to wait, up to a limit."""
        asked = super().get_retry_after(response)
        return None if asked is None else min(asked, MAX_ASKED)

    def increment(self, *arguments: Any, **more: Any) -> Retry:  # type: ignore[override]  # noqa: ANN401 - urllib3's
        """Count a failed try; raise the error of the last, or of a server that was silent."""
        if isinstance(more.get("error"), ReadTimeoutError):
            raise more["error"]
        return super().increment(*arguments, **more)


RETRY = _BoundedRetry(
    total=REQUEST.tries - 1,
    backoff_factor=REQUEST.first / 2,
    backoff_max=REQUEST.longest,
    status_forcelist=(*NOT_YET, *range(SERVER_ERROR, 600)),
    raise_on_status=False,
)


class _Adapter(HTTPAdapter):
    """requests' own, but the run reports that it waits for an answer: all tries together take minutes."""

    def send(self, request: requests.PreparedRequest, *options: Any, **more: Any) -> requests.Response:  # noqa: ANN401
        """Return the answer to a request."""
        with OF_RUN.get().over(f"{urlsplit(str(request.url)).hostname} to answer"):
            return super().send(request, *options, **more)


@contextmanager
def open_session(certificates: str = "") -> Iterator[requests.Session]:
    """Yield an HTTP session that tries again; `certificates` is a CA bundle (empty: the client's own)."""
    with requests.Session() as session:
        session.verify = certificates or True
        for scheme in ("https://", "http://"):
            session.mount(scheme, _Adapter(max_retries=RETRY))
        yield session


def read_document(session: requests.Session, url: str, most: int = MAX_DOCUMENT) -> bytes | None:
    """Return what is at an address, unpacked if the server packed it; None if nothing is there (404).

    Raises requests' errors for any other answer than the document, and TooLarge if it has more than `most` bytes.
    """
    return REQUEST.call(lambda: _read_once(session, url, most), BrokenOff)


def _read_once(session: requests.Session, url: str, most: int) -> bytes | None:
    content = bytearray()
    with session.get(url, timeout=TIMEOUT, stream=True) as answer:
        if answer.status_code == requests.codes.not_found:
            return None
        answer.raise_for_status()
        try:
            for piece in answer.iter_content(PIECE):
                content += piece
                if len(content) > most:
                    break
        except requests.RequestException as error:
            raise BrokenOff(str(error)) from error
    if len(content) > most:
        raise TooLarge(f"it has more than {most:,} bytes")
    return bytes(content)


class Body:
    """The bytes of a file on a server from a position on, asked for again where an answer breaks off.

    A negative position counts from the file's end. `stop` is the offset after the last byte (0: the end). A server that
    sends no parts sends the start again, which is skipped; with `in_parts` it raises NoParts instead.
    """

    def __init__(
        self,
        session: requests.Session,
        url: str,
        position: int = 0,
        stop: int = 0,
        *,
        in_parts: bool = False,
        state: tuple[int, str] = (0, ""),
    ) -> None:
        self._session, self._url, self._stop, self._in_parts = session, url, stop, in_parts
        self.position, self.state = position, state  # the file's size (0: not known), and its ETag or date
        self._skip = 0  # bytes of the answer that were read before
        self._answer: requests.Response | None = None
        self._ask()

    @property
    def stop(self) -> int:
        """The offset after the last byte; 0 if the server does not say how many there are."""
        return self._stop or self.state[0]

    def __iter__(self) -> Iterator[bytes]:
        """Yield the bytes piece by piece; the run reports a server that sends none."""
        with OF_RUN.get().over(f"{urlsplit(self._url).hostname} to send more", lambda: self.position):
            yield from iter(lambda: self.read(PIECE), b"")

    def read(self, wanted: int) -> bytes:
        """Return the next bytes, at most as many as wanted and one piece; b"" at the end."""
        return REQUEST.call(lambda: self._read_once(min(wanted, PIECE)), BrokenOff)

    def close(self) -> None:
        """Close the open answer; another read asks again."""
        if self._answer is not None:  # it is false if its status is an error's
            self._answer.close()
        self._answer = None

    def _read_once(self, wanted: int) -> bytes:
        raw = (self._answer or self._ask()).raw
        try:
            while self._skip and (skipped := raw.read(min(self._skip, PIECE))):
                self._skip -= len(skipped)
            piece: bytes = raw.read(wanted)
        except HTTPError as error:
            self.close()
            raise BrokenOff(str(error)) from error
        self.position += len(piece)
        if not piece and self.position < self.stop:
            self.close()
            raise BrokenOff(f"the server stopped after {self.position:,} bytes of {self.stop:,}")
        return piece

    def _ask(self) -> requests.Response:
        part = f"{self.position}{'-' if self.position >= 0 else ''}{self._stop - 1 if self._stop else ''}"
        headers = {**AS_IT_IS, **({"Range": f"bytes={part}"} if self.position or self._in_parts else {})}
        self._answer = self._session.get(self._url, headers=headers, timeout=TIMEOUT, stream=True)
        try:
            starts = self._check(self._answer)
        except BaseException:
            self.close()
            raise
        self.position = starts if self.position < 0 else self.position
        self._skip = self.position - starts
        return self._answer

    def _check(self, answer: requests.Response) -> int:
        """Return the offset of an answer's first byte; raise an error if the answer is of another file."""
        answer.raise_for_status()
        said = PART_OF.fullmatch(answer.headers.get("Content-Range", ""))
        starts = int(said[1]) if said else 0
        if self._in_parts and (said is None or 0 <= self.position != starts):
            raise NoParts("the server does not send a part of a file")
        size = int(said[2]) if said else int(answer.headers.get("Content-Length", 0))
        tag = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
        if self.state[0] and self.state != (size, tag):
            raise OSError("the file was replaced on the server while it was read")
        self.state = size, tag
        return starts
