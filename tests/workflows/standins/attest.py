"""Stands for actions/attest: writes a bundle that names each subject by its digest, and signs nothing."""

from __future__ import annotations

import hashlib
import json
import os
import re
from glob import glob
from pathlib import Path

from standin import INPUTS, WORKSPACE, given, hand_on, refuse, required, shared, words

SUBJECTS = ("subject-path", "subject-digest", "subject-checksums")
MOST = 1024


def subjects() -> dict[str, str]:
    """Return the sha256 of each subject by its name."""
    named = [name for name in SUBJECTS if INPUTS[name]]
    if len(named) != 1:
        refuse("One of subject-path, subject-digest or subject-checksums must be provided")
    if named == ["subject-digest"]:
        required("subject-name")
        return {INPUTS["subject-name"]: INPUTS["subject-digest"].removeprefix("sha256:")}
    return of_files() if named == ["subject-path"] else of_checksums()


def of_files() -> dict[str, str]:
    patterns = [pattern.strip() for line in words("subject-path") for pattern in line.split(",")]
    files = [Path(file) for pattern in patterns for file in glob(str(WORKSPACE / pattern), recursive=True)]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(files) if file.is_file()}


def of_checksums() -> dict[str, str]:
    text = (WORKSPACE / INPUTS["subject-checksums"]).read_text(encoding="utf-8")
    return {name: digest for digest, name in re.findall(r"^([0-9a-f]{64}) [ *](.+)$", text, re.MULTILINE)}


def main() -> None:
    required("github-token")
    if given("push-to-registry"):
        refuse("A wheel is pushed to no container registry")
    found = subjects()
    if not 0 < len(found) <= MOST:
        refuse(f"Could not find subject at path {INPUTS['subject-path']}" if not found else "Too many subjects")
    bundle = Path(os.environ["RUNNER_TEMP"]) / "attestation.json"
    bundle.write_text(json.dumps(statement(found), indent=1), encoding="utf-8")
    for digest in found.values():
        (shared("attestations") / f"{digest}.json").write_bytes(bundle.read_bytes())
    with (bundle.parent / "created_attestation_paths.txt").open("a", encoding="utf-8") as stream:
        stream.write(f"{bundle}\n")
    hand_on(bundle_path=str(bundle), attestation_id="1", attestation_url="attestation:1", storage_record_ids="")
    print(f"Attestation created for {len(found)} subjects")


def statement(found: dict[str, str]) -> dict[str, object]:
    """Return an in-toto statement, unsigned, with the build's provenance in short."""
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in found.items()],
        "predicateType": INPUTS["predicate-type"] or "https://slsa.dev/provenance/v1",
        "predicate": {name: os.environ[name] for name in ("GITHUB_REPOSITORY", "GITHUB_SHA", "GITHUB_REF")},
    }


main()
