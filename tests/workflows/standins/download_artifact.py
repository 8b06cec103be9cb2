"""Stands for actions/download-artifact: copies what upload_artifact.py left, of this run or of another one."""

from __future__ import annotations

import hashlib
import os
import shutil
from fnmatch import fnmatchcase
from pathlib import Path

from standin import INPUTS, SETTINGS, WORKSPACE, given, hand_on, refuse, shared


def store() -> Path:
    """Return the folder of the run's artifacts; those of another run need a token, as they do on GitHub."""
    if INPUTS["run-id"] in {"", os.environ["GITHUB_RUN_ID"]}:
        return shared("artifacts")
    if not INPUTS["github-token"]:
        refuse("Unable to download artifact(s): the artifacts of another run need github-token")
    if INPUTS["run-id"] not in SETTINGS["runs"]:
        refuse(f"Unable to download artifact(s): there is no run {INPUTS['run-id']}")
    return Path(SETTINGS["runs"][INPUTS["run-id"]])


def identifier(name: str) -> str:
    return str(int(hashlib.sha256(name.encode()).hexdigest()[:8], 16))


def chosen(names: list[str]) -> list[str]:
    if INPUTS["name"]:
        if INPUTS["name"] not in names:
            refuse(f"Unable to download artifact(s): Artifact not found for name: {INPUTS['name']}")
        return [INPUTS["name"]]
    if INPUTS["artifact-ids"]:
        asked = {number.strip() for number in INPUTS["artifact-ids"].split(",")}
        return [name for name in names if identifier(name) in asked]
    patterns = alternatives(INPUTS["pattern"] or "*")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def alternatives(pattern: str) -> list[str]:
    """Return the patterns that {one,another} in one stands for, as minimatch does; {one} stands for itself."""
    head, brace, rest = pattern.partition("{")
    inner, closed, tail = rest.partition("}")
    if not (brace and closed and "," in inner):
        return [pattern]
    return [f"{head}{one}{tail}" for one in inner.split(",")]


def main() -> None:
    if INPUTS["name"] and INPUTS["artifact-ids"]:
        refuse("Inputs 'name' and 'artifact-ids' cannot be used together. Please specify only one.")
    artifacts = store()
    target = WORKSPACE / Path(INPUTS["path"]).expanduser()
    names = chosen(sorted(path.name for path in artifacts.iterdir()))
    together = given("merge-multiple") or bool(INPUTS["name"]) or (bool(INPUTS["artifact-ids"]) and len(names) == 1)
    for name in names:
        shutil.copytree(artifacts / name, target if together else target / name, dirs_exist_ok=True)
    hand_on(download_path=str(target))
    print(f"Total of {len(names)} artifact(s) downloaded: {', '.join(names)}")


main()
