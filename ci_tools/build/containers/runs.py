"""Runs a command in a container: as the caller, with few folders and variables, and gone when the run has ended."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from filelock import FileLock, Timeout

from ci_tools.build.folders import base_folder, own_locks
from ci_tools.errors import FatwheelError
from ci_tools.machine.context import Outside
from ci_tools.machine.installers import read_pip_settings
from ci_tools.machine.process import INHERITED_OF_PIP, Ended, output, run
from ci_tools.source import git
from ci_tools.source.checkout import list_borrowed

if TYPE_CHECKING:
    from ci_tools.build.containers.engines import Engine, EngineImage

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
LABEL = "fatwheel"  # of our containers, with the user's number: those that a killed run left are found by it
# The input stays open as long as the engine's client lives: a named pipe that it has open for reading and writing. If
# the client is killed, _lifeline.py in the container reads the end of its input, and ends all that runs there.
HOLD = 'exec "$@" <>"$0"'
VARIABLES: Mapping[str, str] = {
    "HOME": HOME,
    "FATWHEEL_CACHE": CACHE,
    "FATWHEEL_CONTAINERS": "none",
    "PIP_CACHE_DIR": f"{CACHE}/containers/pip",
    # The source may belong to another user than the container's, whom git would refuse: here it was read already.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Runs commands in new containers of one image."""

    engine: Engine
    image: EngineImage
    settings: ContainerIndex
    outside: Outside

    def run(
        self,
        command: Sequence[str],
        mounts: Iterable[Mount],
        *,
        log: Path,
        minutes: int,
        variables: Mapping[str, str] | None = None,
    ) -> Ended:
        """Run a command in a container that is removed afterwards; its output is appended to the log."""
        environ = {**self.outside.environ, **self.settings.passed}
        name = f"fatwheel-{secrets.token_hex(8)}"  # two runs may start at once
        with self._hold(name), tempfile.TemporaryDirectory(prefix="fatwheel-") as folder:
            pipe, home = Path(folder) / "input", Path(folder) / "home"
            os.mkfifo(pipe)
            home.mkdir()
            inside = (*mounts, Mount(home, HOME, is_writable=True))
            words = self.spell(name, command, inside, {**VARIABLES, **(variables or {})})
            try:
                return run(["sh", "-c", HOLD, pipe, *words], log=log, env=environ, timeout=minutes * 60)
            finally:
                self._remove(name)  # also where the client was killed by its time limit

    def spell(
        self, name: str, command: Sequence[str], mounts: Iterable[Mount], variables: Mapping[str, str]
    ) -> list[str]:
        """Return the engine's command line."""
        # Without root, the container's root is the caller; else the caller's own number owns what is made.
        user = "0:0" if self.engine.is_rootless else f"{os.getuid()}:{os.getgid()}"
        told = {**variables, **self.settings.told}
        return [
            *(self.engine.program, "run", "--rm", "--interactive", "--pull=never"),  # the image's id is part of the key
            *("--name", name, "--label", f"{LABEL}={os.getuid()}", "--user", user, "--workdir", "/"),
            *("--security-opt", "label=disable"),  # SELinux would hide the mounted folders, or have them relabelled
            *(word for mount in (*mounts, *self.settings.mounts) for word in ("--mount", mount.spell())),
            *(word for key, value in told.items() for word in ("--env", f"{key}={value}")),
            *(word for key in self.settings.passed for word in ("--env", key)),  # the engine takes its own value
            *("--entrypoint", command[0], self.image.id, *command[1:]),
        ]

    @contextmanager
    def _hold(self, name: str) -> Iterator[None]:
        """Hold the lock of a container for as long as it may be there, and remove those whose run was killed.

        An engine may call a container running whose processes are all killed: podman does if its monitor was, too.
        """
        locks = own_locks(base_folder())
        asked = ("ps", "--all", "--filter", f"label={LABEL}={os.getuid()}", "--format", "{{.Names}}")
        for left in (output([self.engine.program, *asked], env=self.outside.environ) or "").split():
            with suppress(Timeout), FileLock(locks / f"{left}.lock", timeout=0):  # its run still lives
                self._remove(left)
                (locks / f"{left}.lock").unlink(missing_ok=True)
        with FileLock(locks / f"{name}.lock"):
            try:
                yield
            finally:
                (locks / f"{name}.lock").unlink(missing_ok=True)

    def _remove(self, name: str) -> None:
        output([self.engine.program, "rm", "--force", name], env=self.outside.environ)


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
        if path.is_absolute() and path.exists():  # pip takes a relative one from the working folder
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
