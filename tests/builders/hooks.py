"""The hooks of an sdist's build backend, called as an installer calls them, where no installer is the question."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from typing import NamedTuple
from zipfile import ZipFile

from pyproject_hooks import BuildBackendHookCaller

from ci_tools.formats.tar import tarfile
from tests.builders.smart_sdists import environ_of
from tests.servers.prepared import HOOKS, run_prepared

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from collections.abc import Mapping, Sequence
from pathlib import Path


class Answered(NamedTuple):
    """What the hooks answered and said; without a wheel, the last one failed."""

    said: str
    requires: Sequence[str] = ()
    wheel: Path | None = None

    def read(self, name: str) -> str:
        """Return the text of a file in the wheel."""
        assert self.wheel, self.said
        with ZipFile(self.wheel) as archive:
            return archive.read(name).decode()


def call_hooks(sdist: Path, tmp_path: Path, settings: Mapping[str, str] | None = None, **variables: str) -> Answered:
    """Unpack an sdist and make its wheel, as pip does: three hooks, each in a process of its own."""
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    source, out = tmp_path / "unpacked" / sdist.name.removesuffix(".tar.gz"), tmp_path / "out"
    environ, said = environ_of(tmp_path, variables), [""]

    def run(command: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None) -> None:
        done = run_prepared(
            command[2:], cwd=cwd, env={**environ, **(extra_environ or {})}, program=HOOKS, together=True
        )
        said.append(done.stdout)
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, command)

    system = tomllib.loads((source / "pyproject.toml").read_text("utf-8"))["build-system"]
    hooks = BuildBackendHookCaller(source, system["build-backend"], system["backend-path"], runner=run)
    for folder in (out, tmp_path / "metadata"):
        folder.mkdir(exist_ok=True)
    answered = Answered("")
    with suppress(subprocess.CalledProcessError):
        requires = hooks.get_requires_for_build_wheel(settings)
        answered = Answered("", requires)
        own = hooks.prepare_metadata_for_build_wheel(tmp_path / "metadata", settings)
        name = hooks.build_wheel(out, settings, str(tmp_path / "metadata" / own))
        answered = Answered("", requires, out / name)
    return answered._replace(said="".join(said))
