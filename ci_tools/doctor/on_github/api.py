"""The API of one repository: answers, pages of answers, and changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ci_tools.doctor.report import Unseen
from ci_tools.errors import InputError, Rejected
from ci_tools.github.client import found_or_none

if TYPE_CHECKING:
    from collections.abc import Callable

    from github.Repository import Repository

    from ci_tools.github.client import Hub

Value = TypeVar("Value")
Answer = dict[str, Any]
MAX_PAGES = 20
PAGE = 100


@dataclass(frozen=True, slots=True)
class Api:
    """The API of one repository, with the retries of the hub."""

    hub: Hub
    opened: Repository

    @property
    def name(self) -> str:
        """The repository's present name; it may have been renamed."""
        return self.opened.full_name

    def get(self, path: str, repository: str = "", **parameters: str | int) -> Any:  # noqa: ANN401 - any JSON
        """Return an answer; None on HTTP 404; raise InputError if the token may not read it."""
        return self._send("GET", f"/repos/{repository or self.name}{path}", parameters=parameters)

    def pages(self, path: str, key: str = "", repository: str = "") -> list[Any] | None:
        """Return a whole list, which GitHub sends in pages; None on HTTP 404, or if it is longer than `MAX_PAGES`."""
        whole: list[Any] = []
        for page in range(1, MAX_PAGES + 1):
            answer = self.get(path, repository, per_page=PAGE, page=page)
            if answer is None:
                return None
            part = answer[key] if key else answer
            whole += part
            if len(part) < PAGE:
                return whole
        return None

    def send(self, method: str, path: str, body: object = None) -> None:
        """Send a change; raise FatwheelError if GitHub refuses it."""
        self._send(method, f"/repos/{self.name}{path}", input=body)

    def _send(self, method: str, path: str, **more: Any) -> Any:  # noqa: ANN401 - any JSON
        def call() -> Any:  # noqa: ANN401
            return self.opened.requester.requestJsonAndCheck(method, path, **more)[1]

        return self.hub.ask(lambda _: found_or_none(call) if method == "GET" else call())


def answer_or_none(call: Callable[[], Value | None]) -> Value | None:
    """Return the result of a call; None if the token may not read it, or if it does not exist."""
    try:
        return call()
    except (InputError, Rejected):
        return None


def read_or_unseen(what: str, needs: str, call: Callable[[], Value | None]) -> Value | Unseen:
    """Return the result of a call, or Unseen if the token cannot read it."""
    value = answer_or_none(call)
    return Unseen(what, needs) if value is None else value
