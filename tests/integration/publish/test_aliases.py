"""A release whose wheels have second names, and the setup.py that asks for them: FlashAttention's own, as it is."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from ci_tools.formats import receipts
from ci_tools.machine import package_index
from ci_tools.machine.storage import cache_folder, fill_once
from ci_tools.model.names import Sha256
from tests.builders.releases import receipt
from tests.builders.sources import committed, git, write
from tests.builders.wheels import MACHINE, make, members_of
from tests.proof.truth import projects
from tests.servers.github import REPOSITORY, TOKEN, GitHub, github_server
from tests.servers.github_com import github_com
from tests.servers.prepared import run_prepared
from tests.servers.uploads import UV

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PEER = next(project for project in projects() if project["name"] == "flash-attn")
VERSION = str(PEER["version"])
TORCH = ".".join(version("torch").split(".")[:2])
PYTHON = f"cp{sys.version_info.major}{sys.version_info.minor}"
TAGS = f"{PYTHON}-{PYTHON}-linux_{MACHINE}"
ALIAS = f"flash_attn-{VERSION}+cu13torch{TORCH}cxx11abiTRUE-{TAGS}.whl"  # as all wheels of torch 2.7 and later
CONFIG = f"""\
package: flash-attn
python: ["{sys.version_info.major}.{sys.version_info.minor}"]
torch: ["2.10", "{TORCH}"]
platforms:
  {"linux-cuda" if MACHINE == "x86_64" else "linux-cuda-aarch64"}:
    {{ owner: "@demo/cuda", native: ["*.cu"], cuda: ["12.8", "13.0"], archs: ["9.0"], required: true }}
release: {{ alias: "cu{{cuda_major}}torch{{torch}}cxx11abi{{cxx11abi}}" }}
"""
PYPROJECT = f"""\
[build-system]
build-backend = "scikit_build_core.build"
[project]
name = "flash-attn"
version = "{VERSION}"
"""
NVCC = "#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n"
# What a torch for CUDA says of itself: that of the tests has none. A program that builds imports this first.
FOR_CUDA = """\
import os, sys
if "pip" not in sys.orig_argv:
    import torch
    from torch.utils import cpp_extension
    torch.version.cuda, cpp_extension.CUDA_HOME = "13.0", os.environ["CUDA_HOME"]
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitHub]:
    """A repository with a published release whose wheels say in their code which one they are."""
    folder = tmp_path_factory.mktemp("aliases")
    source = write(folder / "source", {
        "fatwheel.yml": CONFIG, "pyproject.toml": PYPROJECT, "k.cu": "#include <torch/extension.h>\n",
    })  # fmt: skip
    with github_server() as server:
        server.commits.add(committed(source))
        git(source, "tag", f"v{VERSION}")
        out = _finish(server, source, folder / "out")
        done = _fatwheel(
            server, source, "publish", str(out), f"--to=github:{REPOSITORY}", f"--to=dir:{folder / 'index'}"
        )
        assert done.returncode == 0, done.stderr
        assert not [path for path in (folder / "index").rglob("*.whl") if "cxx11abi" in path.name]
        yield server


def _fatwheel(hub: GitHub, source: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "GITHUB_API_URL": hub.url, "GH_TOKEN": TOKEN}
    return run_prepared(arguments, cwd=source, env={**environ, "FATWHEEL_CACHE": str(source.parent / "cache")})


def _finish(hub: GitHub, source: Path, out: Path) -> Path:
    """Plan by the command, and put files in the place of those that the jobs would build, audit and try."""
    done = _fatwheel(hub, source, "plan", "--ref", f"v{VERSION}", "--out", str(out / "plan.json"))
    assert done.returncode == 0, done.stderr
    plan = json.loads((out / "plan.json").read_text())
    jobs = {job["wheel"]: job["name"] for job in plan["jobs"]} | {plan["sdist"]: "sdist"}
    for job in plan["jobs"]:
        make(out, job["wheel"], {"flash_attn/__init__.py": f"wheel = {job['wheel']!r}\n".encode()})
    (out / plan["sdist"]).write_bytes(b"sdist")
    for file in (out / name for name in jobs):
        receipts.save(
            file, replace(receipt(file, jobs[file.name]), version=VERSION, source=plan["pins"]["source_sha256"])
        )
    return out


def test_a_release_has_its_wheels_under_both_names(hub: GitHub, tmp_path: Path) -> None:
    assets = {asset.name: asset.content for asset in hub.releases[0].assets}
    wheels = [name for name in assets if name.endswith(".whl")]
    aliases = [name for name in wheels if "cxx11abi" in name]
    assert len(aliases) == len(wheels) - len(aliases) == 3  # torch has no build of its newest for CUDA 12.8
    assert not [name for name in assets if "cxx11abi" in name and name.endswith(".metadata")]
    listed = json.loads(assets["fatwheel-core.json"])
    assert listed["aliases"] == {name: hashlib.sha256(assets[name]).hexdigest() for name in aliases}
    assert not [name for name in listed["files"] if "cxx11abi" in name]
    (tmp_path / ALIAS).write_bytes(assets[ALIAS])
    members = members_of(tmp_path / ALIAS)
    info = f"flash_attn-{VERSION}.dist-info"
    assert f"\nVersion: {VERSION}\n" in members[f"{info}/METADATA"].decode()
    assert members[f"{info}/local_version"].decode() == f"cu130torch{TORCH}"  # guard.py reads it


def test_the_setup_py_of_flash_attn_finds_and_installs_it(hub: GitHub, tmp_path: Path) -> None:
    nvcc = write(tmp_path / "cuda", {"bin/nvcc": NVCC}) / "bin" / "nvcc"
    nvcc.chmod(0o755)
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(FOR_CUDA)
    own = ("PIP_", "FLASH_", "FORCE_", "BUILD_TARGET", "CUDA_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    with github_com("Dao-AILab/flash-attention", f"{hub.url}/{REPOSITORY}", tmp_path) as (proxy, variables):
        path = os.pathsep.join(map(str, (tmp_path / "site", _needs())))
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "-v", "--no-index", "--no-deps", "--no-build-isolation",
             "--no-cache-dir", "--target", tmp_path / "there", _source(tmp_path)],
            env={**kept, **variables, "PYTHONPATH": path, "CUDA_HOME": str(nvcc.parents[1])},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "Precompiled wheel not found" not in said
    assert [name.rpartition("/")[2] for name in proxy.asked] == [ALIAS]
    code = (tmp_path / "there/flash_attn/__init__.py").read_text()
    assert f"+cu130torch{TORCH}-" in code


def _source(folder: Path) -> Path:
    """Return the unpacked sdist of flash-attn, of which nothing is changed."""
    file = f"flash_attn-{VERSION}.tar.gz"
    index = package_index.users_index(os.environ)
    sha256 = Sha256(PEER["sha256"])
    package_index.download("flash-attn", file, sha256, folder / file, index=index, progress=lambda *_: None)
    (folder / "peer").mkdir()
    subprocess.run(["tar", "-xzf", folder / file, "-C", folder / "peer"], check=True)  # Python takes ten times as long
    return folder / "peer" / file.removesuffix(".tar.gz")


def _needs() -> Path:
    """Return the folder in the user's cache that has what that setup.py imports besides torch."""

    def fill(folder: Path) -> None:
        wanted = ["setuptools<81", "wheel<0.46", "packaging", "psutil", "ninja"]
        subprocess.run([UV, "pip", "install", "--quiet", "--target", folder, *wanted], check=True)

    return fill_once(cache_folder(os.environ) / "clients" / f"needs-of-flash-attn-{PYTHON}-{MACHINE}", fill, print)
