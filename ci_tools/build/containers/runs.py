"""Runs a command in a container of an image: as the caller, with few variables, and gone when the run has ended."""

from __future__ import annotations

import os
import secrets
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from ci_tools.build.containers.mounts import CACHE, HOME, ContainerIndex, Mount
from ci_tools.build.folders import base_folder, own_locks
from ci_tools.machine.process import output, run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ci_tools.build.containers.engines import Engine, EngineImage
    from ci_tools.machine.context import Outside
    from ci_tools.machine.process import Ended

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
        name = f"fatwheel-{secrets.token_hex(8)}"
        with self._hold(name), tempfile.TemporaryDirectory(prefix="fatwheel-") as folder:
            pipe, home = Path(folder) / "input", Path(folder) / "home"
            os.mkfifo(pipe)
            home.mkdir()
            inside = (*mounts, Mount(home, HOME, is_writable=True))
            words = self.spell(name, command, inside, {**VARIABLES, **(variables or {})})
            try:
                return run(["sh", "-c", HOLD, pipe, *words], log=log, env=environ, timeout=minutes * 60)
            finally:
                self._remove(name)

    def spell(
        self, name: str, command: Sequence[str], mounts: Iterable[Mount], variables: Mapping[str, str]
    ) -> list[str]:
        """Return the engine's command line."""
        # Without root, the container's root is the caller; else the caller's own number owns what is made.
        user = "0:0" if self.engine.is_rootless else f"{os.getuid()}:{os.getgid()}"
        told = {**variables, **self.settings.told}
        return [
            *(self.engine.program, "run", "--rm", "--interactive", "--pull=never"),
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
            with suppress(Timeout), FileLock(locks / f"{left}.lock", timeout=0):
                self._remove(left)
                (locks / f"{left}.lock").unlink(missing_ok=True)
        with FileLock(locks / f"{name}.lock"):
            try:
                yield
            finally:
                (locks / f"{name}.lock").unlink(missing_ok=True)

    def _remove(self, name: str) -> None:
        output([self.engine.program, "rm", "--force", name], env=self.outside.environ)
