"""Installers that users have: pip and uv, old and new, each fetched once and run as it is.

An old pip runs out of a folder of its own, under an old Python, and no environment is made. `run_client` forks each pip
from a process that has imported it, for most of the time of an installation would be the start of pip.
"""

from __future__ import annotations

import atexit
import functools
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ci_tools.machine import python as interpreter
from ci_tools.machine.storage import cache_folder, fill_once
from ci_tools.model.versions import Python
from tests.servers.prepared import PIP, Called, Other, run_prepared
from tests.servers.uploads import UV

OLD_PYTHON = "3.9"  # the newest that pip 20.3 runs on; its vendored packages use what Python 3.10 has not
OPTIONS = ("--no-cache-dir", "--disable-pip-version-check", "--isolated", "--quiet", "--no-compile")
# To warn of conflicts, pip reads what every package of this Python requires, which takes half of an installation.
OPTIONS = (*OPTIONS, "--no-warn-conflicts")


def command(client: str) -> tuple[list[str], Mapping[str, str]]:
    """Return the command that installs with a client, and the variables it needs; skip where it cannot be had."""
    name, _, version = client.partition("-")
    if name == "uv":
        program = str(fetched(client) / "bin" / "uv") if version else UV
        return [program, "pip", "install", "--no-config", "--no-cache", "--quiet", "--python", sys.executable], {}
    run = ["-m", "pip", "install", *OPTIONS]
    if not version:
        return [sys.executable, *run], {}
    return [str(old_python()), *run], {"PYTHONPATH": str(fetched(client)), "PYTHONDONTWRITEBYTECODE": "1"}


def run_client(client: str, arguments: Sequence[str | Path], env: Mapping[str, str]) -> Called:
    """Run a client, as `command` starts it, with these arguments in the place of its own."""
    words = [*map(str, arguments)]
    name, _, version = client.partition("-")
    if name == "pip":
        return run_prepared(words, env=env, program=Other(PIP, old_python(), fetched(client)) if version else PIP)
    return run_program([str(fetched(client) / "bin" / "uv") if version else UV, *words], env)


def run_program(command: Sequence[str], env: Mapping[str, str], cwd: Path | None = None) -> Called:
    """Run a program; a uv without a cache knows of the Pythons it has asked before, which takes most of its time."""
    with tempfile.TemporaryDirectory() as empty:
        if "--no-cache" in command:
            _copy_answers(_answers_of_pythons(), Path(empty))
        own = [word for given in command for word in (["--cache-dir", empty] if given == "--no-cache" else [given])]
        done = subprocess.run(own, env=env, cwd=cwd, capture_output=True, text=True, check=False)
        _copy_answers(Path(empty), _answers_of_pythons())
    return Called(done.returncode, done.stdout, done.stderr)


def _copy_answers(there: Path, here: Path) -> None:
    """Copy what Pythons have answered to uv, which asks one again once its file has changed."""
    for folder in there.glob("interpreter-*"):
        shutil.copytree(folder, here / folder.name, dirs_exist_ok=True)


@functools.cache
def _answers_of_pythons() -> Path:
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def options_of(client: str) -> list[str]:
    """Return the words of `command` that follow the program."""
    whole, _ = command(client)
    return whole[whole.index("install") - client.startswith("uv") :]


@functools.cache
def fetched(client: str) -> Path:
    """Return the folder in the user's cache that has a client, installed there once."""
    name, _, version = client.partition("-")
    python = str(old_python() if name == "pip" else sys.executable)

    def fill(folder: Path) -> None:
        how = ["install", "--no-compile", "--no-deps", "--only-binary=:all:", "--python-version", OLD_PYTHON]
        where = ["--target", str(folder), f"{name}=={version}"]
        subprocess.run([sys.executable, "-m", "pip", *how, *where], check=True, capture_output=True)
        # Else each run does it anew: `-b`, what pip before 22.2 runs out of an archive of itself (pip#10904).
        for beside in ((), ("-b",)):
            subprocess.run([python, "-m", "compileall", "-q", *beside, str(folder)], check=True)

    try:
        return fill_once(cache_folder(os.environ) / "clients" / f"{client}-compiled-{platform.machine()}", fill, print)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"{client} cannot be had: {(error.stderr or b'').decode()[-200:]}")


@functools.cache
def old_python() -> Path:
    found = interpreter.find(Python.parse(OLD_PYTHON), os.environ)
    if found is None:
        pytest.skip(f"no Python {OLD_PYTHON}, which old pips need, is here")
    return found


def take(folder: Path, *arguments: str) -> set[str]:
    """Download with pip, let uv say that it would install the same, and return what came."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    environ = {**kept, "PIP_CONFIG_FILE": os.devnull, "no_proxy": "127.0.0.1"}
    pip = ["download", "-q", "--no-cache-dir", "--no-deps", "--dest", folder / "pip"]
    uv = ["pip", "install", "-q", "--no-config", "--no-cache", "--no-deps", "--dry-run", "--python", sys.executable]
    for client, words in (("pip", pip), ("uv", [*uv, "--target", folder / "uv"])):
        done = run_client(client, [*words, *arguments], environ)
        assert done.returncode == 0, done.stderr
    return {path.name for path in (folder / "pip").iterdir()}
