"""A project built whole, and in four shards, one after another on the same cores: bytes and time.

`python -m tests.proof.shards --units 64 --seconds 20` generates one, and takes half an hour on two cores that do
nothing else; without options it is a small one. `--project FOLDER` takes `PROJECT`, from a git directory of it.
Each shard has a clone and a cache of its own, as on machines of their own that have the same tools.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import heapq
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any
from unittest import mock

from ci_tools.build import jobs as building
from ci_tools.build.shards import parts
from ci_tools.build.shards.assignment import ShardNumber, assign
from ci_tools.build.units.store import COSTS
from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.storage import cache_folder, sha256_of, write_atomically
from ci_tools.plan import make
from ci_tools.plan.batches import AT_ONCE, CORES, count_shards
from ci_tools.plan.make import Planned
from ci_tools.verify.files import CHECKS
from tests.builders.sources import committed, write
from tests.integration.build.shards.test_shards import BINDING, CONFIG, DEEP
from tests.integration.build.units.test_build_systems import PROJECT as TEXT
from tests.proof.torchao import cpu_seconds
from tests.proof.truth import HERE

if TYPE_CHECKING:
    Assign = Callable[[Mapping[str, float], int], tuple[tuple[str, ...], ...]]

RECORD = HERE / "shards.json"
PROJECT = {
    "address": "https://github.com/turboderp-org/exllamav2",
    "commit": "c319655b5418a173f0829d031b304c61fd04e842",  # v0.0.12
}
PROJECT_CONFIG = """\
package: exllamav2
version: "0.0.12"
python: ["3.11"]
torch: ["2.13"]
platforms:
  linux-cuda:
    owner: "@proof"
    toolchain: pypi
    cuda: ["13.0"]
    archs: ["9.0"]
    wheel-platform: manylinux_2_36
build: {sdist: false, requires: [setuptools, ninja]}
"""
TOOLS = ("toolchains", "torch-parts")  # folders of the cache
SHARDS, MATRIX = 4, 30  # shards, and wheels of a matrix: six torches for each of five Pythons
HEAVY, SET_UP = 330, 300  # minutes of a hosted runner for FlashAttention; seconds until a job compiles, or links
CMAKE = """\
cmake_minimum_required(VERSION 3.24)
project(shardlab LANGUAGES CXX)
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
file(GLOB units "unit*.cpp")
python_add_library(shardlab MODULE WITH_SOABI binding.cpp ${units})
install(TARGETS shardlab DESTINATION .)
"""
TRIAL = 20  # instantiations that are timed, to know how many take a second
WEIGHTS = (0.4, 0.7, 1.0, 1.3, 1.6)  # units of a project differ, as forward and backward kernels do
SIZES = (1, 2, 4, 8, 16, 32, 64)


def main() -> None:
    """Build the project both ways, simulate what cannot be run here, and write the record."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.shards")
    parser.add_argument("--units", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one core, for the average unit")
    parser.add_argument("--project", type=Path, metavar="FOLDER", help=f"a git directory of {PROJECT['address']}")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:
        folder = Path(scratch)
        if options.project:
            found = {"project": {**_say_when(), **PROJECT, **_measure_project(options.project, folder)}}
        else:
            found = {**_say_when(), **_measure_generated(options.units, options.seconds, folder)}
    print(json.dumps(found, indent=1), flush=True)
    known = json.loads(RECORD.read_text(encoding="utf-8"))
    with write_atomically(RECORD) as file:
        file.write(f"{json.dumps({**known, **found}, indent=1)}\n".encode())


def _say_when() -> dict[str, Any]:
    """Return the day, and what a reader of the times has to know: other work makes `seconds` long."""
    today = dt.datetime.now(dt.timezone.utc).date().isoformat()
    return {"date": today, "cores": os.cpu_count(), "load": round(os.getloadavg()[2], 1)}


def _measure_generated(units: int, seconds: float, folder: Path) -> dict[str, Any]:
    """Build a generated project in both ways, and simulate what cannot be run here."""
    committed(write(folder / "project", _make_files(units, seconds, folder)))
    built = _build_in_all_ways(folder)
    costs = _read_costs(folder / "whole/cache/units")
    matrix = {
        str(count): {"planned": count_shards(HEAVY, 360, AT_ONCE / count), "rows": simulate_matrix(costs, count)}
        for count in (1, MATRIX)
    }
    return {"units": len(costs), **_describe(costs), **built, "simulated matrix": matrix}


def _measure_project(repository: Path, folder: Path) -> dict[str, Any]:
    """Build `PROJECT` in the same ways."""
    place = folder / "project"
    subprocess.run(["git", "clone", "-q", "--no-checkout", repository, place], check=True)
    subprocess.run(["git", "-C", place, "checkout", "-q", "-b", "proof", PROJECT["commit"]], check=True)
    committed(write(place, {"fatwheel.yml": PROJECT_CONFIG}))
    built = _build_in_all_ways(folder)
    planned, out, outside = _prepare(folder, "list")
    listed = parts.list_units(planned, planned.plan.jobs[0].name, out, outside)
    counts = {"units": len(listed.units), "of CUDA": sum(unit.is_device for unit in listed.units)}
    return {**counts, "measured": listed.measured, **_describe(listed.seconds), **built}


def _build_in_all_ways(folder: Path) -> dict[str, Any]:
    """Build the project whole, then in shards that are assigned by cost, then in others by hash."""
    whole = _measure("whole", lambda: _build(folder, "whole"))
    ways = {"longest first": assign, "hash": _by_hash}
    return {"whole": whole, "shards": {name: _rate(whole, _compile(folder, name, by)) for name, by in ways.items()}}


def _describe(costs: Mapping[str, float]) -> dict[str, Any]:
    """Return how much the units differ, and what follows from them for more shards."""
    spread = [round(one(costs.values()), 1) for one in (min, median, max)]
    return {"seconds of a unit": spread, "simulated": simulate(costs)}


def _rate(whole: Mapping[str, Any], way: Mapping[str, Any]) -> dict[str, Any]:
    """Return a way with its efficiency, by the clock and by processor time: others may use the cores."""
    seconds, processor = (_efficiency(whole, way, what) for what in ("seconds", "cpu_seconds"))
    return {**way, "efficiency": seconds, "efficiency by processor time": processor}


def simulate(costs: Mapping[str, float]) -> list[dict[str, float]]:
    """Return how near each number of shards comes to the best possible time, by cost and by hash."""
    best = {size: max(sum(costs.values()) / size, *costs.values()) for size in SIZES}
    ways = {"longest first": assign, "hash": _by_hash}
    longest = {
        name: {size: max(sum(map(costs.__getitem__, part)) for part in by(costs, size)) for size in SIZES}
        for name, by in ways.items()
    }
    return [{"shards": size, **{name: round(best[size] / longest[name][size], 2) for name in ways}} for size in SIZES]


def simulate_matrix(costs: Mapping[str, float], wheels: int) -> list[dict[str, float]]:
    """Return when a matrix of wheels as heavy as FlashAttention's is done on a free account, by the shards of each.

    It has 64 units or more, which differ as those that were measured. Links start once all shards are done.
    """
    units = {f"{name}-{copy}": seconds for name, seconds in costs.items() for copy in range(-(-64 // len(costs)))}
    factor = HEAVY * 60 * CORES / sum(units.values())
    rows = []
    for size in SIZES:
        assigned = assign(units, size)
        shards = [SET_UP + sum(map(units.__getitem__, part)) * factor / CORES for part in assigned] * wheels
        compiled = fill(shards, AT_ONCE)
        linked = compiled + fill([SET_UP] * wheels, AT_ONCE) if size > 1 else compiled
        waves = -(-len(shards) // AT_ONCE)
        rows.append({"shards": size, "jobs": len(shards), "waves": waves, "minutes": round(linked / 60)})
    return rows


def fill(tasks: Iterable[float], places: int) -> float:
    """Return when the last of these tasks ends, each started in its turn as soon as a place is free."""
    free = [0.0] * places
    for seconds in tasks:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)


def _by_hash(costs: Mapping[str, float], shards: int) -> tuple[tuple[str, ...], ...]:
    places = {name: int(hashlib.sha256(name.encode()).hexdigest(), 16) % shards for name in costs}
    return tuple(tuple(name for name in costs if places[name] == number) for number in range(shards))


def _make_files(units: int, seconds: float, folder: Path) -> dict[str, str]:
    """Return a project whose units take about so many seconds on this machine."""
    write(folder / "trial", {"deep.h": DEEP, "a.cpp": _make_unit(0, TRIAL)})
    before = cpu_seconds()
    subprocess.run(["g++", "-O3", "-c", "a.cpp", "-o", "a.o"], cwd=folder / "trial", check=True)
    second = TRIAL / (cpu_seconds() - before)
    made = {
        f"unit{number}.cpp": _make_unit(number, round(seconds * second * WEIGHTS[number % 5]))
        for number in range(units)
    }
    project = TEXT.format(requires='"scikit-build-core>=0.10"', backend="scikit_build_core.build")
    files = {"README.md": "", "deep.h": DEEP, "binding.cpp": BINDING, "CMakeLists.txt": CMAKE, "fatwheel.yml": CONFIG}
    all_files = {**made, **files, "pyproject.toml": project.replace("demo", "shardlab")}
    return {name: text.replace("shardlab", "shardproof") for name, text in all_files.items()}  # its own build folder


def _make_unit(number: int, count: int) -> str:
    lines = (
        f"int u{number}_{one}(int x) {{ return Deep<80, {number * 10_000 + one + 1}>::of(x); }}"
        for one in range(max(count, 1))
    )
    return "\n".join(['#include "deep.h"', *lines, ""])


def _prepare(folder: Path, machine: str) -> tuple[Planned, Path, Outside]:
    """Return the plan of a clone of the project for one machine, its output, and its caches: tools and costs."""
    place = folder / machine
    subprocess.run(["git", "clone", "-q", folder / "project", place / "clone"], check=True)
    for tools in TOOLS:
        if (held := cache_folder(os.environ) / tools).is_dir():
            shutil.copytree(held, place / "cache" / tools, symlinks=True, copy_function=os.link)
    if (folder / "whole/cache/units" / COSTS).is_dir():
        shutil.copytree(folder / "whole/cache/units" / COSTS, place / "cache/units" / COSTS)
    outside = Outside(environ=os.environ, cache=place / "cache", reporter=Silent(), trusts_source=True)
    return make.make_plan(place / "clone/fatwheel.yml", outside), place / "out", outside


def _build(folder: Path, machine: str, *, links: bool = False) -> str:
    planned, out, outside = _prepare(folder, machine)
    (made,) = building.build(planned, [planned.plan.jobs[0].name], out, outside, CHECKS._replace(links=links))
    return sha256_of(made.path)


def _compile(folder: Path, way: str, by: Assign) -> dict[str, Any]:
    """Compile the shards one after another, each as on a machine of its own, and link them."""
    link = f"{way} link"

    def measure(number: int) -> dict[str, Any]:
        machine = f"{way} {number}"
        return _measure(machine, lambda: _compile_one(folder, machine, number, link))

    with mock.patch.object(parts, "assign", by) if by is not assign else nullcontext():
        times = [measure(number) for number in range(1, SHARDS + 1)]
    return {"each": times, "link": _measure(link, lambda: _build(folder, link, links=True))}


def _compile_one(folder: Path, machine: str, number: int, link: str) -> str:
    planned, out, outside = _prepare(folder, machine)
    made = parts.compile_shard(planned, planned.plan.jobs[0].name, ShardNumber(number, SHARDS), out, outside)
    shutil.copytree(made, folder / link / "out/shards" / str(number))
    return f"{len(json.loads((made / 'shard.json').read_text())['units'])} units"


def _measure(what: str, do: Callable[[], str]) -> dict[str, Any]:
    began, before = time.monotonic(), cpu_seconds()
    made = do()
    row = {"seconds": round(time.monotonic() - began, 1), "cpu_seconds": round(cpu_seconds() - before, 1), "made": made}
    print(what, row, flush=True)
    return row


def _efficiency(whole: Mapping[str, Any], way: Mapping[str, Any], what: str) -> float:
    longest = max(one[what] for one in way["each"])
    return round(whole[what] / SHARDS / (longest + way["link"][what]), 2)


def _read_costs(store: Path) -> dict[str, float]:
    contents = (path.read_bytes().partition(b"\n")[2] for path in sorted((store / COSTS).iterdir()))
    return {str(number): json.loads(content)["cpu"] for number, content in enumerate(contents)}


if __name__ == "__main__":
    main()
