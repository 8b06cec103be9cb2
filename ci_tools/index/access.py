"""Asks a web server for a file as its users do: without credentials."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from ci_tools.errors import MachineError
from ci_tools.machine.http.faults import UNANSWERED
from ci_tools.machine.http.policy import TIMEOUT, is_temporary

if TYPE_CHECKING:
    from requests import PreparedRequest


def explain_refusal(url: str) -> str:
    """Return why the file at an address cannot be fetched without credentials, or "".

    Raises MachineError without an answer, or with one that may be another later.
    """
    from ci_tools.machine.http.client import open_session  # noqa: PLC0415 - only a smart release needs it

    def leave_anonymous(request: PreparedRequest) -> PreparedRequest:
        return request  # else requests looks for a password in .netrc

    try:
        with open_session() as session:
            session.auth = leave_anonymous
            with session.get(url, headers={"Range": "bytes=0-0"}, stream=True, timeout=TIMEOUT) as answer:
                status = answer.status_code
    except UNANSWERED as error:
        raise MachineError(f"{url} does not answer: {type(error).__name__}") from error
    if is_temporary(status):
        raise MachineError(f"{url} answers {status}")
    return f"{url} answers {status} without credentials" if status >= HTTPStatus.BAD_REQUEST else ""
