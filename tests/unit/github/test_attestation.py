"""fatwheel ci attested: what is refused before gh is asked, and a release that nobody signed."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from ci_tools.errors import InputError, MachineError, Rejected
from ci_tools.formats import receipts
from ci_tools.github.attestation import hold_to_receipts, verify
from ci_tools.machine.context import Outside, Silent
from ci_tools.model.files import Receipt

OURS = "fatwheel/fatwheel/.github/workflows/wheels.yml"
FILES = {
    "demo-1.0-py3-none-any.whl": b"a wheel",
    "demo-1.0.tar.gz": b"an sdist",
    "plan.json": b"{}",
    "receipts/linux-cpu.json": b'{"job": "linux-cpu"}',
}


class Signed:
    """A release folder, and what a run of me/mine signed of it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "dist"
        self.bundles = home / "attestation"
        self.environ = {"PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}", "GH_TOKEN": "ghs_it"}
        for name, content in FILES.items():
            self.write(name, content)
        self.sign()

    def write(self, name: str, content: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def sign(self) -> None:
        """Write the bundle that attest.py writes: one for all files."""
        files = {str(path): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}
        digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        subjects = [{"name": name, "digest": {"sha256": digest}} for name, digest in digests.items()]
        bundle = json.dumps({"subject": subjects, "predicate": {"GITHUB_REPOSITORY": "me/mine"}})
        for place in (self.bundles / "attestation.json", *(self.store(digest) for digest in digests.values())):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(bundle, encoding="utf-8")

    def store(self, digest: str) -> Path:
        """Return where GitHub keeps what was signed of a file."""
        return self.home / "shared" / "attestations" / f"{digest}.json"

    def verify(self, repository: str = "me/mine", signer: str = OURS, *, timeout: float = 60) -> list[str]:
        outside = Outside(environ=self.environ, cache=self.home / "cache", reporter=Silent())
        found = verify(self.folder, repository, signer, self.bundles, outside, timeout=timeout)
        return [path.relative_to(self.folder).as_posix() for path in found]


@pytest.fixture
def signed(tmp_path: Path) -> Signed:
    return Signed(tmp_path)


@pytest.mark.parametrize(
    ("repository", "signer", "words"),
    [
        pytest.param("mine", OURS, '--repository: "mine" is not valid, expected OWNER/REPO', id="no-owner"),
        pytest.param("--owner=me/x", OURS, "--repository", id="option"),
        pytest.param("me/mine\n::error::", OURS, "is not valid, expected OWNER/REPO", id="lines"),
        pytest.param("me/mine", "me/mine", "--signer", id="no-workflow"),
        pytest.param("me/mine", "me/mine/.github/workflows/../../x.yml", "--signer", id="upward"),
        pytest.param("me/mine", f"{OURS}@refs/heads/main", "--signer", id="ref"),
    ],
)
def test_a_name_of_another_shape_is_refused(repository: str, signer: str, words: str, signed: Signed) -> None:
    with pytest.raises(InputError) as refused:
        signed.verify(repository, signer)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("number", [0, 2])
def test_one_bundle_is_expected(number: int, signed: Signed) -> None:
    for path in signed.bundles.iterdir():
        path.unlink()
    for count in range(number):
        (signed.bundles / f"{count}.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match=f"has {number} attestations, expected the one bundle of a run"):
        signed.verify()


def test_a_folder_without_a_release_is_refused(signed: Signed) -> None:
    signed.folder = signed.home / "nothing"
    with pytest.raises(InputError, match="has no wheel or sdist"):
        signed.verify()


def test_without_gh_the_machine_is_to_blame(signed: Signed) -> None:
    signed.environ["PATH"] = str(signed.home / "empty")
    with pytest.raises(MachineError, match="gh, which verifies attestations, is not installed"):
        signed.verify()


# ---------------------------------------------------------------- a release that nobody signed


def test_without_an_attestation_each_file_is_held_against_its_receipt(tmp_path: Path) -> None:
    path = made(tmp_path)
    assert hold_to_receipts(tmp_path) == (path,)
    path.write_bytes(b"another")
    with pytest.raises(Rejected, match=r"demo-1\.0\.tar\.gz: it has no receipt of its present bytes"):
        hold_to_receipts(tmp_path)


def test_a_folder_without_files_is_no_release_that_nobody_signed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no wheel or sdist"):
        hold_to_receipts(tmp_path)


def made(folder: Path) -> Path:
    """Write an sdist with a receipt."""
    path = folder / "demo-1.0.tar.gz"
    path.write_bytes(b"an sdist")
    digest = hashlib.sha256(b"an sdist").hexdigest()
    known = {"project": "demo", "version": "1.0", "job": "sdist", "source": "0" * 64, "key": "k", "seconds": 1.0}
    receipts.save(path, Receipt(file=path.name, sha256=digest, size=8, **known))  # type: ignore[arg-type]
    return path
