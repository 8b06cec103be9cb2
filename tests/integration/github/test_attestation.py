"""fatwheel ci attested: a release is what a workflow signed, as gh says it; the harness's stand-in stands for gh."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_tools.errors import InputError, MachineError, Rejected
from ci_tools.github.attestation import verify
from ci_tools.machine.context import Outside, Silent
from tests.servers.prepared import run_prepared
from tests.unit.github.test_attestation import FILES, OURS, Signed, made
from tests.workflows import used_actions

pytestmark = pytest.mark.slow


@pytest.fixture
def signed(tmp_path: Path) -> Signed:
    """A release that was signed, and a gh that knows of it."""
    release, settings = Signed(tmp_path), tmp_path / "settings.json"
    settings.write_text(
        json.dumps({"shared": str(tmp_path / "shared"), "signers": [OURS], "runs": {}}), encoding="utf-8"
    )
    used_actions.write_command(tmp_path / "bin" / "gh", "gh.py", settings)
    return release


def replace_gh(signed: Signed, script: str) -> None:
    (signed.home / "bin" / "gh").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")


def test_a_release_that_was_signed_is_verified_file_by_file(signed: Signed) -> None:
    assert signed.verify() == list(FILES)


def test_github_is_asked_where_there_is_no_bundle(signed: Signed) -> None:
    outside = Outside(environ=signed.environ, cache=signed.home / "cache", reporter=Silent())
    assert len(verify(signed.folder, "me/mine", OURS, None, outside)) == len(FILES)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_changed_after_it_was_signed_is_named(name: str, signed: Signed) -> None:
    signed.write(name, b"another content")
    with pytest.raises(Rejected) as refused:
        signed.verify()
    assert str(refused.value).count("it is not attested") == 1
    assert f"{name}: it is not attested: Error: no attestations found for subject" in str(refused.value)


def test_all_that_is_not_attested_is_said_at_once(signed: Signed) -> None:
    for name in FILES:
        signed.write(name, b"another content of " + name.encode())
    with pytest.raises(Rejected) as refused:
        signed.verify()
    assert str(refused.value).count("it is not attested") == len(FILES)


def test_a_file_that_came_later_is_not_attested(signed: Signed) -> None:
    signed.write("demo-1.0+cu130-cp312-cp312-linux_x86_64.whl", b"smuggled in")
    with pytest.raises(Rejected, match=r"cu130-cp312-cp312-linux_x86_64\.whl: it is not attested"):
        signed.verify()


@pytest.mark.parametrize(
    ("repository", "signer", "words"),
    [
        pytest.param("you/yours", OURS, "expected SourceRepositoryURI of you/yours", id="repository"),
        pytest.param("me/mine", "me/mine/.github/workflows/wheels.yml", "expected SAN value to match me", id="signer"),
        pytest.param("me/mine", OURS.replace("wheels", "ci"), "expected SAN value to match fatwheel", id="workflow"),
    ],
)
def test_what_somebody_else_signed_is_refused(repository: str, signer: str, words: str, signed: Signed) -> None:
    with pytest.raises(Rejected) as refused:
        signed.verify(repository, signer)
    assert str(refused.value).count(words) == len(FILES)


def test_the_bundle_of_another_run_is_refused(signed: Signed) -> None:
    (signed.bundles / "attestation.json").write_text("{}", encoding="utf-8")
    with pytest.raises(Rejected, match="was not signed for"):
        signed.verify()


HOSTILE = {
    "option": "--bundle=x.whl",
    "blank": "a b.whl",
    "shell": "$(touch HERE);`id`.whl",
    "quote": "a'b\"c.whl",
    "line": "a\n::error::b.whl",
    "terminal": "\x1b[2Ja.whl",
    "unicode": "ä✅.whl",
    "hidden": ".whl",
}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_name_is_a_name(name: str, signed: Signed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(signed.home)
    signed.write(name, b"hostile")
    signed.sign()
    assert name in signed.verify()
    signed.write(name, b"tampered")
    with pytest.raises(Rejected) as refused:
        signed.verify()
    text = str(refused.value)
    assert (text.count("\n"), "\x1b" in text, (signed.home / "HERE").exists()) == (1, False, False)


@pytest.mark.parametrize("folder", ["-dist", "oci:", "--repo=you"])
def test_a_hostile_folder_is_a_folder(folder: str, signed: Signed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(signed.home)
    signed.folder = signed.folder.rename(folder)
    signed.bundles = signed.bundles.rename(f"{folder}-bundles")
    assert len(signed.verify()) == len(FILES)


ENDINGS: dict[str, tuple[Callable[[Signed], object], int]] = {
    "good": (lambda _: None, 0),
    "tampered": (lambda signed: signed.write("plan.json", b"[]"), 1),
    "no-bundle": (lambda signed: (signed.bundles / "attestation.json").unlink(), 2),
    "no-gh": (lambda signed: signed.environ.update(PATH=str(signed.home)), 3),
}


@pytest.mark.parametrize(("spoil", "status"), ENDINGS.values(), ids=ENDINGS)
def test_a_step_ends_by_what_was_found(spoil: Callable[[Signed], object], status: int, signed: Signed) -> None:
    spoil(signed)
    given = {"FOLDER": "dist", "BUNDLES": "attestation", "REPOSITORY": "me/mine", "SIGNER": OURS}
    own = {
        **signed.environ,
        **{f"WITH_{name}": value for name, value in given.items()},
        "HOME": str(signed.home),
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    told = run_prepared(["ci", "step", "attested"], cwd=signed.home, env=own)
    assert (told.returncode, "Traceback" in told.stderr) == (status, False), told.stderr


def test_gh_that_hangs_is_ended(signed: Signed) -> None:
    replace_gh(signed, "sleep 1000")
    with pytest.raises(MachineError, match=r"gh did not verify demo-1\.0-py3-none-any\.whl within 1 seconds"):
        signed.verify(timeout=1)


def test_gh_without_a_token_says_how_to_give_it_one(signed: Signed) -> None:
    del signed.environ["GH_TOKEN"]
    with pytest.raises(InputError, match=r"gh has no token: To use GitHub CLI") as refused:
        signed.verify()
    assert "GH_TOKEN: ${{ github.token }}" in refused.value.hint


def test_gh_sees_its_own_variables_alone(signed: Signed) -> None:
    signed.environ |= {"AWS_SECRET_ACCESS_KEY": "hunter2", "GH_HOST": "ghe.example.invalid"}
    replace_gh(signed, f"env >{signed.home / 'seen'}")
    signed.verify()
    seen = (signed.home / "seen").read_text(encoding="utf-8")
    assert ("GH_HOST=ghe.example.invalid" in seen, "GH_TOKEN=ghs_it" in seen, "hunter2" in seen) == (True, True, False)


def test_what_gh_says_moves_no_terminal_and_is_short(signed: Signed) -> None:
    replace_gh(signed, "printf '\\033[2J::error::x\\n%05000d\\n' 1; exit 1")
    with pytest.raises(Rejected) as refused:
        signed.verify()
    assert "\x1b" not in str(refused.value)
    assert max(map(len, str(refused.value).splitlines())) < 600


def test_a_step_says_on_its_page_that_nobody_signed(tmp_path: Path) -> None:
    made(tmp_path)
    page = tmp_path / "page.md"
    environ = {**os.environ, "WITH_FOLDER": str(tmp_path), "GITHUB_STEP_SUMMARY": str(page), "GITHUB_ACTIONS": "true"}
    done = run_prepared(["ci", "step", "unattested"], env=environ)
    assert done.returncode == 0, done.stderr
    assert "::notice title=Fatwheel::no file of" in done.stderr
    assert page.read_text().startswith("⚠️ **Not attested:** 1 file, each as its receipt says;")
