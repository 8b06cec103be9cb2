"""Python interpreters on this machine, and the virtual environments made from them."""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.errors import FatwheelError, MachineError, Rejected
from ci_tools.machine.installers import PIP, Installer, choose_installer
from ci_tools.machine.process import ISOLATED, Ended, clean_environment, output, run, tail
from ci_tools.machine.waits import OF_RUN

if TYPE_CHECKING:
    from ci_tools.model.versions import Python

IDENTITY = (
    "import sys, sysconfig; "
    "print('{}.{}{}'.format(*sys.version_info[:2], 't' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''))"
)
# pip's last retry.
UNANSWERED = re.compile(r"Retry\(total=0,.* broken by '(?:.*: )?(.*?)(?:\"\))?': \S+$", re.MULTILINE)
OWN = ("-c", "--report")  # options whose file is not what is asked for
PACKAGES = ("lib/python*/site-packages", "Lib/site-packages")
IMAGES = Path("/opt/python")  # where manylinux images keep their interpreters (PEP 513)
# Messages of pip and uv if they cannot reach an index or the disk is full. A misspelt name also gives "none".
MACHINE_SIGNS = (
    "(from versions: none)",
    "was not found in the package registry",
    "was not found in the provided package locations",
    "Connection",
    "Failed to fetch",
    "Max retries",
    "Read timed out",
    "No space left on device",
)


def find(python: Python, environ: Mapping[str, str], images: Path = IMAGES) -> Path | None:
    """Return an interpreter of exactly this version and threading build, or None.

    The candidates are the running interpreter, those on PATH, those of pyenv, and those of a manylinux image, which
    are in `images` and not on PATH. A shim of pyenv stands for pyenv's own: it is a shell script that looks for them at
    each start, which takes a tenth of a second.
    """
    folders = [Path(folder) for folder in environ.get("PATH", "").split(os.pathsep) if folder]
    pyenv = Path(environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    versions = sorted((pyenv / "versions").glob(f"{python.version}*"), reverse=True)
    of_pyenv = [folder / "bin" / "python" for folder in versions]
    on_path = [of_pyenv if folder == pyenv / "shims" else [folder / f"python{python}"] for folder in folders]
    candidates = [
        Path(sys.executable),
        *(candidate for found in on_path for candidate in found),
        *(folder / "python.exe" for folder in folders),  # each Python has a folder of its own on Windows
        *of_pyenv,
        images / f"{python.interpreter_tag}-{python.abi_tag}" / "bin" / "python",
    ]
    usable = (path for path in candidates if os.access(path, os.X_OK) and name_version(path) == str(python))
    return next(usable, None)


def identity(interpreter: Path) -> str:
    """Return an interpreter's version and threading build as wheels name them: `cp311`, `cp313t`."""
    return f"cp{name_version(interpreter).replace('.', '')}"


def name_version(interpreter: Path) -> str:
    """Return what an interpreter is, such as 3.13t, empty if it does not say so; this one need not be started."""
    if interpreter != Path(sys.executable):
        return _ask_version(interpreter, interpreter.stat().st_mtime_ns) if interpreter.exists() else ""
    import sysconfig  # noqa: PLC0415 - a plan asks no interpreter

    is_free = sysconfig.get_config_var("Py_GIL_DISABLED")
    return f"{sys.version_info[0]}.{sys.version_info[1]}{'t' if is_free else ''}"


@functools.cache  # a run asks for one again and again, and a shim of pyenv takes ten times as long as an interpreter
def _ask_version(interpreter: Path, changed: int) -> str:
    """Return what an interpreter says; `changed`, the time of its file, tells it from another at the same path."""
    del changed
    return output([interpreter, ISOLATED, "-c", IDENTITY]) or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A virtual environment, the environment variables of its commands, and the log they write to."""

    path: Path
    variables: Mapping[str, str]
    log: Path
    installer: Installer = PIP

    @property
    def scripts(self) -> Path:
        """The folder with its commands."""
        return self.path / ("Scripts" if os.name == "nt" else "bin")

    @property
    def packages(self) -> Path:
        """The folder of what is installed in it: Lib/site-packages on Windows."""
        return next((found for pattern in PACKAGES for found in self.path.glob(pattern)), self.path)

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.scripts / ("python.exe" if os.name == "nt" else "python")

    def install(self, *arguments: str | Path, variables: Mapping[str, str] | None = None, fresh: str = "") -> None:
        """Install what these arguments of `pip install` name, the project `fresh` never from the installer's cache.

        `variables` override the environment's own. Raises MachineError if the network or the disk failed, Rejected if
        the installer refuses.
        """
        known = {**self.variables, **(variables or {})}
        command, shown = self.installer.install(self.python, arguments, known, fresh), _list_wanted(arguments)
        with OF_RUN.get().over(f"{self.installer.name} to install {shown}"):
            ended = run(command, log=self.log, env=self.installer.translate(known))
        if ended.status:
            raise self._explain_failure(shown, ended)

    def _explain_failure(self, shown: str, ended: Ended) -> FatwheelError:
        """Return the error of a failed install: MachineError for network or disk, Rejected for the project."""
        last = tail(self.log, 12, ended.start)
        why = f"; the last lines of {self.log}:\n{last}"
        if broken := UNANSWERED.search(last):
            why = f": no answer from the index: {broken[1]}; its log: {self.log}"
        msg = f"{self.installer.name} cannot install {shown}{why}"
        if any(sign in last for sign in MACHINE_SIGNS):
            return MachineError(msg, hint="check the network, the disk and the names, and run the same command again")
        return Rejected(msg)


def _list_wanted(arguments: Sequence[str | Path]) -> str:
    """Return what an installation is asked for: of a file of requirements its lines, of one of Fatwheel's nothing."""
    shown: list[str] = []
    for option, word in zip(("", *arguments), arguments, strict=False):
        if option == "-r":
            shown += Path(word).read_text(encoding="utf-8").splitlines()
        elif option not in OWN and word not in ("-r", *OWN):
            shown.append(word.name if isinstance(word, Path) else word)
    return " ".join(shown)


def create(
    interpreter: Path, path: Path, log: Path, environ: Mapping[str, str], extra: Mapping[str, str] | None = None
) -> Environment:
    """Create an empty environment at `path`, replacing what is there; its commands see few variables and `extra`."""
    shutil.rmtree(path, ignore_errors=True)
    variables = clean_environment(environ, extra or {})
    installer = choose_installer(environ)
    environment = Environment(path=path, variables=variables, log=log)
    search = os.pathsep.join((str(environment.scripts), variables.get("PATH", os.defpath)))
    own = {**variables, "PATH": search, "VIRTUAL_ENV": str(path)}
    environment = Environment(path=path, variables=own, log=log, installer=installer)
    ended = run(installer.create(interpreter, path), log=log, env=variables)
    if ended.status:
        msg = f"{interpreter} cannot make an environment:\n{tail(log, 8, ended.start)}"
        raise MachineError(msg, hint="Debian and Ubuntu keep it in a package of its own: python3-venv")
    return environment
