"""The bot that proposes newer versions of what is pinned."""

from __future__ import annotations

import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from tests.workflows import rules

ROOT = Path(__file__).parents[3]
UPDATES = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text(encoding="utf-8"))["updates"]


def pinned() -> dict[str, set[str]]:
    """Return the folders with files that pin something, by the name of what looks after it; of workflows it is "/"."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = [Path(path) for path in listed.split("\0") if (ROOT / path).is_file()]
    locks = [path for path in paths if path.suffix == ".txt" and "--hash=" in (ROOT / path).read_text("utf-8")]
    actions = {Path(name).parent for name, file in rules.project(ROOT).items() if file.is_action}
    return {
        "github-actions": {"/", *(f"/{folder.as_posix()}" for folder in actions - {Path()})},
        "npm": {f"/{path.parent.as_posix()}" for path in paths if path.name == "package-lock.json"},
        "pip": {f"/{path.parent.as_posix()}" for path in locks},
    }


def test_every_file_that_pins_something_is_looked_after() -> None:
    patterns = {it["package-ecosystem"]: it.get("directories") or [it["directory"]] for it in UPDATES}
    found = pinned()
    assert found.keys() == patterns.keys()
    assert all(found.values())
    missed = [
        folder
        for name, folders in found.items()
        for folder in folders
        if not any(fnmatchcase(folder, pattern) for pattern in patterns[name])
    ]
    assert missed == []


def test_every_update_waits_for_others_to_find_what_is_bad() -> None:
    assert [it["package-ecosystem"] for it in UPDATES if it.get("cooldown", {}).get("default-days", 0) < 7] == []
