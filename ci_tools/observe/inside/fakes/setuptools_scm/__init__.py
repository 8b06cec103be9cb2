"""A setuptools-scm that says the version which the real one gave before, or that of an sdist, from its PKG-INFO.

The arguments of a project, also version schemes of its own, have decided that version already and change nothing here.
"""

from __future__ import annotations

import os
from typing import Any

from packaging.version import Version

from ci_tools.observe.inside.facts import FACTS

__all__ = [
    "DEFAULT_LOCAL_SCHEME",
    "DEFAULT_VERSION_SCHEME",
    "Configuration",
    "NonNormalizedVersion",
    "ScmVersion",
    "Version",
    "dump_version",
    "get_version",
]

DEFAULT_VERSION_SCHEME = "guess-next-dev"
DEFAULT_LOCAL_SCHEME = "node-and-date"


class NonNormalizedVersion(Version):
    """A version that is written as its tag has it."""


class Configuration:
    """The settings with which the version is asked for."""

    def __init__(self, relative_to: Any = None, root: Any = ".", **settings: Any) -> None:
        self.relative_to, self.root = relative_to, root
        self.__dict__.update(settings)

    @classmethod
    def from_file(cls, name: Any = "pyproject.toml", dist_name: str | None = None, **settings: Any) -> Configuration:
        """Return the settings in a file."""
        return cls(relative_to=name, dist_name=dist_name, **settings)


class ScmVersion:
    """A tag, and the commits since; version schemes get one, and are not called here."""

    def __init__(self, tag: Any = "0", config: Any = None, distance: int = 0, **facts: Any) -> None:
        self.tag, self.config, self.distance = tag, config, distance
        self.__dict__.update(facts)

    def __getattr__(self, name: str) -> Any:
        return FACTS.unknown(f"setuptools_scm.ScmVersion.{name}")


def get_version(root: Any = ".", *_: Any, **settings: Any) -> str:
    """Return the version, and write it into the file that the settings name."""
    version = FACTS.ask("version") or _read_sdist_version()
    if not version:
        FACTS.doubt("asks setuptools_scm for the version of a checkout")
    name = settings.get("version_file") or settings.get("write_to")
    if name:
        dump_version(
            root, version or "0", name, settings.get("version_file_template") or settings.get("write_to_template")
        )
    return version or "0"


def _get_version(config: Any = None, **_: Any) -> str:
    """Return the version; many a project calls it by this name."""
    return get_version(getattr(config, "root", "."))


def dump_version(root: Any, version: str, write_to: Any, template: str | None = None, **_: Any) -> None:
    """Write the version into a file."""
    numbers = ", ".join(map(str, Version(version).release))
    usual = f'__version__ = version = "{version}"\n__version_tuple__ = version_tuple = ({numbers})\n'
    with open(os.path.join(root, write_to), "w", encoding="utf-8") as file:
        file.write(template.format(version=version, version_tuple=f"({numbers})") if template else usual)


def _read_sdist_version() -> str:
    try:
        with open("PKG-INFO", encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("Version:")), "")
