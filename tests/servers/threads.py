"""Runs a server of this process in a thread, for as long as a test needs it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from socketserver import BaseServer

    ServerT = TypeVar("ServerT", bound=BaseServer)


@contextmanager
def serve(server: ServerT) -> Iterator[ServerT]:
    """Let the server answer until the body ends, and close it, also if the body fails; then fail if a client was wrong.

    A thread that goes on with a closed socket never waits again: it takes a processor until the tests end.
    """
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
    flaws = getattr(server, "flaws", [])
    assert not flaws, "\n".join(flaws[:5])
