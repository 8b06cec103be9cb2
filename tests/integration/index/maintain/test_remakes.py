"""Who made an index's wheels again: what a run of verify.yml signed, and a person's word, which is shown as one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci_tools.errors import InputError
from ci_tools.github.client import Hub
from ci_tools.index.maintain.remakes import note_attested, note_word
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.storage import sha256_of
from ci_tools.publish.targets.github_release.remakes import list_remakes
from tests.builders import wheels
from tests.builders.attestations import sign_provenance
from tests.builders.indexes import CUDA, PURE, demo_index, root
from tests.builders.remade import write_stating_wheel, write_wheel_of_others
from tests.integration.test_index_of_repositories import files_of, upload, write_all
from tests.integration.test_releasepages import outside
from tests.servers.github import REPOSITORY, GitHub

pytestmark = pytest.mark.slow

BUILDS, REMAKES = (
    f"https://github.com/octo-tools/fatwheel/.github/workflows/{name}.yml@v1" for name in ("wheels", "verify")
)


def sign(hub: GitHub, sha256: str, signer: str) -> None:
    """Let GitHub keep what a run of a workflow of its repository signed for a file."""
    hub.attested[sha256] = 1
    hub.bundles[sha256] = sign_provenance(sha256, f"{hub.url}/{REPOSITORY}", signer=signer)


def opened(hub: GitHub, tmp_path: Path) -> Hub:
    return Hub(REPOSITORY, outside(hub, tmp_path), base_url=hub.url, pause=0.01)


def remade_in(index: WheelIndex) -> dict[str, Any]:
    return {name: file["remade"] for name, file in files_of(root(index), "demo").items() if "remade" in file}


def record(folder: Path, index: WheelIndex, name: str, **changed: object) -> Path:
    """Write what `fatwheel verify --format json` prints of a wheel of the index."""
    path = next(root(index).rglob(name))
    found = {"wheel": name, "sha256": sha256_of(path), "same": True, "on": "2026-11-29T05:41:00Z"}
    (folder / "verdict.json").write_text(json.dumps({**found, "schema": 1, **changed}))
    return folder / "verdict.json"


def test_an_index_over_releases_says_which_wheels_a_run_made_again(hub: GitHub, tmp_path: Path) -> None:
    again, once = (wheels.make(tmp_path, f"gpu-{n}.0-py3-none-any.whl") for n in (1, 2))
    upload(hub, "gpu", again, once)
    sign(hub, sha256_of(again), REMAKES)
    sign(hub, sha256_of(once), BUILDS)
    files = files_of(write_all(tmp_path, hub)[0], "gpu")
    assert files[again.name]["remade"] == [f"{hub.url}/{REPOSITORY}", "2026-11-01", REMAKES]
    assert "remade" not in files[once.name]


def test_a_signature_is_noted_and_no_word_replaces_it(hub: GitHub, tmp_path: Path) -> None:
    index = demo_index(tmp_path)
    sign(hub, sha256_of(next(root(index).rglob(PURE))), REMAKES)
    signed = [f"{hub.url}/{REPOSITORY}", "2026-11-01", REMAKES]
    assert note_attested(index, opened(hub, tmp_path)) == (PURE,)
    note_word(index, [record(tmp_path, index, PURE)], "Ada")
    note_word(index, [record(tmp_path, index, CUDA)], "Ada")
    assert remade_in(index) == {PURE: signed, CUDA: ["Ada", "2026-11-29", ""]}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        pytest.param({"same": False}, "the remake differs", id="it-differs"),
        pytest.param({"sha256": "0" * 64}, "does not have it", id="other-bytes"),
        pytest.param({"on": 3}, "expected a text", id="no-record"),
    ],
)
def test_a_record_that_is_of_no_wheel_of_the_index_is_refused(
    tmp_path: Path, changed: dict[str, object], said: str
) -> None:
    index = demo_index(tmp_path)
    with pytest.raises(InputError, match=said):
        note_word(index, [record(tmp_path, index, PURE, **changed)], "Ada")
    assert remade_in(index) == {}


def change_python(sbom: dict[str, Any]) -> None:
    sbom["components"].append({"bom-ref": "CPython", "name": "CPython", "type": "platform", "version": "3.13.2"})


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        pytest.param("demo-1.0-py3-none-any.whl", None, ("ubuntu-24.04", "3.12"), id="pure"),
        pytest.param("demo-1.0-cp313-cp313-manylinux_2_28_aarch64.whl", change_python,
                     ("ubuntu-24.04-arm", "3.13.2"), id="arm"),
        pytest.param("demo-1.0-cp313-cp313-macosx_11_0_arm64.whl", change_python, ("macos-15", "3.13.2"), id="macos"),
        pytest.param("demo-1.0-cp313-cp313-win_amd64.whl", change_python, ("windows-2025", "3.13.2"), id="windows"),
    ],
)  # fmt: skip
def test_a_wheel_of_the_last_release_is_made_again_where_it_was_made(
    hub: GitHub,
    tmp_path: Path,
    name: str,
    change: Callable[[dict[str, Any]], None] | None,
    expected: tuple[str, str],
) -> None:
    wheel = write_stating_wheel(tmp_path / name, change)
    write_wheel_of_others(tmp_path / "other-1.0-py3-none-any.whl")
    upload(hub, "v1.0", wheel, tmp_path / "other-1.0-py3-none-any.whl")
    (row,) = list_remakes(opened(hub, tmp_path), "")
    assert (row.wheel, row.runner, row.python) == (name, *expected)
    with pytest.raises(InputError, match=r"no release v2\.0 with wheels"):
        list_remakes(opened(hub, tmp_path), "v2.0")
