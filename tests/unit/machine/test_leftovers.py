"""What a run leaves that was killed is gone after the next one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import BinaryIO

import pytest

from ci_tools.build import folders, jobs
from ci_tools.build.jobs import working_in
from ci_tools.machine import storage
from tests.builders.sources import world, write


def test_half_written_receipts_are_removed(tmp_path: Path) -> None:
    out = write(tmp_path / "dist", {"receipts/.demo.whl.json.x1.partial": "{", ".demo.whl.x2.partial": "", "a.whl": ""})
    os.utime(out / "receipts/.demo.whl.json.x1.partial", (1e9, 1e9))
    with working_in(out, world(tmp_path)):  # what every verb does that writes there
        found = {path.name for path in out.rglob("*") if path.is_file()}
    assert found - {".fatwheel.lock", ".gitignore"} == {"a.whl"}


def test_a_receipt_that_a_trial_is_writing_stays(tmp_path: Path) -> None:
    receipt = tmp_path / "dist/receipts/demo.whl.json"
    with storage.write_atomically(receipt) as file, working_in(tmp_path / "dist", world(tmp_path)):
        file.write(b"{}")  # `validate` takes no lock, for it may take as long as a build
    assert receipt.read_bytes() == b"{}"


def test_a_run_does_not_remove_what_another_is_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Thread(target=lambda: run(tmp_path))

    @contextmanager
    def write_slowly(path: Path) -> Iterator[BinaryIO]:
        with storage.write_atomically(path) as file:
            yield file
            if other.ident is None:  # it comes now, while the file is unfinished, and waits or cleans up
                other.start()
                other.join(0.2)

    monkeypatch.setattr(jobs, "write_atomically", write_slowly)
    run(tmp_path)
    other.join()
    assert (tmp_path / "dist/.gitignore").is_file()


def run(folder: Path) -> None:
    with working_in(folder / "dist", world(folder)):
        pass


def test_the_folders_of_killed_builds_are_removed_and_others_stay(tmp_path: Path) -> None:
    locks = folders.own_locks(tmp_path)
    for name in ("fatwheel-demo-1.0-pure", "fatwheel-demo-1.1-pure", "other"):
        (tmp_path / name / "source").mkdir(parents=True)
    (locks / "fatwheel-demo-1.0-pure.lock").touch()
    with storage.hold_lock(locks / "fatwheel-demo-1.1-pure", lambda _: None):
        folders.sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {locks.name, "fatwheel-demo-1.1-pure", "other"}
