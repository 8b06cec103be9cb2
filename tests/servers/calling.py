"""Calls a program that `tests.servers.prepared` forks; what it imports costs a new Python next to nothing."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence


def call(
    address: str,
    arguments: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    files: tuple[int, int],
    timeout: float | None = None,
) -> int | None:
    """Run a program, whose output and errors go to two open files; return its status, None where it was killed."""
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(timeout)
        ask(channel, address, arguments, cwd=cwd, env=env, files=files)
        status = channel.recv(1)
    return status[0] if status else None


def ask(
    channel: socket.socket,
    address: str,
    arguments: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    files: tuple[int, int],
) -> None:
    """Have a program run that ends when the channel is closed, whatever it does."""
    request = json.dumps([list(arguments), cwd, dict(env)]).encode()
    channel.connect(address)
    socket.send_fds(channel, [len(request).to_bytes(8, "big")], [*files])
    channel.sendall(request)
