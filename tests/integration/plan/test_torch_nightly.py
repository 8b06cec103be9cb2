"""A nightly of torch, from upstream's index to a wheel in ours: planned, built, audited, tried and published."""

from __future__ import annotations

import json
import os
import platform
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.builders.sources import committed, demo, git, write
from tests.servers.fatwheel_program import BUILDS
from tests.servers.package_index import over_http
from tests.servers.prepared import Called, run_prepared
from tests.unit.build.sdk.test_torch_choice import torch_wheel

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TORCH, DATE = "2.16.0.dev20261125", "20261126"
TAG = f"cp{PYTHON.replace('.', '')}"
WHEEL = f"demo-1.0.dev{DATE}+torch{TORCH}-{TAG}-{TAG}-linux_{platform.machine()}.whl"
FILES = {
    "pyproject.toml": '[build-system]\nrequires = ["setuptools", "torch"]\nbuild-backend = "setuptools.build_meta"\n'
    '[project]\nname = "demo"\nversion = "1.0"\nrequires-python = ">=3.10"\ndependencies = ["torch"]\n',
    "setup.py": "from pathlib import Path\nimport torch\nfrom setuptools import Extension, setup\n"
    'Path("demo/made.py").write_text(f"torch = {torch.__version__!r}\\n")\n'
    'headers = str(Path(torch.__file__).parent / "include")\n'
    'setup(packages=["demo"], ext_modules=[Extension("demo._C", ["demo/c.cpp"], include_dirs=[headers])])\n',
    "demo/__init__.py": "",
    "demo/c.cpp": "#include <torch/extension.h>\n#include <Python.h>\n"
    'static struct PyModuleDef def = {PyModuleDef_HEAD_INIT, "_C", 0, -1, 0};\n'
    "PyMODINIT_FUNC PyInit__C(void) { return PyModule_Create(&def); }\n",
    "fatwheel.yml": f'package: demo\npython: ["{PYTHON}"]\ntorch: [nightly]\nbuild: {{ sdist: false }}\n'
    "platforms: { linux-cpu: { owner: us, wheel-platform: linux } }\nvalidate: { commands: [python -c 1] }\n",
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project that asks for a nightly, whose row `fatwheel catalog update` has written."""
    folder = tmp_path_factory.mktemp("nightly")
    wheel = torch_wheel(folder, TORCH, label="+cpu")
    links = f'<a href="/whl/nightly/cpu/{quote(wheel.name)}">{wheel.name}</a><br/>\n'
    write(folder / "www/whl/nightly", {"torch/index.html": links, f"cpu/{wheel.name}": wheel.read_bytes()})
    own = demo(folder / "demo", FILES)
    with over_http(folder / "www") as address:
        done = fatwheel(own, "catalog", "update", "--index", f"{address}/whl/nightly")
        assert done.stdout.startswith(f"torch {TORCH}: Python {PYTHON}"), done.stderr
        committed(own)
        git(own, "tag", "v1.0")
        yield own


def fatwheel(source: Path, *arguments: str) -> Called:
    own = {"FATWHEEL_CACHE": str(source.parent / "cache"), BUILDS: str(source.parent), "COLUMNS": "300"}
    return run_prepared(arguments, cwd=source, env={**os.environ, "PYTHONPATH": str(ROOT), **own})


@pytest.fixture(scope="module")
def released(source: Path) -> Called:
    """A release of a nightly of the project, into the folders `out` and `index` beside it."""
    index = source.parent / "index"
    done = fatwheel(source, "release", "--nightly", DATE, "--out", str(source.parent / "out"), "--to", f"dir:{index}")
    assert done.returncode == 0, done.stderr
    return done


def test_its_wheel_is_published_in_the_channel_of_nightlies_and_nowhere_else(source: Path, released: Called) -> None:
    index = source.parent / "index"
    assert [path.relative_to(index) for path in index.rglob("*.whl")] == [Path(f"nightly/cputorch{TORCH}/{WHEEL}")]
    assert f"demo==1.0.dev{DATE}+torch{TORCH}" in released.stdout
    assert fatwheel(source, "index", "verify", f"dir:{index}/nightly").returncode == 0


@pytest.mark.usefixtures("released")
def test_the_wheel_is_built_with_that_nightly_and_requires_it(source: Path) -> None:
    out = source.parent / "out"
    assert [job["name"] for job in json.loads((out / "plan.json").read_text())["jobs"]] == [
        f"linux-cpu-torch{TORCH}-{TAG}"
    ]
    with zipfile.ZipFile(out / WHEEL) as wheel:
        metadata = wheel.read(f"demo-1.0.dev{DATE}+torch{TORCH}.dist-info/METADATA").decode()
        assert wheel.read("demo/made.py").decode() == f"torch = '{TORCH}+cpu'\n"
    assert f"Requires-Dist: torch=={TORCH}\n" in metadata


@pytest.mark.parametrize("edition", [("--tag", "v1.0"), ("--untagged",)], ids=["release", "untagged"])
def test_no_other_edition_serves_it(source: Path, edition: tuple[str, ...]) -> None:
    done = fatwheel(source, "plan", *edition)
    assert done.returncode == 0, done.stderr
    assert "0 wheels to build" in done.stdout
    assert f"torch {TORCH} is a nightly, which only nightlies of the project serve (--nightly DATE)" in done.stdout
