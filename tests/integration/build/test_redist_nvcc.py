"""A real compiler, packed as NVIDIA packs its archives, served on this machine, and used by a job."""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import certifi
import pytest

from ci_tools import catalog
from ci_tools.build.toolchain import Toolchains
from ci_tools.catalog.accelerators.cuda import CUDA as NVIDIA
from ci_tools.catalog.accelerators.cuda import Redist
from ci_tools.errors import InputError
from ci_tools.machine.runner import host
from ci_tools.machine.storage import cache_folder, fill_once
from ci_tools.model.plan import Job
from ci_tools.model.platforms import Accelerator, Platform
from ci_tools.model.request import ToolchainKind
from ci_tools.model.versions import Minor
from tests.builders.plans import job_of
from tests.builders.redist import Component, list_of, pack_folder
from tests.builders.sources import world
from tests.servers.package_index import index_of

pytestmark = [pytest.mark.slow, pytest.mark.skipif(host() != "linux-x86_64", reason="packs an x86-64 compiler")]
# What compiling and linking one kernel reads: the rest of a toolkit would take xz half a minute.
PACKED = {
    "cuda_nvcc": ("bin/*",),
    "libnvvm": ("nvvm/bin/*", "nvvm/libdevice/*"),
    "cuda_crt": ("include/crt/**/*", "bin/crt/*"),
    "cuda_cudart": ("include/*.h*", "include/cooperative_groups/**/*", "lib/libcudadevrt.a", "lib/libcudart.so*"),
    "cuda_cccl": ("include/nv/**/*", "include/cccl/nv/**/*"),
}  # fmt: skip
KERNEL = """\
__global__ void doubled(float *x) { x[threadIdx.x] *= 2; }
extern "C" void launch(float *x) { doubled<<<1, 32>>>(x); }
"""
CUDA = Minor(13, 0)


def pack(cuda_home: Path) -> list[Component]:
    """Return the archives of a toolkit, packed once: xz takes half a minute."""
    files = sorted(path for patterns in PACKED.values() for one in patterns for path in cuda_home.glob(one))
    stamps = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    key = hashlib.sha256(repr((PACKED, stamps)).encode()).hexdigest()

    def fill(folder: Path) -> None:
        for name, patterns in PACKED.items():
            made = pack_folder(name, "13.0.88", "linux-x86_64", cuda_home, patterns)
            (folder / name).write_bytes(made.content)

    kept = fill_once(cache_folder(os.environ) / "compiled" / f"redist-{key[:32]}", fill, print)
    return [Component(name, "13.0.88", "linux-x86_64", (kept / name).read_bytes()) for name in PACKED]


def job_with(cuda: Minor) -> Job:
    job = job_of("demo-1.0-cp310-abi3-manylinux_2_28_x86_64.whl", Platform.LINUX_CUDA, "9.0")
    accelerator = Accelerator(NVIDIA, cuda)
    return replace(
        job, toolchain=ToolchainKind.REDIST, accelerator=accelerator, torch=None, wheel_platform="linux_x86_64"
    )


def test_nvcc_of_nvidia_s_archives_compiles_a_kernel(cuda_home: Path, tmp_path: Path) -> None:
    made = pack(cuda_home)
    listed = list_of("13.0.2", made)
    files = {"redistrib_13.0.2.json": listed, **{one.path: one.content for one in made}}
    known, redist = catalog.load(), Redist("13.0.2", hashlib.sha256(listed).hexdigest())
    other = Minor(12, 9)
    toolkits = {version: known.cuda[version]._replace(redist=redist) for version in (CUDA, other)}
    known = replace(known, stacks={**known.stacks, NVIDIA: toolkits})
    with index_of("none", files) as index:
        mirror = index.url.replace("/simple/", "/files/")
        outside = world(tmp_path, FATWHEEL_CUDA_REDIST=mirror, PIP_INDEX_URL=mirror, PIP_CERT=certifi.where())
        tools = Toolchains(known, outside).prepare(job_with(CUDA))
        with pytest.raises(InputError, match=r"redistrib_13\.0\.2\.json have the compiler of CUDA 13\.0, not 12\.9"):
            Toolchains(known, outside).prepare(job_with(other))
    home = dict(tools.folders)["CUDA_HOME"]
    (tmp_path / "doubled.cu").write_text(KERNEL)
    command = [home / "bin/nvcc", "-arch=sm_90", "-shared", "-Xcompiler", "-fPIC", "-cudart", "shared", "doubled.cu"]
    subprocess.run([*command, "-o", "doubled.so"], cwd=tmp_path, check=True, env={**outside.environ, "CUDA_HOME": ""})
    assert (tools.identity.split()[0], b"doubled" in (tmp_path / "doubled.so").read_bytes()) == ("nvcc-V13.0.88", True)
    assert home.is_relative_to(tmp_path / "cache")
