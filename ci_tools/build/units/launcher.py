"""Stands in for a compiler: asks the build what to do with the call, and does it.

It is started for every compiler call of a build, as a script without the package around it, so it imports next to
nothing: the modules that Python starts with, and the socket.
"""

from __future__ import annotations

import _socket
import os
import sys

EMPTY = ((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),)


def send(line: _socket.socket, fields: list[bytes]) -> None:
    """Send fields, each with its length before it; their number comes first."""
    parts = [len(fields).to_bytes(4, "big")]
    for field in fields:
        parts += [len(field).to_bytes(4, "big"), field]
    line.sendall(b"".join(parts))


def receive(line: _socket.socket) -> list[bytes]:
    """Return the next fields; raise EOFError where there are none."""

    def read(size: int) -> bytes:
        content = b""
        while len(content) < size:
            part = line.recv(min(size - len(content), 1 << 20))
            if not part:
                raise EOFError
            content += part
        return content

    count = int.from_bytes(read(4), "big")
    return [read(int.from_bytes(read(4), "big")) for _ in range(count)]


def run(said: bytes, errors: bytes, told: list[bytes], words: list[bytes]) -> list[bytes]:
    """Run a program with further variables; return its status, microseconds of processor time and KiB of memory."""
    new = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    sinks = ((os.POSIX_SPAWN_OPEN, 1, said, new, 0o600), (os.POSIX_SPAWN_OPEN, 2, errors, new, 0o600))
    environ = {**os.environb, **dict(variable.split(b"=", 1) for variable in told)}
    process = os.posix_spawn(words[0], words, environ, file_actions=[*EMPTY, *sinks])
    _, status, used = os.wait4(process, 0)
    microseconds = round((used.ru_utime + used.ru_stime) * 1e6)
    return [b"%d" % one for one in (os.waitstatus_to_exitcode(status), microseconds, used.ru_maxrss)]


def main(address: str, name: str, words: list[str]) -> int:
    """Ask the build at `address` about one call, and do what it says, until it says how the call ended."""
    line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        line.connect(address)
    except OSError:
        print(f"fatwheel: {name} belongs to a build that has ended", file=sys.stderr)
        return 1
    variables = [b"%s=%s" % pair for pair in os.environb.items()]
    send(line, [os.fsencode(name), os.getcwdb(), b"%d" % len(words), *map(os.fsencode, words), *variables])
    while True:
        try:
            kind, *fields = receive(line)
        except (EOFError, ConnectionError):
            print(f"fatwheel: the build does not say what {name} stands for", file=sys.stderr)
            return 1
        if kind == b"done":
            os.write(1, fields[1]) if fields[1] else None
            os.write(2, fields[2]) if fields[2] else None
            return int(fields[0])
        said, errors, count, *rest = fields
        told, command = rest[: int(count)], rest[int(count) :]
        if kind == b"exec":
            environ = {**os.environb, **dict(variable.split(b"=", 1) for variable in told)}
            os.execve(command[0], command, environ)
        send(line, run(said, errors, told, command))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
