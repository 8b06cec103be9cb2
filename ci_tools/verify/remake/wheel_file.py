"""The wheel to verify: a file, or one that is fetched from its address."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ci_tools.errors import InputError
from ci_tools.machine.context import Outside
from ci_tools.machine.http.policy import explain_unanswered
from ci_tools.machine.storage import sha256_of

WHEEL = re.compile(r"[\w.+!-]+\.whl")


def fetch_wheel(named: str, folder: Path, outside: Outside) -> Path:
    """Return the path of a wheel, fetched into `folder` if it is named by its address.

    Raises InputError if it is not a wheel, or if its sha256 is not the one in its address (`#sha256=`).
    """
    if not re.match(r"https?://", named):
        path = Path(named)
        if not WHEEL.fullmatch(path.name) or path.is_dir():
            raise InputError(f"{named} is not a wheel, expected a file that ends in .whl, or the address of one")
        if not path.is_file():
            raise InputError(f"there is no file {named}", hint="for a link of an index's page, give the whole address")
        return path
    from ci_tools.machine.http.client import Body, open_session  # noqa: PLC0415 - a file needs no client

    address = urlsplit(named)
    name = unquote(address.path.rpartition("/")[2])
    if not WHEEL.fullmatch(name):  # a page, say: nothing is fetched
        raise InputError(f"{named} is not the address of a wheel, expected one that ends in .whl")
    path = folder / name
    explained = explain_unanswered(f"{name} cannot be fetched", gone=InputError)
    with outside.reporter.step(f"fetch {name}"), explained, open_session() as session:
        path.write_bytes(b"".join(Body(session, named.partition("#")[0])))
    said = re.search(r"\bsha256=([0-9a-f]{64})\b", address.fragment)
    if said and sha256_of(path) != said[1]:
        raise InputError(f"{name} has the sha256 {sha256_of(path)}, and its address gives {said[1]}")
    return path
