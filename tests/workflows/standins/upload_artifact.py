"""Stands for actions/upload-artifact: copies files to a shared folder, by the rules of the real one."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from glob import glob, has_magic
from pathlib import Path

from standin import INPUTS, WORKSPACE, given, hand_on, refuse, required, shared, words

FORBIDDEN = re.compile(r'[":<>|*?\r\n\\/]')


def search() -> tuple[list[Path], list[Path]]:
    """Return the files that the patterns of `path` name, and the folders that the patterns start from."""
    files: list[Path] = []
    roots: list[Path] = []
    for pattern in words("path"):
        place = str(WORKSPACE / Path(pattern.removeprefix("!")).expanduser())
        found = [file for match in glob(place, recursive=True) for file in within(Path(match))]
        if pattern.startswith("!"):
            files = [file for file in files if file not in found]
        else:
            files += found
            roots.append(start(place))
    return sorted(set(files)), roots


def within(path: Path) -> list[Path]:
    """Return the files below a folder, or the file itself."""
    return [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]


def start(place: str) -> Path:
    """Return the part of a pattern before its first wildcard."""
    parts = Path(place).parts
    plain = next((number for number, part in enumerate(parts) if has_magic(part)), len(parts))
    return Path(*parts[:plain])


def root(files: list[Path], roots: list[Path]) -> Path:
    """Return the folder whose place the artifact takes."""
    if len(roots) > 1:
        return Path(os.path.commonpath([path.parent if path.is_file() else path for path in roots]))
    return roots[0].parent if files == [roots[0]] else roots[0]


def is_hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(folder).parts)


def main() -> None:
    required("path", "name")
    if FORBIDDEN.search(INPUTS["name"]):
        refuse(f'The artifact name is not valid: {INPUTS["name"]}. It contains one of these: " : < > | * ? \\ /')
    if INPUTS["if-no-files-found"] not in {"warn", "error", "ignore"}:
        refuse(f"Unrecognized if-no-files-found input: {INPUTS['if-no-files-found']}")
    files, roots = search()
    folder = root(files, roots)
    files = [file for file in files if given("include-hidden-files") or not is_hidden(file, folder)]
    upload(files, folder) if files else nothing_found()


def nothing_found() -> None:
    message = f"No files were found with the provided path: {INPUTS['path']}. No artifacts will be uploaded."
    if INPUTS["if-no-files-found"] == "error":
        refuse(message)
    if INPUTS["if-no-files-found"] == "warn":
        print(f"::warning::{message}")


def upload(files: list[Path], folder: Path) -> None:
    if not given("archive") and len(files) > 1:
        refuse("When 'archive' is set to false, only a single file can be uploaded")
    name = INPUTS["name"] if given("archive") else files[0].name
    target = shared("artifacts") / name
    if given("overwrite"):
        shutil.rmtree(target, ignore_errors=True)
    try:
        target.mkdir()
    except FileExistsError:
        refuse(f"Failed to CreateArtifact: (409) Conflict: an artifact with this name already exists: {name}")
    for file in files:
        copy = target / file.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)  # an artifact keeps no permissions
    digest = hashlib.sha256(name.encode()).hexdigest()
    hand_on(artifact_id=str(int(digest[:8], 16)), artifact_url=f"artifact:{name}", artifact_digest=digest)
    print(f"Artifact {name} has been uploaded: {len(files)} files")


main()
