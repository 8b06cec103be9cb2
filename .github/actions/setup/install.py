"""Makes an environment with what Fatwheel needs, by hash, and puts the command `fatwheel` on PATH.

The packages come from the index that pip is set up for, each with a hash of the lock. None comes from a cache or from
another job: whoever may write those could otherwise choose what runs in a job that publishes.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HERE = Path(__file__).resolve().parent
TOOLKIT = HERE.parents[2]  # this repository, as the runner fetched it for the commit that was asked for
LOCK, UV_LOCK = HERE / "requirements.txt", HERE / "uv.txt"
LOCKED = ("--require-hashes", "--no-deps", "--only-binary", ":all:", "--requirement")
QUIET = ("--quiet", "--no-input", "--disable-pip-version-check")
SETTINGS = {"PIP_REQUIRE_VIRTUALENV": "0", "PIP_USER": "0"}  # a pip.conf may say where packages come from, not this
# Where pip looks for packages and how it connects, and uv's names for that; between several, uv has its own separator.
OF_UV = {
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "index-url": "UV_DEFAULT_INDEX",
    "keyring-provider": "UV_KEYRING_PROVIDER",
    "no-index": "UV_NO_INDEX",  # which uv takes as an option only
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
    "trusted-host": "UV_INSECURE_HOST",
}
ON = frozenset({"1", "on", "t", "true", "y", "yes"})  # as pip reads a switch
SEPARATORS = {"find-links": ","}
POSIX = '#!/bin/sh\nexec "{python}" -I -m ci_tools "$@"\n'
WINDOWS = '@"{python}" -I -m ci_tools %*\r\n'


class Failed(Exception):
    """A step that did not work; what it printed is above."""


def main() -> int:
    """Install, and return the exit status."""
    place = Path(os.environ["RUNNER_TEMP"]) / "fatwheel"
    try:
        python = make_environment(place)
    except Failed as error:
        print(f"::error title=Fatwheel::{error}: the words of the installer are above")
        return 3
    make_commands(place / "bin", python)
    with Path(os.environ["GITHUB_PATH"]).open("a", encoding="utf-8") as file:
        print(place / "bin", file=file)
    if belongs_to_another(os.environ.get("GITHUB_WORKSPACE", "")):
        let_git_read_it(Path(os.environ["GITHUB_ENV"]))
    return 0


def make_environment(place: Path) -> Path:
    """Make an environment with all that is locked, which finds the toolkit where it lies; return its Python.

    pip brings uv, and uv the rest: in a quarter of the time, and every job of a release waits for this one.
    """
    shutil.rmtree(place, ignore_errors=True)
    pip = pip_of(place)
    run("pip could not install uv", *pip, "install", *QUIET, "--target", place / "uv", *LOCKED, UV_LOCK)
    uv = [next((place / "uv").rglob("uv.exe" if os.name == "nt" else "bin/uv")), "--quiet", "--no-config", "--no-cache"]
    run("uv could not make an environment", *uv, "venv", "--no-project", "--python", sys.executable, place / "env")
    python = place / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    settings = settings_of(pip)
    # From any index that pip would ask: a package is what the lock says, wherever it comes from.
    among = ["--no-index"] if settings.get("UV_NO_INDEX", "").lower() in ON else ["--index-strategy=unsafe-best-match"]
    command = (*uv, "pip", "install", "--python", python, *among, *LOCKED, LOCK)
    run("uv could not install what Fatwheel needs", *command, settings=settings)
    asked = [python, "-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    found = subprocess.run(asked, check=True, capture_output=True, text=True)
    (Path(found.stdout.strip()) / "fatwheel.pth").write_text(f"{TOOLKIT}\n", encoding="utf-8")
    return python


def settings_of(pip: Sequence[str | Path]) -> dict[str, str]:
    """Return pip's settings, those of its files first, under uv's names."""
    listed = subprocess.run([*pip, "config", "list"], check=True, capture_output=True, text=True).stdout
    pairs = [line.partition("=") for line in listed.splitlines()]
    found = {}
    for section in ("global", "install", ":env:"):  # the last one wins
        for key, _, value in pairs:
            name = key.rpartition(".")[2]
            words = str(ast.literal_eval(value)).split()
            if key.startswith(f"{section}.") and name in OF_UV and words:
                found[OF_UV[name]] = SEPARATORS.get(name, " ").join(words)
    return found


def pip_of(place: Path) -> tuple[str | Path, ...]:
    """Return the pip of this Python or, where it has none, a fresh one."""
    python = Path(sys.executable)
    if importlib.util.find_spec("pip") is None:
        venv.create(place / "pip", with_pip=True, symlinks=os.name != "nt")
        python = place / "pip" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    return (python, "-I", "-m", "pip")


def run(failure: str, *command: str | Path, settings: Mapping[str, str] = SETTINGS) -> None:
    """Run a command; raise Failed, in the words of `failure`, where it does not work."""
    if subprocess.run(list(command), env={**os.environ, **settings}, check=False).returncode:
        raise Failed(failure)


def make_commands(folder: Path, python: Path) -> None:
    """Write the command, alone in its folder: the environment's Python and pip stay out of PATH."""
    folder.mkdir(parents=True)
    (folder / "fatwheel").write_text(POSIX.format(python=python.as_posix()), encoding="utf-8", newline="\n")
    (folder / "fatwheel").chmod(0o755)
    if os.name == "nt":
        (folder / "fatwheel.cmd").write_text(WINDOWS.format(python=python), encoding="utf-8", newline="")


def belongs_to_another(workspace: str) -> bool:
    """Return whether the checkout is another user's, as it is in a container: git refuses to read such a one."""
    return os.name == "posix" and Path(workspace).is_dir() and Path(workspace).stat().st_uid != os.geteuid()


def let_git_read_it(variables: Path) -> None:
    """Tell the git of every later step of this job, and of nothing else, that whose the checkout is does not matter."""
    count = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
    with variables.open("a", encoding="utf-8") as file:
        print(f"GIT_CONFIG_COUNT={count + 1}", file=file)
        print(f"GIT_CONFIG_KEY_{count}=safe.directory", file=file)
        print(f"GIT_CONFIG_VALUE_{count}=*", file=file)  # submodules, too


if __name__ == "__main__":
    sys.exit(main())
