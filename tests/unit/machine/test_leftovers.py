"""What a run leaves that was killed is gone after the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.build import folders
from ci_tools.build.jobs import working_in
from ci_tools.machine import storage
from tests.builders.sources import world, write

if TYPE_CHECKING:
    from pathlib import Path


def test_half_written_receipts_are_removed(tmp_path: Path) -> None:
    out = write(tmp_path / "dist", {"receipts/.demo.whl.json.x1.partial": "{", ".demo.whl.x2.partial": "", "a.whl": ""})
    with working_in(out, world(tmp_path)):  # what every verb does that writes there
        found = {path.name for path in out.rglob("*") if path.is_file()}
    assert found - {".fatwheel.lock", ".gitignore"} == {"a.whl"}


def test_the_folders_of_killed_builds_are_removed_and_others_stay(tmp_path: Path) -> None:
    locks = folders.own_locks(tmp_path)
    for name in ("fatwheel-demo-1.0-pure", "fatwheel-demo-1.1-pure", "other"):
        (tmp_path / name / "source").mkdir(parents=True)
    (locks / "fatwheel-demo-1.0-pure.lock").touch()
    with storage.hold_lock(locks / "fatwheel-demo-1.1-pure", lambda _: None):
        folders.sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {locks.name, "fatwheel-demo-1.1-pure", "other"}
