"""The programs that install packages into an environment: pip, or uv if the user asks for it.

uv gets pip's own settings, so that both install from the same indexes; among these it takes the best version, as pip
does. Its files are copied and not linked, since a build may change those of its environment.
"""

from __future__ import annotations

import ast
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ci_tools.errors import InputError, MachineError
from ci_tools.machine.process import ISOLATED, output, start_module

if TYPE_CHECKING:
    Words = Sequence[str | Path]
    Settings = Mapping[str, str]

INSTALLER = "FATWHEEL_INSTALLER"  # the variable that names the program
# https://docs.astral.sh/uv/reference/environment/ beside https://pip.pypa.io/en/stable/cli/pip/
OF_UV = {
    "REQUESTS_CA_BUNDLE": "SSL_CERT_FILE",
    "PIP_CERT": "SSL_CERT_FILE",  # the later of two that set the same wins
    "PIP_CLIENT_CERT": "SSL_CLIENT_CERT",
    "PIP_TIMEOUT": "UV_HTTP_TIMEOUT",
    "PIP_DEFAULT_TIMEOUT": "UV_HTTP_TIMEOUT",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_KEYRING_PROVIDER": "UV_KEYRING_PROVIDER",
    "PIP_NO_CACHE_DIR": "UV_NO_CACHE",
    "PIP_PROXY": "ALL_PROXY",
    "PIP_RETRIES": "UV_HTTP_RETRIES",
    "PIP_TRUSTED_HOST": "UV_INSECURE_HOST",
}
LISTS = {"UV_FIND_LINKS": ",", "UV_INDEX": " ", "UV_INSECURE_HOST": " "}  # pip separates all by spaces
# The variables by which pip finds its files: https://pip.pypa.io/en/stable/topics/configuration/#location
NAME_FILES = (
    *("APPDATA", "HOME", "PIP_CONFIG_FILE", "PROGRAMDATA", "SYSTEMROOT", "USERPROFILE"),
    *("XDG_CONFIG_DIRS", "XDG_CONFIG_HOME"),
)
OFF = frozenset({"", "0", "f", "false", "n", "no", "off"})  # as pip reads a switch


class Installer(Protocol):
    """A program that installs packages."""

    name: str
    command: str  # as a person types an installation

    def create(self, interpreter: Path, folder: Path) -> list[str | Path]:
        """Return the command that creates an empty environment."""
        ...

    def install(self, python: Path, arguments: Words, variables: Settings, fresh: str = "") -> list[str | Path]:
        """Return the command that installs what these arguments of `pip install` name; no cache has the fresh one."""
        ...

    def translate(self, variables: Mapping[str, str]) -> Mapping[str, str]:
        """Return the variables for these commands; `variables` holds the settings under pip's names."""
        ...


class _Pip:
    name, command = "pip", "pip install"

    def create(self, interpreter: Path, folder: Path) -> list[str | Path]:
        return [interpreter, ISOLATED, "-m", "venv", "--without-pip", folder]

    def install(self, python: Path, arguments: Words, variables: Settings, fresh: str = "") -> list[str | Path]:
        del variables, fresh  # it keeps no file of a folder, and asks a server whether what it kept is still right
        return [*start_module("pip"), "--python", python, "install", "--no-input", "--no-compile", *arguments]

    def translate(self, variables: Mapping[str, str]) -> Mapping[str, str]:
        return variables


class _Uv:
    name, command = "uv", "uv pip install"

    def __init__(self, program: str) -> None:
        self.program = program

    def create(self, interpreter: Path, folder: Path) -> list[str | Path]:
        return [self.program, "venv", "--quiet", "--no-config", "--no-project", "--python", interpreter, folder]

    def install(self, python: Path, arguments: Words, variables: Settings, fresh: str = "") -> list[str | Path]:
        options = ["--no-config", "--link-mode=copy", "--index-strategy=unsafe-best-match", "--no-progress"]
        if variables.get("PIP_NO_INDEX", "").lower() not in OFF and "--no-index" not in arguments:
            options.append("--no-index")  # uv knows no variable for it, and takes it once
        if fresh:  # uv keeps a wheel by its address, also where the bytes there are others by now
            options.append(f"--refresh-package={fresh}")
        return [self.program, "pip", "install", "--python", python, *options, *arguments]

    def translate(self, variables: Mapping[str, str]) -> Mapping[str, str]:
        """Return the variables with pip's settings, from variables and configuration files, under uv's names."""
        known = read_pip_settings(variables)
        settings = {of_uv: known[name] for name, of_uv in OF_UV.items() if known.get(name)}
        joined = {name: LISTS[name].join(settings[name].split()) for name in LISTS if name in settings}
        return {"UV_PYTHON_DOWNLOADS": "never", **variables, **settings, **joined}


PIP: Installer = _Pip()


def choose_installer(environ: Mapping[str, str]) -> Installer:
    """Return the installer that `FATWHEEL_INSTALLER` names, pip by default.

    Raises InputError if it names another program, MachineError if this machine has no uv.
    """
    name = environ.get(INSTALLER) or "pip"
    if name not in ("pip", "uv"):
        raise InputError(f'{INSTALLER} is "{name}"; expected pip or uv')
    if name == "pip":
        return PIP
    beside = Path(sys.executable).with_name("uv")
    program = str(beside) if beside.is_file() else shutil.which("uv", path=environ.get("PATH"))
    if program is None:
        msg = f"{INSTALLER} is uv, but there is no uv beside {sys.executable} or on PATH"
        raise MachineError(msg, hint="`pip install uv`, or let pip install by leaving the variable out")
    return _Uv(program)


def read_pip_settings(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings for `pip install` under the names of its variables, from its files and then `environ`.

    Raises MachineError if pip cannot tell: without them, files would come from other indexes.
    """
    return {**_read_files(tuple(environ.get(name, "") for name in NAME_FILES)), **environ}


@cache
def _read_files(values: tuple[str, ...]) -> dict[str, str]:
    """Return the settings in the files that pip finds by these values of the variables in `NAME_FILES`."""
    environ = {name: value for name, value in zip(NAME_FILES, values, strict=True) if value}
    if environ.get("PIP_CONFIG_FILE") == os.devnull:  # pip then reads no file
        return {}
    listed = output([*start_module("pip"), "config", "list"], env=environ)
    if listed is None:
        msg = "pip does not list its settings, which say where files come from"
        raise MachineError(msg, hint=f"`{sys.executable} -m pip config list` shows why")
    pairs = [line.partition("=") for line in listed.splitlines()]
    ordered = sorted(pairs, key=lambda pair: pair[0].startswith("install."))  # a command's own section wins
    return {
        "PIP_" + key.partition(".")[2].upper().replace("-", "_"): " ".join(str(ast.literal_eval(value)).split())
        for key, _, value in ordered
        if key.startswith(("global.", "install."))
    }
