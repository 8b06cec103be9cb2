"""A request to the tests' GitHub, what it answers, and how that may go wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from email.utils import formatdate
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tests.servers.github_repository import GitHub

REPOSITORY = "octo/demo"
TOKEN = "ghp_of_the_tests"  # noqa: S105 - it opens this server alone
WHEN = "2026-11-21T12:00:00Z"
PAGE = 30  # releases or assets on a page where nobody asks for another number
API = rf"/repos/{REPOSITORY}"


class Fault(Enum):
    """How a request may go wrong, apart from an answer that says so."""

    CLOSE = "the connection is closed before anything is done"
    FORGET = "all is done, and the connection is closed without an answer"
    CUT = "the body of an upload, or of an answer, ends in its middle"
    CORRUPT = "a byte of an upload is stored wrong"
    DELAY = "the answer takes a second"


class Answer(NamedTuple):
    """What is answered: a status, a document or bytes, and headers."""

    status: int
    body: object = None
    headers: Mapping[str, str] = {}

    @property
    def data(self) -> bytes:
        """The bytes of the body."""
        if isinstance(self.body, bytes):
            return self.body
        return b"" if self.body is None else json.dumps(self.body).encode()


class Asked(NamedTuple):
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes
    headers: Mapping[str, str]

    @property
    def document(self) -> dict[str, Any]:
        """The body as JSON."""
        document: dict[str, Any] = json.loads(self.body)
        return document


class Unprocessable(Exception):
    """What GitHub refuses with status 422."""


def part_of(asked: Asked, content: bytes) -> Answer:
    """Return bytes, or the part of them that is asked for (RFC 9110, 14)."""
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", asked.headers.get("Range", ""))
    if found is None:
        return Answer(200, content)
    size = len(content)
    start = int(found[1]) if found[1] else max(size - int(found[2]), 0)
    stop = min(int(found[2]) + 1, size) if found[1] and found[2] else size
    return Answer(206, content[start:stop], {"Content-Range": f"bytes {start}-{stop - 1}/{size}"})


def missing() -> Answer:
    return refusal(404, "Not Found")


def refusal(status: int, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    """Return an answer that says what is wrong."""
    document = {"message": message, "documentation_url": "https://docs.github.com/rest", "status": str(status)}
    return Answer(status, document, headers or {})


def paged(asked: Asked, hub: GitHub, whole: list[dict[str, Any]]) -> Answer:
    """Return one page, and where the next one is."""
    size, page = int(asked.query.get("per_page", PAGE)), int(asked.query.get("page", 1))
    following = f'<{hub.url}{asked.path}?per_page={size}&page={page + 1}>; rel="next"'
    headers = {"Link": following} if len(whole) > size * page else {}
    return Answer(200, whole[size * (page - 1) : size * page], headers)


def rate_limited(seconds: int = 1) -> Answer:
    """Return what GitHub says where a token's requests of an hour are used up; its clock decides when they are back."""
    now = 1_800_000_000  # another time than this machine's, as clocks differ
    headers = {
        "x-ratelimit-remaining": "0",
        "x-ratelimit-reset": str(now + seconds),
        "Date": formatdate(now, usegmt=True),
    }
    return refusal(403, "API rate limit exceeded for user ID 1.", headers)


def asked_too_fast(seconds: int = 1, status: int = 403) -> Answer:
    """Return what GitHub says where too much is asked at once."""
    message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
    return refusal(status, message, {"retry-after": str(seconds)})


def page_of(asked: Asked, key: str, whole: list[dict[str, Any]]) -> Answer:
    """Return the page of a list that is asked for."""
    size, page = int(asked.query.get("per_page", 30)), int(asked.query.get("page", 1))
    return Answer(200, {"total_count": len(whole), key: whole[size * (page - 1) : size * page]})
