"""The audit cries no wolf: wheels that work for their users have no errors, but for those that are true."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from ci_tools.machine.storage import cache_folder, sha256_of
from ci_tools.model.files import Level
from ci_tools.verify.audit import audit
from tests.proof.truth import HERE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from pathlib import Path

WHEELS: list[dict[str, Any]] = tomllib.loads((HERE / "field.toml").read_text(encoding="utf-8"))["wheel"]
PLATFORMS = ("manylinux_2_34", "manylinux_2_28", "manylinux_2_27", "manylinux_2_24", "manylinux2014", "manylinux1")
MACHINE = "x86_64"
LIMITS = {"pypi": 1 << 30, "github": 1 << 30}  # how large a project's files may be is between it and its index


def fetched(wheel: dict[str, Any]) -> Path:
    """Return the wheel from the user's cache, fetched from the package index where it is not there."""
    folder = cache_folder(os.environ) / "field"
    path = folder / wheel["file"]
    if not path.is_file() or sha256_of(path) != wheel["sha256"]:
        folder.mkdir(parents=True, exist_ok=True)
        asked = folder / f"{wheel['name']}.txt"
        asked.write_text(f"{wheel['name']}=={wheel['version']} --hash=sha256:{wheel['sha256']}\n", encoding="utf-8")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        target = [
            "--python-version",
            "3.11",
            *(part for tag in PLATFORMS for part in ("--platform", f"{tag}_{MACHINE}")),
        ]
        subprocess.run([*command, *target, "--dest", folder, "--requirement", asked], check=True)
    return path


def test_the_field_is_wide() -> None:
    assert len(WHEELS) >= 40
    assert len({wheel["name"] for wheel in WHEELS}) == len(WHEELS)


@pytest.mark.long
@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: str(wheel["name"]))
def test_a_wheel_that_works_has_no_errors(wheel: dict[str, Any], tmp_path: Path) -> None:
    path = fetched(wheel)
    assert sha256_of(path) == wheel["sha256"]
    found = audit(path, job=None, limits=LIMITS, work=tmp_path)
    assert {one.rule for one in found if one.level is Level.ERROR} == set(wheel.get("errors", ()))
