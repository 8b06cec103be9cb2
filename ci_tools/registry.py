"""Files from the package index the user's pip is set up for, downloaded whole and checked against a known hash."""

from __future__ import annotations

import hashlib
import sys
from typing import TYPE_CHECKING

import requests
from packaging.utils import canonicalize_name
from pypi_simple import PYPI_SIMPLE_ENDPOINT, NoSuchProjectError, PyPISimple, UnsupportedContentTypeError

from ci_tools.errors import InputError, MachineError, nearest
from ci_tools.process import output
from ci_tools.storage import CHUNK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = ["download", "index_url"]

TIMEOUT = 60.0  # seconds without a byte


def index_url(environ: Mapping[str, str]) -> str:
    """Return the index pip uses: `PIP_INDEX_URL`, its configuration, or the client's own default."""
    configured = output([sys.executable, "-m", "pip", "config", "get", "global.index-url"])
    return environ.get("PIP_INDEX_URL") or configured or PYPI_SIMPLE_ENDPOINT


def download(
    project: str,
    file: str,
    sha256: str,
    destination: Path,
    *,
    index: str,
    progress: Callable[[int, int], None],
) -> None:
    """Write `file` of `project` to `destination`; `progress` hears bytes done and bytes in all.

    An sdist may be spelt with `-`, `_` or `.` in its name. Raises InputError where the index has no such file
    or its bytes have another sha256, MachineError where the index does not answer.
    """
    try:
        with PyPISimple(index) as client:
            url = _url(client, project, file)
            digest = _fetch(client.s, url, destination, progress)
    except (requests.RequestException, UnsupportedContentTypeError, OSError) as error:
        msg = f"{file} cannot be fetched from the package index: {_reason(error)}"
        raise MachineError(msg, hint="check the network and run the same command again") from None
    if digest != sha256:
        destination.unlink()
        msg = f"{file} has the sha256 {digest}, expected {sha256}"
        raise InputError(msg)


def _url(client: PyPISimple, project: str, file: str) -> str:
    try:
        packages = client.get_project_page(project, timeout=TIMEOUT).packages
    except NoSuchProjectError:
        msg = f'the package index has no project "{project}"'
        raise InputError(msg) from None
    urls = {canonicalize_name(package.filename): package.url for package in packages}
    if canonicalize_name(file) not in urls:
        newest = [package.filename for package in packages[-400:]]
        msg = f'the package index has no file "{file}", {nearest(file, newest)}'
        raise InputError(msg)
    return urls[canonicalize_name(file)]


def _fetch(session: requests.Session, url: str, destination: Path, progress: Callable[[int, int], None]) -> str:
    """Stream `url` to `destination` and return the sha256 of what came."""
    digest, done = hashlib.sha256(), 0
    with session.get(url, stream=True, timeout=TIMEOUT) as response, destination.open("wb") as sink:
        response.raise_for_status()
        total = int(response.headers.get("Content-Length", 0))
        for chunk in response.iter_content(CHUNK):
            digest.update(chunk)
            sink.write(chunk)
            done += len(chunk)
            progress(done, total)
    return digest.hexdigest()


def _reason(error: Exception) -> str:
    """Return the innermost cause in a few words, without the addresses a client wraps it in."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]  # an Exception caused it
    return str(error).rpartition("] ")[2] or type(error).__name__
