"""Parses the user's selection of files in an index, yanks them (PEP 592), and takes yanks back.

Only users who pin a yanked file get it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import NamedTuple

from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from ci_tools.errors import InputError, nearest
from ci_tools.index.file_names import FILES, project_in, version_of
from ci_tools.index.ledger import Ledger
from ci_tools.index.maintain.look import refuse_no_index
from ci_tools.index.manifest import Manifest
from ci_tools.index.pages import IndexedFile, Link
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.model.versions import parse_requirement, parse_version


class Marks(NamedTuple):
    """The yank of a file, and whether a retraction set it."""

    yanked: str | None
    retracted: bool = False
    before: str | None = None

    @property
    def unretracted(self) -> str | None:
        """Its yank without the retraction."""
        return self.before if self.retracted else self.yanked


def yank(index: WheelIndex, release: str, reason: str | None) -> tuple[str, ...]:
    """Yank the files that `release` names, or take their yank back with None; return their names.

    It names every file of a release (`demo==1.0`), those of one local version (`demo==1.0+cu130`), or one file. Raises
    InputError if there is no index, or no such file in it, and for a reason that pages cannot show.
    """
    refuse_unprintable(reason or "")
    return _mark(index, release, lambda _: Marks(reason))


def retract(index: WheelIndex, release: str, reason: str) -> tuple[str, ...]:
    """Yank files as `yank` does, and note how each was marked before."""
    refuse_unprintable(reason)
    return _mark(index, release, lambda old: Marks(reason, retracted=True, before=old.unretracted))


def restore(index: WheelIndex, release: str) -> tuple[str, ...]:
    """Mark files as they were before their retraction, except those that were yanked or unyanked since."""
    return _mark(index, release, lambda old: Marks(old.unretracted))


def marks_of(entry: IndexedFile | Link) -> Marks:
    """Return the marks of a file or link."""
    return Marks(entry.yanked, entry.retracted, entry.before)


def _mark(index: WheelIndex, release: str, change: Callable[[Marks], Marks]) -> tuple[str, ...]:
    named = selection_of(release)
    refuse_no_index(index)

    def mark(manifest: Manifest) -> Manifest:
        files, links = named.find(manifest)
        marked = {key: file._replace(**change(marks_of(file))._asdict()) for key, file in files.items()}
        others = (
            link._replace(**change(marks_of(link))._asdict()) if link in links else link for link in manifest.links
        )
        return manifest._replace(files={**manifest.files, **marked}, links=tuple(others))

    ledger = Ledger(index.store, "")
    with index.store.alone():
        index.writer.read_others(ledger, named.project)
        _, manifest = ledger.change_manifest(named.project, mark)
        index.show(ledger, [manifest])
    files, links = named.find(manifest)
    return tuple(sorted({*(file.name for file in files.values()), *(link.name for link in links)}))


def refuse_unprintable(reason: str) -> None:
    """Raise InputError for control characters, and for surrogates, which stand for bytes that are not UTF-8."""
    wrong = next((character for character in reason if unicodedata.category(character) in {"Cc", "Cs"}), "")
    if wrong:
        raise InputError(f"--reason: it holds {wrong!a}, expected UTF-8 text without control characters")


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
