"""Downloads files from the package index that the user's pip is configured for, and checks their sha256."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import canonicalize_name

from ci_tools.errors import InputError, nearest
from ci_tools.machine.http.policy import TIMEOUT, explain_unanswered
from ci_tools.machine.installers import read_pip_settings
from ci_tools.machine.storage import write_atomically

if TYPE_CHECKING:
    import requests
    from pypi_simple import DistributionPackage, PyPISimple


class Index(NamedTuple):
    """A package index, and the CA bundle that verifies it (empty: the HTTP client's own)."""

    url: str
    certificates: str = ""


def users_index(environ: Mapping[str, str]) -> Index:
    """Return the index and CA bundle that pip uses: from its variables, its configuration, or the default here."""
    settings = read_pip_settings(environ)
    named = environ.get("PIP_CERT") or environ.get("REQUESTS_CA_BUNDLE") or settings.get("PIP_CERT")
    url = settings.get("PIP_INDEX_URL") or _default_url()
    return Index(url, named or ssl.get_default_verify_paths().cafile or "")


def _default_url() -> str:
    from pypi_simple import PYPI_SIMPLE_ENDPOINT  # noqa: PLC0415 - it loads longer than a plan is made

    return PYPI_SIMPLE_ENDPOINT


@contextmanager
def users_session(environ: Mapping[str, str]) -> Iterator[requests.Session]:
    """Yield an HTTP session with the CA bundle that pip uses."""
    from ci_tools.machine.http.client import open_session  # noqa: PLC0415 - it loads longer than a plan is made

    with open_session(users_index(environ).certificates) as session:
        yield session


class Places(NamedTuple):
    """Where pip looks for files: package indexes, and folders or pages of links."""

    indexes: tuple[str, ...]
    folders: tuple[str, ...]


def users_places(environ: Mapping[str, str]) -> Places:
    """Return every place that pip looks at: from its variables, its configuration, or the default here."""
    settings = read_pip_settings(environ)
    off = settings.get("PIP_NO_INDEX", "").lower() not in {"", "0", "f", "false", "n", "no", "off"}
    extra = settings.get("PIP_EXTRA_INDEX_URL", "").split()
    indexes = () if off else (users_index(environ).url, *extra)
    return Places(indexes, tuple(settings.get("PIP_FIND_LINKS", "").split()))


def add_indexes(environ: Mapping[str, str], indexes: Collection[str]) -> dict[str, str]:
    """Return the variables with which pip looks at these indexes too, beside the user's own; none for no index."""
    own = users_places(environ).indexes[1:] if indexes else ()
    return {"PIP_EXTRA_INDEX_URL": " ".join(dict.fromkeys([*own, *indexes]))} if indexes else {}


def download(
    project: str, file: str, sha256: str, destination: Path, *, index: Index, progress: Callable[[int, int], None]
) -> None:
    """Write `file` of `project` to `destination` atomically; call `progress` with the bytes done and the total.

    The name of an sdist may be spelt with `-`, `_` or `.`. Raises InputError if the index has no such file or if its
    sha256 differs, MachineError if the index does not answer.
    """
    from ci_tools.machine.http.client import Body  # noqa: PLC0415 - it loads longer than a plan is made

    digest = hashlib.sha256()
    with _asking(f"{file} cannot be fetched"), _client(index) as client, write_atomically(destination) as sink:
        body = Body(client.s, _url(client, project, file))
        for piece in body:
            digest.update(piece)
            sink.write(piece)
            progress(body.position, body.stop)
        if digest.hexdigest() != sha256:
            raise InputError(f"{file} has the sha256 {digest.hexdigest()}, expected {sha256}")


class Listing(NamedTuple):
    """The files of a project on an index, and the client that listed them; its HTTP session is `client.s`."""

    client: PyPISimple
    files: tuple[DistributionPackage, ...]


@contextmanager
def files_of(project: str, index: Index) -> Iterator[tuple[requests.Session, Mapping[str, str]]]:
    """Yield an HTTP session and the address of every file of `project`; raise the errors of `listing_of`."""
    with listing_of(project, index) as listing:
        yield listing.client.s, {package.filename: package.url for package in listing.files}


@contextmanager
def listing_of(project: str, index: Index) -> Iterator[Listing]:
    """Yield the files of `project`, and a client that fetches them.

    Raises InputError if the index has no such project, MachineError if it, or the server of a file, does not answer.
    """
    with _asking(f"{project} cannot be read"), _client(index) as client:
        yield Listing(client, _list(client, project))


def _asking(what: str) -> AbstractContextManager[None]:
    from pypi_simple import UnsupportedRepoVersionError  # noqa: PLC0415 - it loads longer than a plan is made

    return explain_unanswered(f"{what} from the package index", "", UnsupportedRepoVersionError)


@contextmanager
def _client(index: Index) -> Iterator[PyPISimple]:
    from pypi_simple import PyPISimple  # noqa: PLC0415 - it loads longer than a plan is made

    from ci_tools.machine.http.client import open_session  # noqa: PLC0415 - likewise

    with open_session(index.certificates) as session:
        yield PyPISimple(index.url, session=session)


def _list(client: PyPISimple, project: str) -> tuple[DistributionPackage, ...]:
    """Return the files of a project; raise InputError if the index has no such project."""
    from pypi_simple import NoSuchProjectError  # noqa: PLC0415 - it loads longer than a plan is made

    try:
        return tuple(client.get_project_page(project, timeout=TIMEOUT).packages)
    except NoSuchProjectError as error:
        raise InputError(f'the package index has no project "{project}"') from error


def _url(client: PyPISimple, project: str, file: str) -> str:
    packages = _list(client, project)
    urls = {canonicalize_name(package.filename): package.url for package in packages}
    if canonicalize_name(file) not in urls:
        newest = [package.filename for package in packages[-400:]]
        raise InputError(f'the package index has no file "{file}", {nearest(file, newest)}')
    return urls[canonicalize_name(file)]
