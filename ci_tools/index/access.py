"""Asks a web server for a file as its users do: without credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.errors import MachineError

if TYPE_CHECKING:
    from requests import PreparedRequest

TIMEOUT = 20  # seconds until a server has to answer
BUSY = frozenset({408, 425, 429})  # statuses that may be others a moment later


def explain_refusal(url: str) -> str:
    """Return why the file at an address cannot be fetched without credentials, or "".

    Raises MachineError without an answer, or with one that may be another later.
    """
    import requests  # noqa: PLC0415 - only a smart release needs it

    def leave_anonymous(request: PreparedRequest) -> PreparedRequest:
        return request  # else requests looks for a password in .netrc

    try:
        answer = requests.get(url, auth=leave_anonymous, headers={"Range": "bytes=0-0"}, stream=True, timeout=TIMEOUT)
    except requests.RequestException as error:
        msg = f"{url} does not answer: {type(error).__name__}"
        raise MachineError(msg) from error
    answer.close()
    status = answer.status_code
    if status >= requests.codes.server_error or status in BUSY:
        msg = f"{url} answers {status}"
        raise MachineError(msg)
    return f"{url} answers {status} without credentials" if status >= requests.codes.bad_request else ""
