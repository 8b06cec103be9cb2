"""The reference package: its release is made again from a clean clone at another path, every compile unit anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders.sources import committed, git
from tests.integration.conftest import CommandLine

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.mark.parametrize("job", ["pure", "linux-cuda-cu130"])
def test_the_reference_release_is_made_again(
    fatwheel: CommandLine, checkout: Path, cuda_home: Path, tmp_path: Path, job: str
) -> None:
    assert cuda_home.is_dir()
    git(tmp_path, "clone", "--quiet", str(release(checkout)), str(tmp_path / "clone"))
    config, out = checkout / "package" / "fatwheel.yml", tmp_path / "dist"
    built = fatwheel("build", config, "--job", job, "--out", out, cwd=checkout)
    assert built.status == 0, built.stderr
    ran = fatwheel("verify", next(out.glob("*.whl")), "--source", tmp_path / "clone", "--format", "json", cwd=tmp_path)
    assert (ran.status, json.loads(ran.stdout)["environment"]) == (0, []), ran.stderr


def release(checkout: Path) -> Path:
    """Return the checkout as a repository with the tag of the release."""
    if not (checkout / ".git").exists():
        committed(checkout)
        git(checkout, "tag", "ao-kernels-v0.1.0")
    return checkout
