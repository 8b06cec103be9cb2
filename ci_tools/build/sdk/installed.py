"""Finds an accelerator's compilers on this machine, and chooses the one that serves a job."""

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
    from ci_tools.model.platforms import AcceleratorKind

VARIABLE = re.compile(r"\$(\w+)/")


class InstalledCompilers(NamedTuple):
    """The compilers of one accelerator on this machine."""

    kind: AcceleratorKind
    catalog: Catalog
    environ: Mapping[str, str]
    root: Path = Path("/")

    def find(self) -> dict[Path, Minor]:
        """Return the folder of each compiler, without links to others, and its version."""
        said = {home: re.search(self.kind.said, self.says(home)) for home in dict.fromkeys(self._list_homes())}
        return {home: Minor(int(match[1]), int(match[2])) for home, match in said.items() if match}

    def says(self, home: Path) -> str:
        """Return what a compiler says of its version, run as a job would run it; "" if it cannot be run."""
        env = {**self.environ, **self.kind.variables(None)}
        return output([home / "bin" / self.kind.compiler, "--version"], env=env) or ""

    def choose(self, job: Job) -> Path | None:
        """Return the folder of the newest compiler that serves a job; None if there is none."""
        if job.toolchain in {ToolchainKind.PYPI, ToolchainKind.REDIST}:
            return None
        known, wanted = self.catalog.stacks[self.kind], self._wanted(job)
        fit = {home: version for home, version in self.find().items() if self.kind.serves(version, wanted, known)}
        return max(fit, key=lambda home: fit[home], default=None)

    def explain_missing(self, job: Job) -> str:
        """Return why no compiler on this machine serves a job, or "" if one does."""
        if job.toolchain in {ToolchainKind.PYPI, ToolchainKind.REDIST}:
            return f"no {self.kind.compiler} can be fetched: `toolchain: system` takes an installed one"
        kind, known, wanted = self.kind, self.catalog.stacks[self.kind], self._wanted(job)
        if wanted and wanted not in known:
            return f"the catalog has no {kind.stack} {wanted}, which torch {job.torch} is built with"
        if self.choose(job):
            return ""
        found = ", ".join(f"{one} in {home}" for home, one in self.find().items())
        told = filter(None, [*kind.homes, kind.places_told.format(version=wanted), f"{kind.compiler} on PATH"])
        what = f"{kind.named} {wanted}" if kind.is_versioned else f"{kind.compiler} that serves"
        there = f"no {what} is installed ({', '.join(told)}){f'; found {found}' if found else ''}"
        return f"{there}; {need}" if (need := kind.explain_need(f"torch {job.torch}", wanted, known)) else there

    def _wanted(self, job: Job) -> Minor | None:
        """Return the version of the stack that a job needs: its own, or its torch's; None if that is not known."""
        if self.kind.is_versioned:
            return job.accelerator.version if job.accelerator else None
        return self.catalog.find_stack(self.kind, job.torch)

    def _list_homes(self) -> Iterator[Path]:
        """Yield the folder of every compiler that may be there: those that are named, the installed, that on PATH."""
        found = [Path(self.environ[name]) for name in self.kind.homes if self.environ.get(name)]
        for place in self.kind.places:
            variable = VARIABLE.match(place)
            start = self.environ.get(variable[1]) if variable else str(self.root)
            found += sorted(Path(start).glob(VARIABLE.sub("", place).lstrip("/"))) if start else []
        on_path = shutil.which(self.kind.compiler, path=self.environ.get("PATH", ""))
        found += [Path(on_path).resolve().parent.parent] if on_path else []
        yield from (home.resolve() for home in found if (home / "bin" / self.kind.compiler).exists())
