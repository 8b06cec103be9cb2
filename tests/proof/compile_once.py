"""CPU seconds of compiler calls: the first build, and those that can take its compile units.

`python -m tests.proof.compile_once` generates projects for one architecture of CUDA, takes those of
`compile_once.toml`, builds each for two Pythons and two torches through `fatwheel build`, and writes
`compile_once.json`; with names, only those. "nvcc alone" compares one unit with and without the launcher.

`compiling` and `asking` count all that runs under the launcher, by the records beside the logs; `command` is the whole
command, with the environment, the plan and the link.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ci_tools import catalog
from ci_tools.build.units import manifests
from ci_tools.build.units.forecast import OF_PYTHON
from ci_tools.build.units.report import COMPILED, PLAIN, SAME_TEXT, UNCHANGED
from ci_tools.build.units.store import UnitStore
from ci_tools.catalog import tables
from ci_tools.config import loader
from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.storage import cache_folder, sha256_of, write_atomically
from ci_tools.source.files import open_tree
from tests.builders.sources import committed, write
from tests.builders.times import children_seconds
from tests.builders.units import open_units

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from collections.abc import Callable, Iterator, Sequence

RECORD = Path(__file__).with_name("compile_once.json")
PROJECTS = RECORD.with_suffix(".toml")
PYTHONS, TORCHES = ("3.11", "3.12", "3.13"), ("2.13", "2.14")
PLATFORM = {"owner": "us", "cuda": ["13.0"], "archs": ["8.0"], "wheel-platform": "linux"}
BUILD = {"torch": "parts", "sdist": False}
CONFIG: dict[str, Any] = {
    "package": "NAME",
    "version": "1.0",
    "python": PYTHONS,
    "torch": TORCHES,
    "platforms": {"linux-cuda": PLATFORM},
    "build": BUILD,
}
PYPROJECT = """\
[build-system]
requires = ["setuptools>=77", "torch"]
build-backend = "setuptools.build_meta"
[project]
name = "NAME"
version = "1.0"
"""
SETUP = """\
from glob import glob
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension
flags = {"cxx": ["-O2", "-std=c++20"], "nvcc": ["-O2", "-std=c++20"]}
own = CUDAExtension("NAME", ["binding.cpp", *sorted(glob("*.cu"))], extra_compile_args=flags)
setup(ext_modules=[own], cmdclass={"build_ext": BuildExtension})
"""
BINDING = '#include <Python.h>\n#include <c10/core/Device.h>\nextern "C" PyObject* PyInit_NAME() { return nullptr; }\n'
KERNEL = """\
INCLUDE
template <int N> __global__ void kernel(float* x, const float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = expf(y[i]) * sinf(y[i] * N) + NUMBER;
}
void launchNUMBER(float* x, const float* y, int n) {
  kernel<1><<<n / 256 + 1, 256>>>(x, y, n);
  kernel<2><<<n / 256 + 1, 256>>>(x, y, n);
}
"""
SHIMMED = """\
#include <c10/cuda/CUDAException.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
__global__ void draw(at::PhiloxCudaState state, uint64_t* x) { *x = state.offset_.val; }
void launch(at::PhiloxCudaState state, uint64_t* x) { draw<<<1, 1>>>(state, x); C10_CUDA_KERNEL_LAUNCH_CHECK(); }
"""
GENERATED: dict[str, tuple[int, str, list[str]]] = {
    "torch_free": (64, "#include <cuda_fp16.h>", []),
    "with_c10": (1, "#include <c10/cuda/CUDAStream.h>", []),
    "with_shims": (1, SHIMMED, ["cuda-exception", "cuda-generator"]),
}
ALONE, TIMES = "nvcc alone", 3
SORT = """\
#include <cub/device/device_radix_sort.cuh>
void sort(void* space, size_t& size, const int* in, int* out, int n) {
  cub::DeviceRadixSort::SortKeys(space, size, in, out, n);
}
"""
SAME = ["first", "nothing changed", "another checkout", "without a store"]  # builds of equal bytes, for any project
# A release of a project that cannot collapse, and the wheels that have one set of objects together.
AXES = {"torches": 11, "CUDAs": 4, "Pythons": 5}
LEAST = 0.15  # of the first build, that another torch takes at most where it shares units
RUNNERS, CORES = 20, 4  # jobs that GitHub starts at a time on the free plan, and the cores of each


def generate(folder: Path, name: str, count: int, include: str, shims: list[str]) -> Path:
    """Write a project with so many kernels, and return its folder; with shims, for each torch that they are for."""
    config = {**CONFIG, "build": {**BUILD, **({"shims": shims} if shims else {})}}
    config |= {"torch": tables.read("shims")[shims[0]]["torches"]} if shims else {}
    files = {"fatwheel.yml": json.dumps(config), "pyproject.toml": PYPROJECT, "setup.py": SETUP, "binding.cpp": BINDING}
    files |= {f"kernel{number}.cu": KERNEL.replace("NUMBER", str(number)) for number in range(count)}
    write(folder / name, {path: text.replace("NAME", name).replace("INCLUDE", include) for path, text in files.items()})
    committed(folder / name)
    return folder / name


def check_out(project: dict[str, Any], folder: Path) -> Path:
    """Write a project of the list, with its edits and a config, and return its folder."""
    places = {name: project[name] for name in ("env", "arch-env", "archs") if name in project}
    config = {**CONFIG, "package": project.get("package", project["name"]), "version": project["version"]}
    config["torch"] = project.get("torch", TORCHES)
    config |= {"platforms": {"linux-cuda": {**PLATFORM, **places}}, "build": {**BUILD, **project.get("build", {})}}
    path = folder / f"{project['name']}.yml"
    path.write_text(json.dumps({**config, "source": project["source"]}), encoding="utf-8")
    outside = Outside(environ=os.environ, cache=cache_folder(os.environ), reporter=Silent())
    root = folder / project["name"]
    open_tree(loader.load(path, catalog.load()), folder, outside).copy_to(root)
    for name, pattern, text in project["edits"]:
        before = (root / name).read_text(encoding="utf-8")
        after = re.sub(pattern, text, before)
        assert before != after, f"{name} has nothing like {pattern}"
        (root / name).write_text(after, encoding="utf-8")
    committed(write(root, {"fatwheel.yml": json.dumps(config)}))
    return root


def build(folder: Path, job: str, cache: Path, out: Path, **environ: str) -> dict[str, Any]:
    """Build a job; return its units by how they were had, the CPU seconds for keys and compilers, and the wheel.

    What counts apart is what reads no header of Python, as far as the store knows what a unit read. `options` are those
    of them that were compiled because Python's own options differ: 3.12 has -fno-strict-overflow in place of -fwrapv.
    """
    shutil.rmtree(out, ignore_errors=True)
    command = [str(Path(sys.executable).with_name("fatwheel")), "build", "--job", job, "--out", str(out)]
    before = children_seconds()
    subprocess.run(command, cwd=folder, env={**os.environ, "FATWHEEL_CACHE": str(cache), **environ}, check=True)
    took = children_seconds() - before
    units = json.loads((out / "logs" / f"{job}.units.json").read_text(encoding="utf-8"))
    count = {how: sum(unit["how"] == how for unit in units) for how in (UNCHANGED, SAME_TEXT, COMPILED, PLAIN)}
    seconds = {name: round(sum(unit[name] for unit in units), 2) for name in ("asking", "compiling")}
    of_python = [unit for unit in units if _reads_python(unit["unit"], UnitStore(folder=cache / "units"))]
    others = round(_add_up(units) - _add_up(of_python), 2)
    options = sum(unit["why"].startswith("options: ") for unit in units if unit not in of_python)
    about_python = {"of Python": len(of_python), "options": options}
    said = {**count, **seconds, **about_python, "others": others, "command": round(took, 1)}
    return {**said, "wheel": sha256_of(next(out.glob("*.whl")))}


def _add_up(units: list[dict[str, Any]]) -> float:
    return sum(float(unit["asking"] + unit["compiling"]) for unit in units)


def _reads_python(unit: str, store: UnitStore) -> bool:
    found = (manifests.load(name, store) for name in store.list_names(f"{manifests.MANIFESTS}/{unit}"))
    return any(path.startswith(OF_PYTHON) for one in found if one for path in one.read)


def measure(folder: Path, scratch: Path, project: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what the builds of a project took so far, after each, with a store that is empty at first."""
    steps = project.get("steps")
    cache = scratch / "cache"
    cache.mkdir(parents=True)
    for path in cache_folder(os.environ).iterdir():
        if path.name != "units":
            (cache / path.name).symlink_to(path)
    planned = subprocess.run(
        [Path(sys.executable).with_name("fatwheel"), "plan", "--format", "json"],
        cwd=folder, env={**os.environ, "FATWHEEL_CACHE": str(cache)}, check=True, capture_output=True,
    )  # fmt: skip
    jobs = [job["name"] for job in json.loads(planned.stdout)["jobs"] if job["kind"] == "native"]
    found: dict[str, Any] = {}
    for step, build_it in _list_steps(folder, scratch, jobs, project.get("torch", TORCHES)):
        if not steps or step in steps:
            row = found[step] = build_it()
            whole = found.get("first", row)
            row["share"] = round((row["asking"] + row["compiling"]) / (whole["asking"] + whole["compiling"]), 3)
            row["share of others"] = round(row["others"] / whole["others"], 3) if whole["others"] else None
            print(step, json.dumps(row), flush=True)
            wheels = {found[name]["wheel"] for name in list_equal(project) if name in found}
            assert len(wheels) == 1, f"{step} gave other bytes than the first build"
            yield found


def list_equal(project: dict[str, Any]) -> list[str]:
    """Return the builds that give the same bytes."""
    return SAME if project.get("lines") else [*SAME, "another commit"]


def _list_steps(
    folder: Path, scratch: Path, jobs: list[str], torches: Sequence[str]
) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    first, second, third = (job for job in jobs if torches[0] in job)
    torch = next(job for job in jobs if torches[1] in job)
    cache, out = scratch / "cache", scratch / "out"
    yield "first", lambda: build(folder, first, cache, out)
    yield "nothing changed", lambda: build(folder, first, cache, out)
    yield "second Python", lambda: build(folder, second, cache, out)
    yield "third Python", lambda: build(folder, third, cache, out)
    shutil.copytree(folder, scratch / "elsewhere" / folder.name)
    yield "another checkout", lambda: build(scratch / "elsewhere" / folder.name, first, cache, out)
    yield "without a store", lambda: build(folder, first, cache, out, FATWHEEL_UNITS="off")
    for path in folder.rglob("*.cu"):
        path.write_text(f"{path.read_text(encoding='utf-8')}// another commit\n", encoding="utf-8")
    committed(folder)
    yield "another commit", lambda: build(folder, first, cache, out)
    yield "second torch", lambda: build(folder, torch, cache, out)
    for job in jobs:
        if job[-4:] == first[-4:] and job not in {first, torch}:
            yield job, lambda job=job: build(folder, job, cache, out)
    for path in folder.rglob("*.cu"):
        path.write_text(f"// of another line\n{path.read_text(encoding='utf-8')}", encoding="utf-8")
    committed(folder)
    yield "a line before each kernel", lambda: build(folder, first, cache, out)


def compare(folder: Path) -> dict[str, Any]:
    """Return the CPU seconds of one unit by nvcc alone, and by the launcher without a store, in turn."""
    home = Path(os.environ["CUDA_HOME"])
    words, found = (
        ["-arch=sm_80", "-std=c++17", "-c", "sort.cu", "-o", "sort.o"],
        dict[str, list[float]](alone=[], launched=[]),
    )
    with open_units(folder, None, home) as units:
        write(units.folder, {"sort.cu": SORT})
        for _ in range(TIMES):
            for way, program in (("alone", home / "bin/nvcc"), ("launched", Path("nvcc"))):
                before = children_seconds() + time.process_time()
                done = units.run(program, *words)
                assert done.returncode == 0, done.stderr
                found[way].append(round(children_seconds() + time.process_time() - before, 2))
    over = statistics.median(found["launched"]) / statistics.median(found["alone"]) - 1
    return {**found, "over": round(over, 3)}


def simulate(found: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return the sets, runner hours and wall hours of a release's compiler calls, by what its units share."""
    torches, cudas, pythons = AXES.values()
    whole, other_python, other_torch = (
        row["asking"] + row["compiling"]
        for row in (found.get(name, found["first"]) for name in ("without a store", "second Python", "second torch"))
    )
    is_shared = found.get("second torch", {}).get("share of others", 1) < LEAST
    sets = {"nothing": torches * cudas * pythons, "Pythons": torches * cudas}
    sets["Pythons and torches"] = cudas if is_shared else torches * cudas
    seconds = {
        "nothing": whole * torches * cudas * pythons,
        "Pythons": torches * cudas * (whole + (pythons - 1) * other_python),
        "Pythons and torches": cudas * (whole + (torches - 1) * other_torch + torches * (pythons - 1) * other_python),
    }
    hours = {name: one / CORES / 3600 for name, one in seconds.items()}
    return {
        name: {"sets": sets[name], "runner hours": round(one, 3), "wall hours": round(one / RUNNERS, 4)}
        for name, one in hours.items()
    }


def main() -> None:
    """Measure the projects, or those named, and write the record after each."""
    listed = {one["name"]: one for one in tomllib.loads(PROJECTS.read_text(encoding="utf-8"))["project"]}
    for name in sys.argv[1:] or [*GENERATED, *listed, ALONE]:
        with tempfile.TemporaryDirectory(dir="/var/tmp") as place:  # not in memory
            folder = Path(place)
            if name == ALONE:
                _keep(ALONE, compare(folder))
                continue
            root = check_out(listed[name], folder) if name in listed else generate(folder, name, *GENERATED[name])
            for found in measure(root, folder / "scratch", listed.get(name, {})):
                _keep(name, {"builds": found, "release": simulate(found)})


def _keep(name: str, found: dict[str, Any]) -> None:
    """Write what was measured into the record; another run may have written since."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    record[name] = {"date": dt.datetime.now(dt.timezone.utc).date().isoformat(), **found}
    with write_atomically(RECORD) as file:
        file.write(f"{json.dumps(record, indent=1)}\n".encode())


if __name__ == "__main__":
    main()
