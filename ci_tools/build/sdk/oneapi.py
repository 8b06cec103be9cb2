"""Finds icpx, the compiler of oneAPI for SYCL, on this machine, and chooses the one that a job's torch can run with."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.machine.process import output
from ci_tools.model.request import ToolchainKind
from ci_tools.model.versions import Minor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_tools.catalog import Catalog
    from ci_tools.model.plan import Job

ICPX = "icpx"
HOME = "CMPLR_ROOT"  # the variable by which compiler/VERSION/env/vars.sh of oneAPI names the compiler's folder
# Where Intel's installer puts oneAPI, for root and for others, and the variable that its setvars.sh sets to another.
ROOT, OWN_ROOT, ROOT_VARIABLE = "/opt/intel/oneapi", "intel/oneapi", "ONEAPI_ROOT"
SAID = re.compile(r"oneAPI DPC\+\+/C\+\+ Compiler (\d+)\.(\d+)")
PLACES = f"{HOME}, {ROOT_VARIABLE}, {ROOT}, ~/{OWN_ROOT}, {ICPX} on PATH"


class OneApiCompilers(NamedTuple):
    """The compilers of oneAPI on this machine."""

    catalog: Catalog
    environ: Mapping[str, str]
    root: Path = Path(ROOT)

    def find(self) -> dict[Path, Minor]:
        """Return the folder of each compiler, without links to others, and its version."""
        said = {home: SAID.search(self.says(home)) for home in dict.fromkeys(self._list_homes())}
        return {home: Minor(int(match[1]), int(match[2])) for home, match in said.items() if match}

    def says(self, home: Path) -> str:
        """Return what a compiler says of its version; "" if it cannot be run."""
        return output([home / "bin" / ICPX, "--version"], env=dict(self.environ)) or ""

    def choose(self, job: Job) -> Path | None:
        """Return the newest compiler whose libraries run with the torch of a job; None if there is none.

        A library runs with a newer runtime of the same number in its name, and not with an older one: the compiler may
        be older than the oneAPI of torch, and not newer (ABIPolicyGuide of intel/llvm).
        """
        if job.toolchain in {ToolchainKind.PYPI, ToolchainKind.REDIST}:
            return None
        fit = {home: version for home, version in self.find().items() if self._fits(version, job)}
        return max(fit, key=lambda home: fit[home], default=None)

    def explain_missing(self, job: Job) -> str:
        """Return why no compiler on this machine serves a job, or "" if one does."""
        if job.toolchain in {ToolchainKind.PYPI, ToolchainKind.REDIST}:
            return f"no {ICPX} can be fetched: `toolchain: system` takes an installed one"
        version = self._wanted(job)
        if version and version not in self.catalog.oneapi:
            return f"the catalog has no oneAPI {version}, which torch {job.torch} is built with"
        if self.choose(job):
            return ""
        found = ", ".join(f"{one} in {home}" for home, one in self.find().items())
        there = f"no {ICPX} that serves is installed ({PLACES}){f'; found {found}' if found else ''}"
        if version is None:
            return f"{there}; expected Intel's Deep Learning Essentials, or an image that has them as `container`"
        runtime = f"libsycl.so.{self.catalog.oneapi[version].sycl}"
        return (
            f"{there}; torch {job.torch} runs with {runtime} of oneAPI {version}: expected Intel's Deep Learning "
            f"Essentials {version}, or an older release with {runtime}, or an image that has them as `container`"
        )

    def _wanted(self, job: Job) -> Minor | None:
        """Return the oneAPI of a job's torch; None if it has no torch, or if that is not known."""
        return self.catalog.torch[job.torch].oneapi if job.torch else None

    def _fits(self, version: Minor, job: Job) -> bool:
        wanted = self._wanted(job)
        if wanted is None:
            return True
        known = self.catalog.oneapi
        return version <= wanted and version in known and known[version].sycl == known[wanted].sycl

    def _list_homes(self) -> Iterator[Path]:
        """Yield the folder of every compiler that may be there: the one that is named, the installed, that on PATH."""
        if named := self.environ.get(HOME):
            yield Path(named).resolve()
        roots = [self.root]
        roots += [Path(self.environ[ROOT_VARIABLE])] if self.environ.get(ROOT_VARIABLE) else []
        roots += [Path(self.environ["HOME"], OWN_ROOT)] if self.environ.get("HOME") else []
        for root in roots:
            yield from sorted(one.resolve() for one in root.glob("compiler/*") if (one / "bin" / ICPX).exists())
        if found := shutil.which(ICPX, path=self.environ.get("PATH", "")):
            yield Path(found).resolve().parent.parent
