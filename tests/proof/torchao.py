"""TorchAO, from a source tree that has its submodule: what is planned of it, and what that costs."""

from __future__ import annotations

import datetime as dt
import json
import resource
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ci_tools import catalog
from ci_tools.errors import FatwheelError
from ci_tools.machine.context import Outside
from ci_tools.machine.storage import write_atomically
from ci_tools.model.plan import Plan
from ci_tools.observe.setup_py.prepared import PREPARED
from ci_tools.plan import make
from ci_tools.plan.matrix import list_runners
from tests.builders.sources import git
from tests.proof.truth import HERE

RECORD = HERE / "torchao.json"
SOURCE = "TORCHAO_SOURCE"  # the variable with the path of a checkout
BESIDE = HERE.parents[2] / "ao"  # where one is looked for without it
SUBMODULE = "third_party/cutlass"
# What its maintainers would ask for: their CUDA architectures, every platform, and the Pythons that they support.
CONFIG = """\
package: torchao
source: {path: SOURCE}
owner: "@pytorch/ao"
python: ["3.10", "3.11", "3.12", "3.13", "3.14"]
torch: {lowest: "2.10"}
build: {env: {VERSION_SUFFIX: ""}}
platforms:
  linux-cuda: {required: true, cuda: ["12.6", "12.8", "13.0"], archs: ["8.0", "8.6", "9.0"]}
  linux-cpu:
  linux-rocm: {rocm: ["7.1", "7.2"]}
  linux-xpu:
  macos-arm64:
  windows:
"""


def find_source(environ: Mapping[str, str]) -> tuple[Path | None, str]:
    """Return a checkout of TorchAO with its submodule, or None and why there is none."""
    folder = Path(environ.get(SOURCE) or BESIDE)
    if not (folder / "torchao").is_dir():
        return None, f"{folder} is no checkout of TorchAO: {SOURCE} names one"
    if not (folder / SUBMODULE / "include").is_dir():
        return None, f"{folder} lacks its submodule: `git submodule update --init {SUBMODULE}`"
    return folder.resolve(), ""


def record(outside: Outside) -> str:
    """Plan TorchAO with an empty cache and write the record; return in a line what came of it, or why nothing did."""
    folder, why = find_source(outside.environ)
    if folder is None:
        return f"torchao: skipped, {why}"
    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch) / "torchao.yml"
        config.write_text(CONFIG.replace("SOURCE", json.dumps(str(folder))), encoding="utf-8")
        before = cpu_seconds()
        try:
            plan = make.make_plan(config, replace(outside, cache=Path(scratch) / "cache")).plan
        except FatwheelError as error:
            return f"torchao: {error}"
        seconds = round(cpu_seconds() - before)
    found = {
        "date": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        "commit": git(folder, "rev-parse", "HEAD"),
        SUBMODULE: git(folder / SUBMODULE, "rev-parse", "HEAD"),
        "config": CONFIG,
        "cpu_seconds": seconds,
        **_shown(plan),
    }
    with write_atomically(RECORD) as file:
        file.write(f"{json.dumps(found, indent=1, ensure_ascii=False)}\n".encode())
    return f"torchao: {plan.cells} cells, {len(plan.jobs)} wheels ({seconds} s of the processor's time)"


def _shown(plan: Plan) -> dict[str, Any]:
    """Return what the record keeps of a plan: its wheels, and each reason once, with the number of its cells."""
    reasons: dict[tuple[str, str], int] = {}
    for cell, job, reason in plan.covered:
        reasons[f"{job}: {cell.platform}", reason] = reasons.get((f"{job}: {cell.platform}", reason), 0) + 1
    return {
        "cells": plan.cells,
        "covered": len(plan.covered),
        "wheels": [
            {
                "wheel": job.wheel,
                "cells": len(job.covers),
                "torch": str(job.torch or ""),
                "spared": {member: str(torch) for member, torch in job.spared},
            }
            for job in plan.jobs
        ],
        "reasons": [[which, count, reason] for (which, reason), count in reasons.items()],
        "warnings": list(plan.warnings),
        "runners": [one._asdict() for one in list_runners(plan, catalog.load().tables["minutes"]["jobs"])],
    }


def cpu_seconds() -> float:
    """Return the time that this process and its children have used of the processors.

    A child counts when it has ended, so this ends the processes that plans keep for the next one.
    """
    PREPARED.empty()
    if sys.platform == "win32":  # it has no such count, and cannot observe a build
        return 0.0
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
