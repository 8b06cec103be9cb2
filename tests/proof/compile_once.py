"""CPU seconds of compiler calls: the first build, and those that can take its compile units.

`python -m tests.proof.compile_once` generates projects for one architecture of CUDA, builds each for two Pythons and
two torches through `fatwheel build`, and writes `compile_once.json`; `… FOLDER` measures a project of yours. Counted is
all that runs under the launcher, by the records beside the logs; environment, plan and link are not.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ci_tools.build.units.report import COMPILED, PLAIN, SAME_TEXT, UNCHANGED
from ci_tools.machine.storage import cache_folder, sha256_of
from tests.builders.sources import write

RECORD = Path(__file__).with_name("compile_once.json")
PYTHONS, TORCHES = ("3.11", "3.12"), ("2.13", "2.14")
CONFIG = f"""\
package: NAME
version: "1.0"
python: {json.dumps(PYTHONS)}
torch: {json.dumps(TORCHES)}
platforms:
  linux-cuda: {{owner: us, cuda: ["13.0"], archs: ["8.0"], wheel-platform: linux}}
build: {{torch: parts}}
"""
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
GENERATED = {"torch_free": (8, "#include <cuda_fp16.h>"), "with_c10": (1, "#include <c10/cuda/CUDAStream.h>")}
# A release of a project that cannot collapse, and the wheels that have one set of objects together.
AXES = {"torches": 11, "CUDAs": 4, "Pythons": 5}
RUNNERS, CORES = 20, 4  # jobs that GitHub starts at a time on the free plan, and the cores of each


def generate(folder: Path, name: str, count: int, include: str) -> Path:
    """Write a project with so many kernels, and return its folder."""
    files = {"fatwheel.yml": CONFIG, "pyproject.toml": PYPROJECT, "setup.py": SETUP, "binding.cpp": BINDING}
    files |= {f"kernel{number}.cu": KERNEL.replace("NUMBER", str(number)) for number in range(count)}
    write(folder / name, {path: text.replace("NAME", name).replace("INCLUDE", include) for path, text in files.items()})
    _commit(folder / name)
    return folder / name


def _commit(folder: Path) -> None:
    identity = ["-c", "user.name=proof", "-c", "user.email=proof@example.org"]
    for words in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-q", "--allow-empty", "-m", "proof"]):
        subprocess.run(["git", *words], cwd=folder, check=True)


def build(folder: Path, job: str, cache: Path, out: Path, **environ: str) -> dict[str, Any]:
    """Build a job; return its units by how they were had, the CPU seconds for keys and compilers, and the wheel."""
    shutil.rmtree(out, ignore_errors=True)
    command = [str(Path(sys.executable).with_name("fatwheel")), "build", "--job", job, "--out", str(out)]
    subprocess.run(command, cwd=folder, env={**os.environ, "FATWHEEL_CACHE": str(cache), **environ}, check=True)
    units = json.loads((out / "logs" / f"{job}.units.json").read_text(encoding="utf-8"))
    count = {how: sum(unit["how"] == how for unit in units) for how in (UNCHANGED, SAME_TEXT, COMPILED, PLAIN)}
    seconds = {name: round(sum(unit[name] for unit in units), 2) for name in ("asking", "compiling")}
    return {**count, **seconds, "wheel": sha256_of(next(out.glob("*.whl")))}


def measure(folder: Path, scratch: Path) -> dict[str, Any]:
    """Return what each build of a project takes, in turn, with a store that is empty at first."""
    cache = scratch / "cache"
    cache.mkdir()
    for path in cache_folder(os.environ).iterdir():
        if path.name != "units":
            (cache / path.name).symlink_to(path)
    planned = subprocess.run(
        [Path(sys.executable).with_name("fatwheel"), "plan", "--format", "json"],
        cwd=folder, env={**os.environ, "FATWHEEL_CACHE": str(cache)}, check=True, capture_output=True,
    )  # fmt: skip
    jobs = [job["name"] for job in json.loads(planned.stdout)["jobs"] if job["kind"] == "native"]
    first, python, torch = jobs[0], jobs[1], next(job for job in jobs if TORCHES[1] in job)
    found = {"without a store": build(folder, first, cache, scratch / "out", FATWHEEL_UNITS="off")}
    found["first"] = build(folder, first, cache, scratch / "out")
    found["nothing changed"] = build(folder, first, cache, scratch / "out")
    found["second Python"] = build(folder, python, cache, scratch / "out")
    found["second torch"] = build(folder, torch, cache, scratch / "out")
    shutil.copytree(folder, scratch / "elsewhere" / folder.name)
    found["another checkout"] = build(scratch / "elsewhere" / folder.name, first, cache, scratch / "out")
    for path in folder.glob("*.cu"):
        path.write_text(f"// another commit\n{path.read_text(encoding='utf-8')}", encoding="utf-8")
    _commit(folder)
    found["a comment in each kernel"] = build(folder, first, cache, scratch / "out")
    whole = found["first"]["compiling"] + found["first"]["asking"]
    for row in found.values():
        row["share"] = round((row["asking"] + row["compiling"]) / whole, 3)
    return found


def simulate(found: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return the sets, runner hours and wall hours of a release's compiler calls, by what its units share."""
    torches, cudas, pythons = AXES.values()
    whole, other_python, other_torch = (
        found[name]["asking"] + found[name]["compiling"]
        for name in ("without a store", "second Python", "second torch")
    )
    sets = {"nothing": torches * cudas * pythons, "Pythons": torches * cudas, "Pythons and torches": cudas}
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
    """Measure the generated projects, or those named, and write the record."""
    record: dict[str, Any] = {"date": dt.datetime.now(dt.timezone.utc).date().isoformat(), "projects": {}}
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:  # not in memory
        folder = Path(place)
        names = [Path(word) for word in sys.argv[1:]] or [
            generate(folder, name, *how) for name, how in GENERATED.items()
        ]
        for path in names:
            (folder / f"of {path.name}").mkdir()
            record["projects"][path.name] = measure(path, folder / f"of {path.name}")
            record["projects"][path.name]["release"] = simulate(record["projects"][path.name])
            print(json.dumps({path.name: record["projects"][path.name]}, indent=1), flush=True)
    if not sys.argv[1:]:
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
