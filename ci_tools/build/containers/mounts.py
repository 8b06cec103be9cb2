"""The folders and variables of this machine that a container sees, and where it sees them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from ci_tools.errors import FatwheelError
from ci_tools.machine.installers import read_pip_settings
from ci_tools.machine.process import INHERITED_OF_PIP
from ci_tools.source import git
from ci_tools.source.checkout import list_borrowed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = "/fatwheel"  # of everything that is mounted and is not seen at its own place
CACHE, HOME, OUT, TOOLKIT = f"{ROOT}/cache", f"{ROOT}/home", f"{ROOT}/out", f"{ROOT}/toolkit"
PLAN = f"{ROOT}/plan.json"
# Observations are sealed with a key of the user's that no container gets: each side would observe again.
APART = ("configured", "observations", "stages")
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "PIP_CLIENT_CERT")
PLACES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS")
OTHERS = ("FATWHEEL_CUDA_REDIST", "FATWHEEL_UNITS")
# A container has its own cache and configuration of pip, and no keyring of the user's.
OWN = frozenset({"PIP_CACHE_DIR", "PIP_CONFIG_FILE", "PIP_KEYRING_PROVIDER", *CERTIFICATES})


class Mount(NamedTuple):
    """A file or folder of this machine, and where a container sees it."""

    source: Path
    target: str
    is_writable: bool = False

    def spell(self) -> str:
        """Return it as the value of `--mount`, which podman and docker read as CSV."""
        words = ["type=bind", f"source={self.source}", f"target={self.target}"]
        words += [] if self.is_writable else ["readonly"]
        return ",".join(f'"{word}"' if "," in word else word for word in words)


class ContainerIndex(NamedTuple):
    """How a build in a container reaches the package index."""

    passed: Mapping[str, str]  # in the user's words, which may hold a password: no command line shows them
    told: Mapping[str, str]  # in ours
    mounts: tuple[Mount, ...]


def read_settings(environ: Mapping[str, str]) -> ContainerIndex:
    """Return the user's settings of pip, proxies and certificates; of all other variables a build sees none."""
    known = read_pip_settings(environ)
    passed = {name: known[name] for name in (*INHERITED_OF_PIP, *PROXIES, *OTHERS) if known.get(name)}
    passed = {name: value for name, value in passed.items() if name not in OWN}
    files = {name: Path(known[name]).resolve() for name in CERTIFICATES if known.get(name)}
    files = {name: path for name, path in files.items() if path.is_file()}
    told = {name: f"{ROOT}/settings/{name.lower()}/{path.name}" for name, path in files.items()}
    folders = dict.fromkeys(folder for name in PLACES for folder in _folders(known.get(name, "")))
    return ContainerIndex(
        passed,
        told,
        (
            *(Mount(files[name], target) for name, target in told.items()),
            *(Mount(folder, str(folder)) for folder in folders),
        ),
    )


def _folders(words: str) -> Iterator[Path]:
    """Yield the folders of this machine among the places where pip looks."""
    for word in words.split():
        path = Path(unquote(urlsplit(word).path) if word.startswith("file:") else word)
        # An index names its files by paths relative to it: its pages are in a folder of their own (PEP 503).
        whole = path.parent if path.name == "simple" else path
        if path.is_absolute() and path.exists():
            yield whole


def list_cache(cache: Path) -> tuple[Mount, ...]:
    """Return what is mounted of the cache: all of it, but what was observed here."""
    apart = {cache / "containers" / name: f"{CACHE}/{name}" for name in APART}
    for folder in (*apart, *(cache / name for name in APART)):
        folder.mkdir(parents=True, exist_ok=True)
    whole = Mount(cache, CACHE, is_writable=True)
    return whole, *(Mount(folder, target, is_writable=True) for folder, target in apart.items())


def list_source(config: Path, root: Path, cache: Path, environ: Mapping[str, str]) -> tuple[Mount, ...]:
    """Return what is mounted of a project: its checkout, and its source where that is elsewhere.

    Each is seen at its own path: the plan is made again there, and links and git's own files name it.
    """
    found: list[Path] = []
    for folder in (config.absolute().parent, root.absolute()):
        if folder.is_relative_to(cache):  # mounted as a whole
            continue
        for each in _checkout(folder, environ):
            if not any(each.is_relative_to(other) for other in found):
                found = [other for other in found if not other.is_relative_to(each)] + [each]
    return tuple(Mount(folder, str(folder)) for folder in found)


def _checkout(folder: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield a folder's checkout and its repository, which are apart in a worktree; the folder itself without one.

    A repository that borrows objects, as `git clone --shared` makes one, is nothing without those it borrows from.
    """
    try:
        top = git.top(folder, environ)
    except FatwheelError:
        yield folder
        return
    yield top
    own = git.common(top, environ)
    yield own
    yield from list_borrowed(own)
