"""The build requirements of an environment as they were installed, each with the sha256 of its archive.

pip writes what it installs (https://pip.pypa.io/en/stable/reference/installation-report/). uv does not, but locks the
same versions (https://packaging.python.org/en/latest/specifications/pylock-toml/), with every file of a release.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from packaging.tags import parse_tag
from packaging.utils import canonicalize_name, parse_wheel_filename

from ci_tools.errors import InputError
from ci_tools.formats.toml import parse_toml
from ci_tools.formats.wheel import read_headers
from ci_tools.machine.installers import PIP
from ci_tools.machine.process import output
from ci_tools.machine.python import Environment
from ci_tools.model.files import Resolved

REPORTS = "installed-{}.json"  # in the folder of the environment: `Installations` copies it with what it tells of


def list_report(environment: Environment) -> tuple[str | Path, ...]:
    """Return the options by which the installer reports what it installs; none if it cannot."""
    if environment.installer is not PIP:
        return ()
    number = len(list(environment.path.glob(REPORTS.format("*"))))
    return "--report", environment.path / REPORTS.format(number)


def read_resolved(environment: Environment) -> tuple[Resolved, ...]:
    """Return what was installed into an environment, by name."""
    found = _read_reports(environment) if environment.installer is PIP else _read_lock(environment)
    return tuple(sorted({one.name: one for one in found}.values()))


def _read_reports(environment: Environment) -> Iterator[Resolved]:
    for path in sorted(environment.path.glob(REPORTS.format("*"))):
        for one in json.loads(path.read_bytes())["install"]:
            archive = one["download_info"].get("archive_info", {})  # a requirement at a folder has none
            name, version = one["metadata"]["name"], one["metadata"]["version"]
            yield Resolved(canonicalize_name(name), version, archive.get("hashes", {}).get("sha256", ""))


def _read_lock(environment: Environment) -> Iterator[Resolved]:
    installed = {}
    for path in environment.packages.glob("*.dist-info"):
        if (path / "INSTALLER").is_file() and not path.is_symlink():  # a link is of what Fatwheel lends
            name, version = path.name.removesuffix(".dist-info").split("-", 1)
            installed[canonicalize_name(name)] = (version, path)
    wanted = "".join(f"{name}=={version}\n" for name, (version, _) in installed.items())
    options = ("--quiet", "--no-deps", "--no-header", "--format", "pylock.toml", "-")
    command = environment.installer.install(environment.python, options, environment.variables)
    command[command.index("install")] = "compile"  # it takes the same options
    variables = environment.installer.translate(environment.variables)
    said = output(command, env=variables, text=wanted) if installed else ""
    locked: dict[str, Any] = {}
    with suppress(InputError):
        locked = {one["name"]: one for one in parse_toml(said or "", "pylock.toml").get("packages", ())}
    for name, (version, path) in installed.items():
        yield Resolved(name, version, _find_hash(locked.get(name, {}), path))


def _find_hash(package: dict[str, Any], installed: Path) -> str:
    """Return the sha256 of the wheel whose tags an installation has, else of the sdist that it was built from."""
    headers = read_headers((installed / "WHEEL").read_text(encoding="utf-8", errors="replace"), "WHEEL")
    tags = frozenset(tag for text in headers.get_all("Tag", []) for tag in parse_tag(text))
    for wheel in package.get("wheels", ()):
        name = wheel.get("name") or str(wheel.get("url") or wheel.get("path")).rpartition("/")[2]
        if parse_wheel_filename(name)[3] == tags:
            return str(wheel["hashes"].get("sha256", ""))
    return str(package.get("sdist", {}).get("hashes", {}).get("sha256", ""))
