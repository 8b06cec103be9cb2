"""The record of TorchAO's plan says what is true of TorchAO, and a checkout that cannot be planned is named."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.proof.torchao import CONFIG, RECORD, SOURCE, find_source

FOUND: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
MXFP8 = "torchao/_C_mxfp8.cpython-310-x86_64-linux-gnu.so"


def test_the_record_is_of_the_config_that_is_asked_now() -> None:
    assert FOUND["config"] == CONFIG


def test_there_is_a_pure_wheel_one_for_each_cuda_and_one_per_torch_for_macos() -> None:
    kinds = Counter(re.split(r"-(?=py3|cp)", one["wheel"])[1].partition("_")[0] for one in FOUND["wheels"])
    assert kinds == {"py3-none-any.whl": 1, "cp310-abi3-manylinux": 3, "cp310-abi3-macosx": 6}
    labels = [label for one in FOUND["wheels"] for label in re.findall(r"\+(cu\d+)-", one["wheel"])]
    assert labels == ["cu126", "cu128", "cu130"]


def test_a_release_starts_few_jobs_and_none_that_another_runner_could_host() -> None:
    jobs = {one["runner"]: one["jobs"] for one in FOUND["runners"]}
    # beside the builds one runner of each kind for the trials, and the five jobs of any release
    assert jobs == {"ubuntu-24.04": 4 + 1 + 5, "macos-15": 6 + 1, "windows-2025": 1}
    assert sum(jobs.values()) <= 20


def test_an_older_torch_does_without_the_library_that_needs_a_newer_one() -> None:
    spared = {one["wheel"].partition("+")[2][:5]: one["spared"] for one in FOUND["wheels"] if one["spared"]}
    assert spared == {"cu128": {MXFP8: "2.11"}, "cu130": {MXFP8: "2.11"}}
    reasons = [reason for which, _, reason in FOUND["reasons"] if which.endswith("linux-cuda")]
    assert any("without torchao/_C_mxfp8, which needs torch 2.11: torchao/__init__.py:94" in one for one in reasons)


def test_no_switch_was_set_and_those_that_are_off_are_listed() -> None:
    assert not any("built with" in reason for _, _, reason in FOUND["reasons"])
    assert any("off by default: BUILD_TORCHAO_EXPERIMENTAL (setup.py:726)" in one for one in FOUND["warnings"])


@pytest.mark.parametrize(
    ("folders", "why"),
    [
        ((), "is no checkout of TorchAO: TORCHAO_SOURCE names one"),
        (("torchao",), "lacks its submodule: `git submodule"),
    ],
)
def test_why_there_is_no_source_is_said(folders: tuple[str, ...], why: str, tmp_path: Path) -> None:
    for name in folders:
        (tmp_path / name).mkdir()
    folder, said = find_source({SOURCE: str(tmp_path)})
    assert folder is None
    assert why in said
