"""Who attested a wheel, and what of that is not checked."""

from __future__ import annotations

import json
from pathlib import Path

from ci_tools.verify.remake.attested import find_attestation
from tests.builders.attestations import WORKFLOW, sign_provenance
from tests.builders.sources import write
from tests.servers.assets import assets

SHA, HERE = "a" * 64, "https://github.com/octo/demo"


def test_a_bundle_at_hand_says_who_and_that_nobody_has_asked_the_root(tmp_path: Path) -> None:
    write(tmp_path, {"bundle.json": json.dumps(sign_provenance(SHA, HERE))})
    found = find_attestation(SHA, (), tmp_path / "bundle.json", {})
    assert (found.by, found.signer) == (HERE, WORKFLOW)
    assert "Sigstore's root has not vouched for" in found.unchecked


def test_each_line_of_what_gh_downloads_is_a_bundle(tmp_path: Path) -> None:
    lines = [json.dumps(sign_provenance(SHA, HERE)) for _ in range(2)]
    write(tmp_path, {"sha256.jsonl": "\n".join([*lines, ""])})
    assert find_attestation(SHA, (), tmp_path / "sha256.jsonl", {}).by == HERE


def test_a_bundle_of_other_bytes_is_none(tmp_path: Path) -> None:
    write(tmp_path, {"bundle.json": json.dumps(sign_provenance("b" * 64, HERE))})
    found = find_attestation(SHA, (), tmp_path / "bundle.json", {})
    assert (found.by, "it is of other bytes" in found.unchecked) == ("", True)


def test_github_is_asked_for_the_repository_of_the_source_and_another_s_word_counts_for_nothing(tmp_path: Path) -> None:
    for owner, signed in (("octo", HERE), ("mallory", HERE)):
        kept = {"attestations": [{"bundle": sign_provenance(SHA, signed)}]}
        write(tmp_path / "repos" / owner / "demo" / "attestations", {f"sha256:{SHA}": json.dumps(kept)})
    with assets(tmp_path) as server:
        environ = {"GITHUB_API_URL": server.url.rstrip("/")}
        asked = [f"https://github.com/{owner}/demo.git" for owner in ("octo", "mallory", "nobody")]
        found = [find_attestation(SHA, (address,), None, environ) for address in asked]
    assert [one.by for one in found] == [HERE, "", ""]
    assert "private repository" in found[-1].unchecked  # which GitHub does not tell from one without an attestation
    assert "--bundle FILE" in found[-1].unchecked


def test_where_no_repository_is_known_no_private_one_is_spoken_of() -> None:
    assert "private" not in find_attestation(SHA, ("file:///wheels/a.whl",), None, {}).unchecked
