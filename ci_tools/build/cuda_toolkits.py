"""Finds an installed CUDA toolkit, or fetches one: from the package index, or of NVIDIA's component archives."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from ci_tools.build.cross import ARM_LIBRARIES, is_cross
from ci_tools.build.sdk.cuda_libraries import (
    Overlay,
    complete_links,
    fetch_arm_runtime,
    fetch_libraries,
    install_wheels,
)
from ci_tools.build.sdk.cuda_windows import WHEEL_TAG, WINDOWS, list_homes, refuse_incomplete
from ci_tools.build.sdk.redist import fetch_compiler, fetch_parts, read_release
from ci_tools.catalog import Catalog
from ci_tools.catalog.accelerators.cuda import Cuda, Redist
from ci_tools.catalog.providers import parts_for, redist_facts
from ci_tools.errors import InputError
from ci_tools.machine.context import Outside
from ci_tools.machine.process import output
from ci_tools.machine.runner import host as find_host
from ci_tools.machine.storage import fill_once
from ci_tools.model.plan import Job
from ci_tools.model.request import ToolchainKind
from ci_tools.model.versions import Minor

OF_INDEX = ("linux-", "windows-amd64")  # the machines for which the package index has a compiler


class CudaToolkits:
    """Finds and fetches the CUDA toolkits of jobs."""

    def __init__(self, catalog: Catalog, outside: Outside) -> None:
        self.catalog = catalog
        self.outside = outside

    def missing(self, job: Job) -> str:
        """Return why there is no toolkit for `job`, or "" if there is one. Fetches nothing."""
        if self._installed(job) or self._pypi(job) or self._redist(job):
            return ""
        facts = self._facts(job)
        if facts is None:
            return f"the config names no version of CUDA for {job.platform}"
        cuda, is_for_arm = facts.version, is_cross(job, self.catalog, self.outside.host)
        which = f"CUDA {cuda} with {ARM_LIBRARIES}" if is_for_arm else f"CUDA {cuda}"
        why = f"fetched for {self.outside.host} only" if is_for_arm else "not in the catalog"
        reasons = {
            ToolchainKind.SYSTEM: f"no {which} is installed (CUDA_HOME, /usr/local/cuda-{cuda})",
            ToolchainKind.PYPI: f"the package index has no compiler of CUDA {cuda} for {self.outside.host}",
            ToolchainKind.REDIST: f"NVIDIA's archives of CUDA {cuda} for {job.platform} are {why}",
        }
        if job.toolchain is not ToolchainKind.AUTO:
            return reasons[job.toolchain]
        tried = f"{reasons[ToolchainKind.SYSTEM]} and {reasons[ToolchainKind.PYPI]}"
        has_archives = facts.redist and self.outside.host in redist_facts().platforms and not is_for_arm
        return f"{tried}; `toolchain: redist` fetches NVIDIA's archives" if has_archives else tried

    def find_home(self, job: Job, includes: Collection[str] = ()) -> Path:
        """Return the home of a job's toolkit, fetched unless it is installed or in the cache.

        An installed one that lacks headers of the libraries in `includes` is passed over if another can be fetched.
        """
        installed, lacks = self._installed(job), self._list_lacking(job, includes)
        if installed and not lacks:
            return installed
        if installed:
            why = f"{installed} has no headers of {', '.join(lacks)}"
            self.outside.reporter.say(f"{why}, so another is fetched (`toolchain: system` takes this one)")
        if redist := self._redist(job):
            home = fetch_compiler(read_release(redist, self.outside), self.outside)
            asked, found = job.accelerator and job.accelerator.version, _nvcc_version(home)
            if found != asked:
                msg = f"the archives of redistrib_{redist.release}.json have the compiler of CUDA {found}, not {asked}"
                raise InputError(msg, hint=f"{home / 'bin/nvcc'} --version")
            return home
        return self._fetch_from_index(self._pypi(job))

    def find_libraries(self, job: Job, includes: Collection[str]) -> tuple[Overlay, ...]:
        """Return the libraries of CUDA that a job needs beside the compiler; none with an installed toolkit.

        Raises InputError if a job for Arm that is compiled here needs more than the runtime.
        """
        if self._installed(job) and not self._list_lacking(job, includes):
            return ()
        parts = parts_for(includes, torch=bool(job.requires_torch))
        if is_cross(job, self.catalog, self.outside.host):
            if parts:
                msg = f"{job.name} uses {parts[0].name}, which is fetched for this machine and not for {job.platform}"
                raise InputError(msg, hint="build it on a machine of its own")
            return (fetch_arm_runtime(self._pypi(job), self.outside),)
        if redist := self._redist(job):
            return fetch_parts(read_release(redist, self.outside), parts, self.outside) if parts else ()
        return fetch_libraries(self._pypi(job), parts, self.outside)

    def _facts(self, job: Job) -> Cuda | None:
        """Return the facts of the CUDA that a job compiles with; None if its config names no version."""
        version = job.accelerator.version if job.accelerator else None
        return self.catalog.cuda[version] if version else None

    # -- the places

    def _installed(self, job: Job) -> Path | None:
        """Return an installed toolkit of exactly the job's version."""
        facts = self._facts(job)
        if facts is None or job.toolchain not in {ToolchainKind.SYSTEM, ToolchainKind.AUTO}:
            return None
        version, environ = facts.version, self.outside.environ
        named = [environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if environ.get(name)]
        usual = list_homes(str(version), environ.get("PROGRAMFILES", ""))
        homes = map(Path, (*named, *usual, f"/usr/local/cuda-{version}", "/usr/local/cuda"))  # a link to any
        found = (home for home in homes if _nvcc_version(home) == version)
        is_whole = not is_cross(job, self.catalog, self.outside.host)
        return next((home for home in found if is_whole or (home / ARM_LIBRARIES).exists()), None)

    def _list_lacking(self, job: Job, includes: Collection[str]) -> tuple[str, ...]:
        """Return the libraries that a fetched toolkit would have and the installed one has no header of."""
        home = self._installed(job)
        is_foreign = is_cross(job, self.catalog, self.outside.host)
        if home is None or is_foreign or job.toolchain is ToolchainKind.SYSTEM or not self._pypi(job):
            return ()
        folders = [home / "include", *home.glob("targets/*/include")]
        found = {path.relative_to(one).as_posix() for one in folders for path in (*one.glob("*.h"), *one.glob("*/*.h"))}
        parts = parts_for(includes, torch=bool(job.requires_torch))
        return tuple(part.name for part in parts if not any(map(part.has, found)))

    def _pypi(self, job: Job) -> str:
        """Return the version of `cuda-toolkit` on the package index, or "" if it has no compiler for this host."""
        facts, is_asked = self._facts(job), job.toolchain in {ToolchainKind.PYPI, ToolchainKind.AUTO}
        return facts.pypi if facts and is_asked and self.outside.host.startswith(OF_INDEX) else ""

    def _redist(self, job: Job) -> Redist | None:
        """Return the release of NVIDIA's archives that a job is compiled with; None if it asks for another toolkit."""
        facts, is_asked = self._facts(job), job.toolchain is ToolchainKind.REDIST
        is_here = self.outside.host in redist_facts().platforms and not is_cross(job, self.catalog, self.outside.host)
        return facts.redist if facts and is_asked and is_here else None

    def _tags(self) -> tuple[str, ...]:
        """Return the tags of the wheels to install; none for this machine's own, which pip knows."""
        return (WHEEL_TAG,) if self.outside.host == WINDOWS != find_host() else ()

    def _fetch_from_index(self, toolkit: str) -> Path:
        """Install the compiler, the runtime and CCCL of one toolkit into their own folder."""
        cache, reporter = self.outside.cache, self.outside.reporter
        folder = cache / "toolchains" / f"cuda-toolkit-{toolkit}-{self.outside.host}"

        def fetch(target: Path) -> None:
            what = f"the CUDA {toolkit} compiler"
            with reporter.step(f"fetch {what}"):
                wanted = f"cuda-toolkit[nvcc,cudart,cccl]=={toolkit}"
                home = install_wheels(wanted, what, target, self.outside, self._tags())
            if self.outside.host == WINDOWS:
                refuse_incomplete(home, toolkit)
            else:
                complete_links(home, cache / "logs" / f"cuda-{toolkit}.log")

        return next(fill_once(folder, fetch, reporter.say).glob("nvidia/cu*"))


def _find_nvcc(home: Path) -> Path:
    """Return a toolkit's compiler: nvcc.exe on Windows."""
    program = home / "bin" / "nvcc.exe"
    return program if program.is_file() else home / "bin" / "nvcc"


def _nvcc_version(home: Path) -> Minor | None:
    nvcc = _find_nvcc(home)
    said = output([nvcc, "--version"]) or "" if nvcc.exists() else ""
    match = re.search(r"release (\d+)\.(\d+)", said)
    return Minor(int(match[1]), int(match[2])) if match else None


def nvcc_build(home: Path) -> str:
    """Return the build of a compiler, such as `nvcc-V13.0.88`."""
    match = re.search(r"V[\d.]+", output([_find_nvcc(home), "--version"]) or "")
    return f"nvcc-{match[0]}" if match else "nvcc"


def link_variables(told: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which a build of these variables links with the driver, which builders do not have.

    NVIDIA's development images set them, and projects that link with -lcuda, such as SageAttention, rely on it.
    """
    home = told.get("CUDA_HOME")
    is_for_unix = home is not None and not (Path(home) / "lib/x64").is_dir()  # for Windows, cuda.lib is in there
    return {"LIBRARY_PATH": f"{home}/lib64/stubs"} if is_for_unix else {}
