"""Receipts on disk: one JSON file for each finished wheel or sdist, beside it in `receipts/`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ci_tools.errors import RejectedInput
from ci_tools.formats.json_file import sealed, structure, unsealed, unstructure
from ci_tools.machine.storage import sha256_of, write_atomically
from ci_tools.model.files import Receipt, Trial

UNREADABLE = (OSError, ValueError, RejectedInput)  # the errors of reading a damaged file


class _Kept(NamedTuple):
    """Trials of something other than a single file, and a key of what they depend on."""

    key: str
    trials: tuple[Trial, ...]


def path_of(file: Path) -> Path:
    """Return the path of the receipt of `file`."""
    return file.parent / "receipts" / f"{file.name}.json"


def save(file: Path, receipt: Receipt) -> Receipt:
    """Write the receipt of `file` atomically, and return it."""
    with write_atomically(path_of(file)) as sink:
        sink.write(sealed(unstructure(receipt)))
    return receipt


def load(file: Path) -> Receipt | None:
    """Return the receipt of `file`; None if it cannot be read or does not match the file's name, size and sha256."""
    receipt = read(path_of(file))
    if receipt is None or not file.is_file() or (receipt.file, receipt.size) != (file.name, file.stat().st_size):
        return None
    return receipt if sha256_of(file) == receipt.sha256 else None


def read(path: Path) -> Receipt | None:
    """Return the receipt in the file at `path` without looking at the wheel or sdist; None if it is not a receipt."""
    try:
        return structure(unsealed(path.read_bytes()), Receipt, str(path), exact=True)
    except UNREADABLE:
        return None


def save_trials(name: Path, key: str, trials: tuple[Trial, ...]) -> None:
    """Store trials of something other than a single file, such as an index, with a key of what they depend on."""
    with write_atomically(path_of(name)) as sink:
        sink.write(sealed(unstructure(_Kept(key, trials))))


def load_trials(name: Path, key: str) -> tuple[Trial, ...]:
    """Return the stored trials if their key is `key`; () if it differs or the file cannot be read."""
    try:
        kept = structure(unsealed(path_of(name).read_bytes()), _Kept, str(name))
    except UNREADABLE:
        return ()
    return kept.trials if kept.key == key else ()
