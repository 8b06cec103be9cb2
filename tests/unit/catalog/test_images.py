"""Which image a job is built in: each required job of our own configs has a compiler on a runner that GitHub hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.config import loader
from ci_tools.errors import InputError
from tests.builders.sources import demo, plan_of

CONFIG = """\
package: demo
python: ["3.12"]
platforms:
  linux-cuda: {{ owner: us, native: ["*.cu"], cuda: ["12.9", "13.0"], archs: ["9.0"]{} }}
"""
SOURCE = {
    "pyproject.toml": '[build-system]\nbuild-backend="flit_core.buildapi"\n[project]\nname="demo"\nversion="1.0"\n',
    "demo.py": "",
    "k.cu": "int f;\n",
}
BUILDER = "pytorch/manylinux2_28-builder"


def images(home: Path, more: str = "") -> dict[str, str | None]:
    """Return the image of each CUDA job of a plan, by the version."""
    plan = plan_of(demo(home / "demo", {**SOURCE, "fatwheel.yml": CONFIG.format(more)}))
    return {str(job.accelerator.version): job.container for job in plan.jobs if job.accelerator}


@pytest.mark.parametrize(
    ("more", "older", "newer"),
    [
        pytest.param("", f"{BUILDER}:cuda12.9", f"{BUILDER}:cpu", id="the-index-has-the-newer-compiler"),
        pytest.param(", toolchain: system", f"{BUILDER}:cuda12.9", f"{BUILDER}:cuda13.0", id="no-compiler-is-fetched"),
        pytest.param(", toolchain: pypi", f"{BUILDER}:cpu", f"{BUILDER}:cpu", id="every-compiler-is-fetched"),
        pytest.param(", container: 'us/cuda:{version}-1'", "us/cuda:12.9-1", "us/cuda:13.0-1", id="an-own-image"),
        pytest.param(", container: none", None, None, id="the-runner-itself"),
    ],
)
def test_a_job_has_the_image_with_the_compiler_that_it_lacks(more: str, older: str, newer: str, tmp_path: Path) -> None:
    assert images(tmp_path, more) == {"12.9": older, "13.0": newer}


def test_a_platform_without_versions_has_none_in_its_image(tmp_path: Path) -> None:
    text = 'package: demo\npython: ["3.12"]\nplatforms:\n  linux-cpu: { container: "us/cpu:{version}" }\n'
    path = demo(tmp_path / "demo", {**SOURCE, "fatwheel.yml": text}) / "fatwheel.yml"
    with pytest.raises(InputError, match="expected the image it is built in"):
        loader.load(path, catalog.load())
