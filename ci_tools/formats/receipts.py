"""Receipts on disk: one JSON file for each finished wheel or sdist, beside it in `receipts/`."""

from __future__ import annotations

from dataclasses import asdict, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ci_tools.formats.checked_json import sealed, unsealed
from ci_tools.machine.storage import sha256_of, write_atomically
from ci_tools.model.files import (
    BuiltWith,
    Finding,
    Level,
    Outcome,
    Receipt,
    Trial,
    Validated,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["load", "load_trials", "path_of", "read", "save", "save_trials"]

UNREADABLE = (OSError, ValueError, TypeError, KeyError, RecursionError)  # the errors of reading a file of others
KINDS: Mapping[str, tuple[type, ...]] = MappingProxyType(
    {"str": (str,), "int": (int,), "float": (int, float), "bool": (bool,)}
)


def path_of(file: Path) -> Path:
    """Return the path of the receipt of `file`."""
    return file.parent / "receipts" / f"{file.name}.json"


def save(file: Path, receipt: Receipt) -> Receipt:
    """Write the receipt of `file` atomically, and return it."""
    with write_atomically(path_of(file)) as sink:
        sink.write(sealed(asdict(receipt)))
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
        return _receipt(unsealed(path.read_bytes()))
    except UNREADABLE:
        return None


def _receipt(entry: Any) -> Receipt:  # noqa: ANN401 - whatever the file says
    """Read a receipt; raise ValueError, TypeError or KeyError if it is not one."""
    findings = tuple(_finding(*_texts(finding)) for finding in entry["findings"])
    validated = tuple(_parse_place(*place) for place in entry["validated"])
    built_with = BuiltWith(*_texts(entry.get("built_with", [])))
    receipt = Receipt(**{**entry, "findings": findings, "validated": validated, "built_with": built_with})
    kinds = {field.name: KINDS.get(str(field.type), (tuple,)) for field in fields(Receipt)}
    wrong = [name for name, kind in kinds.items() if not isinstance(getattr(receipt, name), kind)]
    if wrong:
        msg = f"it says something else in {wrong}"
        raise ValueError(msg)
    return receipt


def _finding(wheel: str, rule: str, level: str, message: str, found: str, expected: str) -> Finding:
    return Finding(wheel, rule, Level(level), message, found, expected)


def _parse_place(where: Any, key: Any, trials: Any, gpu: Any = "") -> Validated:  # noqa: ANN401 - whatever the file says
    where, key, gpu = _texts([where, key, gpu])
    return Validated(where, key, _trials({"trials": trials}), gpu)


def _trials(entry: Any) -> tuple[Trial, ...]:  # noqa: ANN401 - whatever the file says
    read = (_texts(trial) for trial in entry["trials"])
    return tuple(Trial(what, Outcome(outcome), detail) for what, outcome, detail in read)


def _texts(entry: object) -> tuple[str, ...]:
    """Return a list of strings as a tuple; raise TypeError if it is anything else."""
    if not isinstance(entry, list) or not all(isinstance(text, str) for text in entry):
        msg = f"{entry} is no list of texts"
        raise TypeError(msg)
    return tuple(entry)


def save_trials(name: Path, key: str, trials: tuple[Trial, ...]) -> None:
    """Store trials of something other than a single file, such as an index, with a key of what they depend on."""
    with write_atomically(path_of(name)) as sink:
        sink.write(sealed({"key": key, "trials": trials}))


def load_trials(name: Path, key: str) -> tuple[Trial, ...]:
    """Return the stored trials if their key is `key`; () if it differs or the file cannot be read."""
    try:
        entry = unsealed(path_of(name).read_bytes())
        trials = _trials(entry)
    except UNREADABLE:
        return ()
    return trials if entry.get("key") == key else ()
