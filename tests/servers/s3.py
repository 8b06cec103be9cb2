"""moto's S3, kept to a promise of S3's: a write is one step, with its condition and its metadata.

moto looks at a condition first and writes later, and shows an object before that has its metadata. Of two writers on
one condition both may be told that they were the one, and who looks at a page may find it without its generation.
Run it as `python -m tests.servers.s3 PORT`.
"""

from __future__ import annotations

import sys
from io import BytesIO
from threading import Lock
from typing import TYPE_CHECKING

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, run_simple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


class OneAtATime:
    """An application that answers requests one after the other, each once all of it has arrived."""

    def __init__(self, application: WSGIApplication) -> None:
        self.application = application
        self.lock = Lock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request, reads too: who reads in the middle of a write sees half of it."""
        body = BytesIO(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
        with self.lock:
            return self.application({**environ, "wsgi.input": body}, start_response)


class KeepsConnections(WSGIRequestHandler):
    """Answers all requests of a client on one connection, as S3 does."""

    protocol_version = "HTTP/1.1"


if __name__ == "__main__":
    served = OneAtATime(DomainDispatcherApplication(create_backend_app))
    run_simple("127.0.0.1", int(sys.argv[1]), served, threaded=True, request_handler=KeepsConnections)
