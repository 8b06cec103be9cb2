"""A build's launchers without a build: compilers that take what they make from a store."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ci_tools.build.shards.listing import ListedBuild
from ci_tools.build.units.gate import Gate
from ci_tools.build.units.launchers import open_launchers
from ci_tools.build.units.report import UnitReport
from ci_tools.build.units.seeds import Shims
from ci_tools.build.units.store import UnitStore


@dataclass(frozen=True)
class Units:
    """A folder as a build sees it, with launchers of this machine's compilers on PATH."""

    report: UnitReport
    folder: Path  # the source
    environ: dict[str, str]
    shims: Shims

    def run(self, *words: str | Path, at: str = ".", **variables: str) -> subprocess.CompletedProcess[str]:
        environ, cwd = {**self.environ, **variables}, self.folder / at
        return subprocess.run(words, cwd=cwd, env=environ, capture_output=True, text=True, check=False)

    def compile(self, *words: str | Path, at: str = ".", **variables: str) -> tuple[bytes, str]:
        """Compile to x.o with these words; return the object, and where it is from."""
        done = self.run(*words, "-c", "-o", "x.o", at=at, **variables)
        assert done.returncode == 0, done.stderr
        return (self.folder / at / "x.o").read_bytes(), self.report.units[-1].how


@contextmanager
def open_units(
    scratch: Path,
    store: UnitStore | None,
    toolkit: Path | None = None,
    python: Path = Path(sys.executable),
    listing: ListedBuild | None = None,
) -> Iterator[Units]:
    """Yield the launchers of a new build at a path; its source stays from one build to the next."""
    for name in ("units", "cuda_home", "shims"):
        shutil.rmtree(scratch / name, ignore_errors=True)
    (scratch / "source").mkdir(parents=True, exist_ok=True)
    told = {"PATH": os.environ["PATH"], "SOURCE_DATE_EPOCH": "0", "HOME": str(scratch)}
    if toolkit:
        (scratch / "toolkit").unlink(missing_ok=True)
        (scratch / "toolkit").symlink_to(toolkit)
        told["CUDA_HOME"] = str(scratch / "toolkit")
    gate = Gate(folder=scratch / "gate", store=store)
    with open_launchers(scratch, told["PATH"], python, "demo", gate, listing) as launchers:
        yield Units(launchers.report, scratch / "source", launchers.take_over(told), launchers.shims)
