"""Receipts on disk: one JSON file for each finished wheel or sdist, beside it in `receipts/`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from ci_tools.model import Finding, Level, Outcome, Receipt, Trial
from ci_tools.storage import sha256_of, write_atomically

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["load", "load_trials", "path_of", "save", "save_trials"]


def path_of(file: Path) -> Path:
    """Return where the receipt of `file` lies."""
    return file.parent / "receipts" / f"{file.name}.json"


def save(file: Path, receipt: Receipt) -> Receipt:
    """Write the receipt of `file` in one step, and return it."""
    with write_atomically(path_of(file)) as sink:
        sink.write(json.dumps(asdict(receipt), indent=1).encode())
    return receipt


def load(file: Path) -> Receipt | None:
    """Return the receipt of `file`; None where there is none that can be read, or the file is not what it says."""
    try:
        entry = json.loads(path_of(file).read_text(encoding="utf-8"))
        entry["findings"] = tuple(Finding(*finding)._replace(level=Level(finding[2])) for finding in entry["findings"])
        entry["trials"] = tuple(Trial(what, Outcome(outcome), detail) for what, outcome, detail in entry["trials"])
        receipt = Receipt(**{**entry, "also": tuple(entry["also"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return receipt if file.is_file() and sha256_of(file) == receipt.sha256 else None


def save_trials(name: Path, key: str, trials: tuple[Trial, ...]) -> None:
    """Note trials of something that is no single file, such as an index, with the key of what they depend on."""
    with write_atomically(path_of(name)) as sink:
        sink.write(json.dumps({"key": key, "trials": trials}, indent=1).encode())


def load_trials(name: Path, key: str) -> tuple[Trial, ...]:
    """Return the noted trials where their key is `key`; nothing where it is another, or nothing can be read."""
    try:
        entry = json.loads(path_of(name).read_text(encoding="utf-8"))
        trials = tuple(Trial(what, Outcome(outcome), detail) for what, outcome, detail in entry["trials"])
    except (OSError, ValueError, TypeError, KeyError):
        return ()
    return trials if entry.get("key") == key else ()
