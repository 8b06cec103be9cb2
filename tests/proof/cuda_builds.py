"""Other people's CUDA packages, each built and audited with the parts of torch and of CUDA, and what that took.

`python -m tests.proof.cuda_builds` builds every package of cuda_builds.toml; with names, only those.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import sys
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ci_tools.build import jobs as building
from ci_tools.catalog.symbols import is_torch_symbol, missing
from ci_tools.errors import FatwheelError
from ci_tools.formats.binaries.elf import Extent, read_elf
from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.storage import cache_folder, write_atomically
from ci_tools.model.files import Level
from ci_tools.verify import files
from tests.proof.torchao import cpu_seconds
from tests.proof.truth import HERE, planned

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from ci_tools.build.jobs import Made
from ci_tools.model.plan import Job

RECORD = HERE / "cuda_builds.json"
CELL = {"python": "3.11", "torch": "2.13", "cuda": "13.0"}
ARCHS = ["9.0"]
REQUEST = """\
python: ["PYTHON"]
torch: ["TORCH"]
platforms:
  linux-cuda:
    owner: "@proof"
    toolchain: pypi
    cuda: ["CUDA"]
    archs: ARCHS
    wheel-platform: manylinux_2_36
    env: {MAX_JOBS: "1"}
"""
NOT_LOADED = "no: built and audited only, without a GPU and a torch for CUDA"


@dataclass
class Heard(Silent):
    """A reporter that keeps what the steps of a run say that they fetched."""

    fetched: list[str] = field(default_factory=list)

    def result(self, text: str) -> None:
        if " MB in " in text:
            self.fetched.append(text)

    @property
    def megabytes(self) -> float:
        """The megabytes that were fetched in parts."""
        return round(sum(float(text.partition(" MB")[0]) for text in self.fetched), 1)


def main() -> None:
    """Build every package, or those named, and write the record after each."""
    wanted = packages()
    names = sys.argv[1:] or [one["name"] for one in wanted]
    found = {one["name"]: one for one in (json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else ())}
    for project in (one for one in wanted if one["name"] in names):
        found[project["name"]] = record(project)
        print(json.dumps(found[project["name"]], indent=1), flush=True)
        known = [found[one["name"]] for one in wanted if one["name"] in found]
        with write_atomically(RECORD) as file:
            file.write(f"{json.dumps(known, indent=1, ensure_ascii=False)}\n".encode())


def packages() -> list[dict[str, Any]]:
    """Return the packages that are built."""
    tables: list[dict[str, Any]] = tomllib.loads((HERE / "cuda_builds.toml").read_text(encoding="utf-8"))["package"]
    return tables


def record(project: dict[str, Any]) -> dict[str, Any]:
    """Return what building and auditing a project's wheel gave, and what it took."""
    heard = Heard()
    outside = Outside(environ=os.environ, cache=cache_folder(os.environ), reporter=heard)
    said = {
        **{name: project[name] for name in ("name", "version", "sha256")},
        "date": dt.datetime.now(dt.timezone.utc).date().isoformat(),
    }
    before = cpu_seconds()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        try:
            plan = planned(project, folder, outside, REQUEST, **CELL, archs=json.dumps(project.get("archs", ARCHS)))
            (made,) = building.build(plan, [plan.plan.jobs[0].name], folder / "dist", outside, files.CHECKS)
            findings = files.audit_files([made.path], plan.plan, outside)
        except FatwheelError as error:
            return {**said, "failed": str(error).splitlines()}
        spent = round(cpu_seconds() - before)
        errors = [f"{found.rule}: {found.message}" for found in findings if found.level is Level.ERROR]
        return {
            **said,
            **_shown(made),
            "cpu_seconds": spent,
            "fetched_mb_beside_the_cache": heard.megabytes,
            "errors": errors,
            "warnings": sorted({found.rule for found in findings if found.level is Level.WARNING}),
            "torch_symbols": symbols_of(made, plan.plan.jobs[0]),
            "loaded": NOT_LOADED,
        }


def _shown(made: Made) -> dict[str, Any]:
    with_what = made.receipt.built_with
    return {"wheel": made.path.name, "bytes": made.receipt.size, **with_what._asdict()}


def symbols_of(made: Made, job: Job) -> dict[str, Any]:
    """Return how many of torch's symbols the wheel asks for, and those that are not in its torch's own table."""
    asked, kind = torch_symbols_of(made.path), job.accelerator.kind if job.accelerator else None
    return {"asked": len(asked), "not in the table": sorted(missing(asked, job.torch, kind)) if job.torch else []}


def torch_symbols_of(wheel: Path) -> frozenset[str]:
    """Return torch's symbols that the libraries of a wheel ask for."""
    found = set()
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".so"):
                symbols = read_elf(Extent.whole(io.BytesIO(archive.read(name)))).symbols(".dynsym")
                found |= {symbol.name for symbol in symbols if not symbol.section}
    return frozenset(filter(is_torch_symbol, found))


if __name__ == "__main__":
    main()
