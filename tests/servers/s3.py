"""moto's S3, kept to a promise of S3's: a write is one step, with its condition and its metadata.

moto looks at a condition first and writes later, and shows an object before that has its metadata. Of two writers on
one condition both may be told that they were the one, and who looks at a page may find it without its generation.
Clients keep their connections, as with S3; moto's own server ends each, and looks for the service of each request
anew, which takes longer than the answer. A listing has moto parse the time of each object, which does not change: that
is done once. Run it as `python -m tests.servers.s3 PORT`.
"""

from __future__ import annotations

import functools
import sys
from io import BytesIO
from threading import Lock
from typing import TYPE_CHECKING

from cheroot.wsgi import Server
from moto.core import serialize
from moto.moto_server.werkzeug_app import create_backend_app

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
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length)
        if len(body) < length:  # the client has gone: S3 stores no part of an object
            start_response("400 Bad Request", [("Content-Length", "0")])
            return []
        with self.lock:
            return self.application({**environ, "wsgi.input": BytesIO(body)}, start_response)


if __name__ == "__main__":
    serialize.parse_to_aware_datetime = functools.lru_cache(100_000)(serialize.parse_to_aware_datetime)
    Server(("127.0.0.1", int(sys.argv[1])), OneAtATime(create_backend_app("s3")), numthreads=32).start()
