from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.model.plan import SDIST, Plan
from tests.builders.sources import demo, plan_of

HEAD = """\
package: demo
python: ["3.10", "3.12", "3.13", "3.13t", "3.14t"]
platforms:
"""
PURE_PROJECT = """\
[build-system]
build-backend = "flit_core.buildapi"
[project]
name = "demo"
version = "1.0"
requires-python = ">=3"
"""
NATIVE = "int f;\n"


def plan(folder: Path, platforms: str, rest: str = "", **files: str) -> Plan:
    texts = {"fatwheel.yml": HEAD + platforms + rest, "pyproject.toml": PURE_PROJECT, "demo.py": "", **files}
    return plan_of(demo(folder / "source", texts))


def shown(found: Plan) -> list[str]:
    return [site.name for site in found.sites]


PURE = "  linux-cpu:\n  linux-aarch64:\n  windows:\n  macos-arm64:\n"


def test_a_pure_wheel_is_tried_on_every_platform_with_the_oldest_and_the_newest_python(tmp_path: Path) -> None:
    assert shown(plan(tmp_path, PURE)) == [
        "sdist on ubuntu-24.04, Python 3.10",
        "pure on ubuntu-24.04, Python 3.10",
        "pure on ubuntu-24.04, Python 3.13",
        "pure on ubuntu-24.04, Python 3.14t",
        "pure on ubuntu-24.04-arm, Python 3.10",
        "pure on ubuntu-24.04-arm, Python 3.13",
        "pure on windows-2025, Python 3.10",
        "pure on windows-2025, Python 3.13",
        "pure on macos-15, Python 3.10",
        "pure on macos-15, Python 3.13",
    ]


def test_platforms_that_share_a_runner_share_the_trial(tmp_path: Path) -> None:
    found = plan(tmp_path, "  linux-cpu:\n  linux-xpu:\n")
    assert {str(platform) for platform in found.sites[1].platforms} == {"linux-cpu", "linux-xpu"}
    assert len(found.sites) == 4


def test_a_platform_with_a_gpu_runner_is_tried_there(tmp_path: Path) -> None:
    found = plan(tmp_path, "  linux-cpu:\n  linux-xpu: { gpu-runner: [self-hosted, xpu] }\n")
    sites = {site.runner: site for site in found.sites}
    assert sites["self-hosted", "xpu"].gpu
    assert not sites["ubuntu-24.04",].gpu


def test_the_sdist_is_tried_with_the_pure_wheel(tmp_path: Path) -> None:
    site = plan(tmp_path, PURE).sites[0]
    assert (site.job, site.files) == (SDIST, ("demo-1.0.tar.gz", "demo-1.0-py3-none-any.whl"))
    assert site.tried == ("demo-1.0.tar.gz",)


@pytest.mark.parametrize(
    ("torch", "oldest"),
    [
        pytest.param("", "3.10", id="no-torch-named"),
        pytest.param("2.13.0", "3.10", id="a-torch-that-the-oldest-python-has"),
        pytest.param("2.15.0", "3.11", id="a-torch-that-it-has-not"),
    ],
)
def test_the_oldest_python_has_the_torch_that_is_named(tmp_path: Path, torch: str, oldest: str) -> None:
    named = f'validate: {{ torch: "{torch}" }}\n' if torch else ""
    config = 'package: demo\npython: ["3.10", "3.11", "3.13"]\ntorch: { lowest: "2.10" }\nplatforms:\n  linux-cpu:\n'
    files = {"fatwheel.yml": config + named, "pyproject.toml": PURE_PROJECT, "demo.py": ""}
    pythons = [str(site.python) for site in plan_of(demo(tmp_path / "source", files)).sites if site.job == "pure"]
    assert pythons == [oldest, "3.13"]


def test_where_nothing_is_built_nothing_is_tried(tmp_path: Path) -> None:
    assert plan(tmp_path, "  linux-cpu: { enabled: false }\n").sites == ()


def test_a_pure_wheel_is_built_on_a_runner_of_a_platform_it_serves(tmp_path: Path) -> None:
    linux = "  linux-cpu: { owner: me, native: ['*.cu'], container: none }\n  windows:\n"
    found = plan(tmp_path, linux, **{"k.cu": NATIVE})
    assert {job.name: job.runner for job in found.jobs}["pure"] == ("windows-2025",)
