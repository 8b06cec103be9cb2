"""Parses the user's selection of files in an index: a release, one of its local versions, or one file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import canonicalize_name

from ci_tools.errors import InputError, nearest
from ci_tools.index.file_names import FILES, project_in, version_of
from ci_tools.model.versions import parse_requirement, parse_version

if TYPE_CHECKING:
    from packaging.utils import NormalizedName
    from packaging.version import Version

    from ci_tools.index.manifest import Manifest
    from ci_tools.index.pages import IndexedFile, Link


class Selection(NamedTuple):
    """Files of a project: `demo==1.0` with all of its local versions, `demo==1.0+cu130`, or one file."""

    project: NormalizedName
    version: Version
    file: str = ""  # its name; empty: all of the version

    @property
    def is_whole(self) -> bool:
        """Whether it is a whole release."""
        return not self.file and not self.version.local

    def find(self, manifest: Manifest) -> tuple[dict[str, IndexedFile], tuple[Link, ...]]:
        """Return its files by their keys in the manifest, and its links; raise InputError if the index has neither."""
        there = {*(file.name for file in manifest.files.values()), *(link.name for link in manifest.links)}
        names = {name: self._name(name) for name in there}
        files = {key: file for key, file in manifest.files.items() if names[file.name] == self._file_or_version}
        links = tuple(link for link in manifest.links if names[link.name] == self._file_or_version)
        if not files and not links:
            what = self.file or f"{self.project} {self.version}"
            others = [str(name) for name in {*names.values()} if name is not None]
            known = nearest(str(self._file_or_version), others) if others else "nor any of its files"
            raise InputError(f"the index has no {what}, {known}")
        return files, links

    @property
    def _file_or_version(self) -> str | Version:
        return self.file or self.version

    def _name(self, file: str) -> str | Version | None:
        """Return the part of a file's name that this selection compares; None if installers do not take the file."""
        version = version_of(file, self.project)
        if version is None or self.file:
            return file if self.file else None
        return version if self.version.local else parse_version(version.public)


def selection_of(text: str) -> Selection:
    """Return a selection from its text; raise InputError if it is neither `PROJECT==VERSION` nor a file name."""
    try:
        return _file(text) if text.endswith(FILES) else _release(text)
    except ValueError as error:
        msg = f'"{text}" is not a release, expected one such as demo==1.0, or the name of one of its files'
        raise InputError(msg) from error


def _file(name: str) -> Selection:
    """Return the selection of one file; raise ValueError if its name says no project."""
    project = project_in(name)
    version = version_of(name, project) if project else None
    if project is None or version is None:
        raise ValueError(name)
    return Selection(project, version, file=name)


def _release(text: str) -> Selection:
    """Return the release that a requirement names; raise ValueError if it does not name exactly one version."""
    requirement = parse_requirement(text)
    (specifier,) = requirement.specifier
    if specifier.operator != "==" or requirement.extras or requirement.url or requirement.marker:
        raise ValueError(text)
    return Selection(canonicalize_name(requirement.name), parse_version(specifier.version))
