"""Makes an environment with what Fatwheel needs, by hash, and puts the command `fatwheel` on PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOOLKIT = HERE.parents[2]  # this repository, as the runner fetched it for the commit that was asked for
POSIX = '#!/bin/sh\nexec "{python}" -I -m ci_tools "$@"\n'
WINDOWS = '@"{python}" -I -m ci_tools %*\r\n'


def main() -> int:
    """Install, and return the exit status."""
    place = Path(os.environ["RUNNER_TEMP"]) / "fatwheel"
    shutil.rmtree(place, ignore_errors=True)
    python = make_environment(place / "env")
    pip = [python, "-I", "-m", "pip", "install", "--quiet", "--no-input", "--no-compile", "--disable-pip-version-check"]
    locked = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--requirement", HERE / "requirements.txt"]
    installed = subprocess.run([*pip, *locked], check=False)
    if installed.returncode:
        print("::error title=Fatwheel::pip could not install what Fatwheel needs: its own words are above")
        return 3
    make_commands(place / "bin", python)
    with Path(os.environ["GITHUB_PATH"]).open("a", encoding="utf-8") as paths:
        print(place / "bin", file=paths)
    if belongs_to_another(os.environ.get("GITHUB_WORKSPACE", "")):
        let_git_read_it(Path(os.environ["GITHUB_ENV"]))
    return 0


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


def make_environment(folder: Path) -> Path:
    """Make an environment that finds the toolkit where it lies, and return its Python."""
    venv.create(folder, with_pip=True, symlinks=os.name != "nt")
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    asked = [python, "-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    found = subprocess.run(asked, check=True, capture_output=True, text=True)
    (Path(found.stdout.strip()) / "fatwheel.pth").write_text(f"{TOOLKIT}\n", encoding="utf-8")
    return python


def make_commands(folder: Path, python: Path) -> None:
    """Write the command, alone in its folder: the environment's Python and pip stay out of PATH."""
    folder.mkdir(parents=True)
    (folder / "fatwheel").write_text(POSIX.format(python=python.as_posix()), encoding="utf-8", newline="\n")
    (folder / "fatwheel").chmod(0o755)
    if os.name == "nt":
        (folder / "fatwheel.cmd").write_text(WINDOWS.format(python=python), encoding="utf-8", newline="")


if __name__ == "__main__":
    sys.exit(main())
