"""Stands for actions/setup-python: finds a Python on this machine instead of fetching one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from standin import INPUTS, SETTINGS, WORKSPACE, append, given, hand_on, refuse, words

RANGE = re.compile(r"(\d+)(?:\.(\d+))?(?:\.(\d+|x))?(t?)")


def asked() -> list[str]:
    """Return the versions to set up; the last one becomes `python`."""
    if INPUTS["python-version"]:
        return words("python-version")
    file = WORKSPACE / (INPUTS["python-version-file"] or ".python-version")
    return [file.read_text(encoding="utf-8").strip()] if file.is_file() else [SETTINGS["pythons"][0][0]]


def find(version: str) -> tuple[str, str]:
    """Return the newest Python on this machine that a version such as 3.12 or 3.12.1 names, and its path."""
    match = RANGE.fullmatch(version)
    if match is None:
        refuse(f"Version spec '{version}' is not one that this stand-in reads")
    wanted = [part for part in match.groups()[:3] if part and part != "x"]
    fitting = [(known, path) for known, path in SETTINGS["pythons"] if known.split(".")[: len(wanted)] == wanted]
    if not fitting or match[4]:
        refuse(f"The version '{version}' with architecture 'x64' was not found")
    return fitting[0]  # they are sorted from new to old


def main() -> None:
    for version in asked():
        known, path = find(version)
        if given("update-environment"):
            expose(known, path)
    hand_on(python_version=known, python_path=path, cache_hit="false" if INPUTS["cache"] else "")
    print(f"Successfully set up CPython ({known})")


def expose(version: str, path: str) -> None:
    """Give a job this Python as `python`, with its pip, in an environment of its own."""
    home = Path(os.environ["RUNNER_TEMP"]) / f"python-{version}"
    shutil.copytree(environment(version, path), home, symlinks=True, copy_function=link, dirs_exist_ok=True)
    for name in ("pip", "pip3"):
        (home / "bin" / name).write_text(f'#!/bin/sh\nexec "{home}/bin/python" -m pip "$@"\n', encoding="utf-8")
        (home / "bin" / name).chmod(0o755)
    append("GITHUB_ENV", {"pythonLocation": str(home)})
    with Path(os.environ["GITHUB_PATH"]).open("a", encoding="utf-8") as stream:
        stream.write(f"{home / 'bin'}\n")


def environment(version: str, path: str) -> Path:
    """Return an environment with this Python and its pip, which is made once for all jobs of these tests."""
    made = Path(SETTINGS["environments"]) / f"python-{version}"
    if made.is_dir():
        return made
    draft = Path(tempfile.mkdtemp(prefix="draft-", dir=made.parent))
    subprocess.run([path, "-m", "venv", "--without-pip", str(draft)], check=True)
    for script in (draft / "bin").glob("[Aa]ctivate*"):  # they name this folder
        script.unlink()
    copy_pip(site_packages(path), site_packages(str(draft / "bin" / "python")))
    try:
        draft.rename(made)
    except OSError:  # another job was faster
        shutil.rmtree(draft)
    return made


def link(source: str, target: str) -> None:
    """Give a file another name where that can be: pip writes no file, it replaces them."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def site_packages(python: str) -> Path:
    asked = [python, "-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())


def copy_pip(source: Path, target: Path) -> None:
    """Copy the pip that a Python has: unpacking the one it brings along takes ten times as long."""
    for folder in (source / "pip", *source.glob("pip-*.dist-info")):
        shutil.copytree(folder, target / folder.name, dirs_exist_ok=True)


main()
