"""Makes an environment with what Fatwheel needs, by hash, and puts the command `fatwheel` on PATH.

The packages come from an earlier job, where that kept them, else from the index; wherever they come from, each has to
have a hash of the lock. With `--name`, it says under which key, and where, the packages are kept.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOOLKIT = HERE.parents[2]  # this repository, as the runner fetched it for the commit that was asked for
LOCK, UV_LOCK = HERE / "requirements.txt", HERE / "uv.txt"
LOCKED = ("--require-hashes", "--no-deps", "--only-binary", ":all:", "--requirement")
QUIET = ("--quiet", "--no-input", "--disable-pip-version-check")
SETTINGS = {"PIP_REQUIRE_VIRTUALENV": "0", "PIP_USER": "0"}  # a pip.conf may say where packages come from, not this
POSIX = '#!/bin/sh\nexec "{python}" -I -m ci_tools "$@"\n'
WINDOWS = '@"{python}" -I -m ci_tools %*\r\n'


class Failed(Exception):
    """A step that did not work; what it printed is above."""


def main() -> int:
    """Install, and return the exit status."""
    place = Path(os.environ["RUNNER_TEMP"]) / "fatwheel"
    packages = place.with_name("fatwheel-packages")
    if sys.argv[1:] == ["--name"]:
        write(os.environ["GITHUB_OUTPUT"], f"key={key_of_packages()}", f"path={packages}")
        return 0
    try:
        python = make_environment(place, packages)
    except Failed as error:
        print(f"::error title=Fatwheel::{error}: the words of the installer are above")
        return 3
    make_commands(place / "bin", python)
    write(os.environ["GITHUB_PATH"], str(place / "bin"))
    if belongs_to_another(os.environ.get("GITHUB_WORKSPACE", "")):
        let_git_read_it(Path(os.environ["GITHUB_ENV"]))
    return 0


def write(path: str, *lines: str) -> None:
    """Add lines to a file of the runner's."""
    with Path(path).open("a", encoding="utf-8") as file:
        for line in lines:
            print(line, file=file)


def key_of_packages() -> str:
    """Return what the packages hang on: the lock, and all that chooses among the wheels of a version (PEP 425)."""
    lock = hashlib.sha256(LOCK.read_bytes() + UV_LOCK.read_bytes()).hexdigest()
    system = "-".join(filter(None, (sysconfig.get_platform(), *platform.libc_ver())))
    python = f"cp{sys.version_info.major}{sys.version_info.minor}{getattr(sys, 'abiflags', '')}"
    return f"fatwheel-toolkit-{system}-{python}-{lock[:32]}"


def make_environment(place: Path, packages: Path) -> Path:
    """Make an environment with all that is locked, which finds the toolkit where it lies; return its Python.

    What an earlier job kept may have been changed since by a build of the same repository. So it is a folder of wheels,
    and of one that has no hash of the lock nothing is used.
    """
    if packages.is_dir():
        try:
            return install(place, packages)
        except Failed as error:
            print(f"::notice title=Fatwheel::the packages that were kept are not those of the lock: {error}")
            shutil.rmtree(packages)
    download(place, packages)
    return install(place, packages)


def download(place: Path, packages: Path) -> None:
    """Bring all that is locked from the index into a folder."""
    shutil.rmtree(place, ignore_errors=True)
    asked = (*LOCKED, UV_LOCK, "--requirement", LOCK, "--dest", packages)
    run("pip could not bring what Fatwheel needs", *pip_of(place), "download", *QUIET, *asked)


def install(place: Path, packages: Path) -> Path:
    """Install all that is locked from a folder of wheels, each of which has to have its hash.

    uv does it, for it takes a second where pip takes half a minute, and every job of a release waits for this one.
    """
    shutil.rmtree(place, ignore_errors=True)
    kept = ("--no-index", "--find-links", packages)
    target = (*kept, "--target", place / "uv")
    run("pip could not install uv", *pip_of(place), "install", *QUIET, *target, *LOCKED, UV_LOCK)
    uv = [next((place / "uv").rglob("uv.exe" if os.name == "nt" else "bin/uv")), "--quiet", "--no-config", "--no-cache"]
    run("uv could not make an environment", *uv, "venv", "--no-project", "--python", sys.executable, place / "env")
    python = place / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    run("uv could not install what Fatwheel needs", *uv, "pip", "install", "--python", python, *kept, *LOCKED, LOCK)
    asked = [python, "-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    found = subprocess.run(asked, check=True, capture_output=True, text=True)
    (Path(found.stdout.strip()) / "fatwheel.pth").write_text(f"{TOOLKIT}\n", encoding="utf-8")
    return python


def pip_of(place: Path) -> tuple[str | Path, ...]:
    """Return the pip of this Python or, where it has none, a fresh one."""
    python = Path(sys.executable)
    if importlib.util.find_spec("pip") is None:
        venv.create(place / "pip", with_pip=True, symlinks=os.name != "nt")
        python = place / "pip" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    return (python, "-I", "-m", "pip")


def run(failure: str, *command: str | Path) -> None:
    """Run a command; raise Failed, in the words of `failure`, where it does not work."""
    if subprocess.run(list(command), env={**os.environ, **SETTINGS}, check=False).returncode:
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
