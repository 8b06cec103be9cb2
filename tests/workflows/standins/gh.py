"""Stands for GitHub's command line in one thing, `gh attestation verify`.

It knows what attest.py wrote in this run, and in those before it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(prog="gh attestation verify", allow_abbrev=False)
    parser.add_argument("words", nargs=2, choices=("attestation", "verify"))
    parser.add_argument("file", type=Path)
    whose = parser.add_mutually_exclusive_group(required=True)
    whose.add_argument("-R", "--repo")
    whose.add_argument("-o", "--owner")
    for name in ("bundle", "signer-repo", "signer-workflow", "signer-digest", "source-digest", "source-ref", "format"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--deny-self-hosted-runners", action="store_true")
    asked = parser.parse_args()
    settings = json.loads(Path(os.environ["STANDIN_SETTINGS"]).read_text(encoding="utf-8"))
    digest = hashlib.sha256(asked.file.read_bytes()).hexdigest()
    stores = (Path(settings["shared"]), *(Path(artifacts).parent for artifacts in settings["runs"].values()))
    bundles = [store / "attestations" / f"{digest}.json" for store in stores]
    bundle = next((bundle for bundle in bundles if bundle.is_file()), bundles[0])
    signer = (asked.signer_workflow or settings["signers"][0]).partition("@")[0]
    if not os.environ.get("GH_TOKEN"):
        return refuse("To use GitHub CLI in a GitHub Actions workflow, set the GH_TOKEN environment variable.", 4)
    if not bundle.is_file():
        return refuse(f"Error: no attestations found for subject sha256:{digest}", 1)
    if asked.bundle and Path(asked.bundle).read_bytes() != bundle.read_bytes():
        return refuse(f"Error: {asked.bundle} was not signed for sha256:{digest}", 1)
    if signer not in settings["signers"]:
        return refuse(f"Error: verifying with issuer: expected SAN value to match {signer}", 1)
    statement = json.loads(bundle.read_text(encoding="utf-8"))
    repository = statement["predicate"]["GITHUB_REPOSITORY"]
    if asked.repo not in {None, repository} or asked.owner not in {None, repository.partition("/")[0]}:
        return refuse(f"Error: verifying with issuer: expected SourceRepositoryURI of {asked.repo or asked.owner}", 1)
    print(json.dumps([statement]) if asked.format == "json" else f"Loaded digest sha256:{digest}: verified")
    return 0


def refuse(message: str, status: int) -> int:
    print(message, file=sys.stderr)
    return status


sys.exit(main())
