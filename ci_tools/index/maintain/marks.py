"""Yanks files of an index (PEP 592), so that only users who pin them get them, and takes yanks back."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import InputError
from ci_tools.index.ledger import Ledger
from ci_tools.index.maintain.look import refuse_no_index
from ci_tools.index.maintain.selection import selection_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_tools.index.manifest import Manifest
    from ci_tools.index.pages import IndexedFile, Link
    from ci_tools.index.wheel_index import WheelIndex


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
