"""Asks the engine that runs this process's container, as a job's on GitHub, for the digest of the container's image."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import quote

# GitHub's runner mounts it into the container of each job on Linux (actions/runner, src/Runner.Worker/Container).
ENGINE = Path("/var/run/docker.sock")
PATIENCE = 10.0  # seconds for an answer
MAX_ANSWER = 1 << 20  # bytes


class _EngineConnection(HTTPConnection):
    """A connection to an engine by its socket: no network is used."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)  # HTTP asks for a name; none is looked up
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(self._path))


def pin_image(name: str, engine: Path = ENGINE) -> str:
    """Return an image's name with the digest that the engine knows it by; as it is where no engine says one.

    The question is that of `docker image inspect`: https://docs.docker.com/reference/api/engine (ImageInspect).
    """
    if "@" in name or not engine.is_socket():
        return name
    try:
        with closing(_EngineConnection(engine)) as connection:
            connection.request("GET", f"/images/{quote(name, safe='/:')}/json")
            listed = json.loads(connection.getresponse().read(MAX_ANSWER))["RepoDigests"]
        digest = listed[0].rpartition("@")[2]
    except (OSError, HTTPException, LookupError, TypeError, ValueError, AttributeError):
        return name
    return f"{name}@{digest}"
