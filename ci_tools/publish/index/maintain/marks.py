"""Yanks files of an index (PEP 592), so that only users who pin them get them, and takes yanks back."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from ci_tools.errors import InputError
from ci_tools.publish.index.ledger import Ledger
from ci_tools.publish.index.maintain.look import refuse_no_index
from ci_tools.publish.index.maintain.selection import selection_of

if TYPE_CHECKING:
    from ci_tools.publish.index.manifest import Manifest
    from ci_tools.publish.index.wheel_index import WheelIndex


def yank(index: WheelIndex, release: str, reason: str | None) -> tuple[str, ...]:
    """Yank the files that `release` names, or take their yank back with None; return their names.

    It names every file of a release (`demo==1.0`), those of one local version (`demo==1.0+cu130`), or one file. Raises
    InputError if there is no index, or no such file in it, and for a reason that pages cannot show.
    """
    named = selection_of(release)
    refuse_unprintable(reason or "")
    refuse_no_index(index)

    def mark(manifest: Manifest) -> Manifest:
        marked = {key: file._replace(yanked=reason) for key, file in named.files(manifest).items()}
        return manifest._replace(files={**manifest.files, **marked})

    ledger = Ledger(index.store, "")
    with index.store.alone():
        _, manifest = ledger.change_manifest(named.project, mark)
        index.show(ledger, [manifest])
    return tuple(sorted({file.name for file in named.files(manifest).values()}))


def refuse_unprintable(reason: str) -> None:
    """Raise InputError for control characters, and for surrogates, which stand for bytes that are not UTF-8."""
    wrong = next((character for character in reason if unicodedata.category(character) in {"Cc", "Cs"}), "")
    if wrong:
        msg = f"--reason: it holds {wrong!a}, expected UTF-8 text without control characters"
        raise InputError(msg)
