"""Finds or fetches a job's toolchain: its accelerator's compiler, and torch's headers without torch."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ci_tools.build import cross
from ci_tools.build.cross import UNKNOWN, Backend, explain_own_machine
from ci_tools.build.cuda_toolkits import CudaToolkits, nvcc_build
from ci_tools.build.sdk.cuda_windows import WINDOWS
from ci_tools.build.sdk.installed import (
    InstalledCompilers,
    Msvc,
    choose_msvc,
    explain_missing,
    msvc_variables,
    read_bounds,
)
from ci_tools.build.sdk.offers import WheelOffer, open_parts
from ci_tools.build.sdk.torch_parts import refuse_record
from ci_tools.catalog import Catalog, Headers, PlatformFacts, TorchRelease
from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.catalog.symbols import records
from ci_tools.errors import InputError, MachineError, Rejected
from ci_tools.machine import package_index
from ci_tools.machine import python as interpreter
from ci_tools.machine.context import Outside, Step
from ci_tools.machine.process import output
from ci_tools.machine.storage import fill_once
from ci_tools.model.plan import Job, JobKind, Plan
from ci_tools.model.platforms import AcceleratorKind
from ci_tools.model.versions import Minor, parse_specifiers

HEADERS = "torch/include/"
TORCH_INCLUDE = "FATWHEEL_TORCH_INCLUDE"  # the variable of a build that names the folder of torch's headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """The interpreter and the folders of a build. `identity` differs if the built bytes would."""

    identity: str
    python: Path
    folders: tuple[tuple[str, Path], ...] = ()  # by the variable that names each: CUDA_HOME
    overlays: tuple[Path, ...] = ()  # folders that are copied over the first of these
    fetch_headers: Callable[[], Path] | None = None  # fetches torch's headers: not called if the build has a torch
    is_cross: bool = False  # whether it compiles for another machine
    variables: Mapping[str, str] = field(default_factory=dict)  # of the compiler's environment: Windows has one


def choose_sdist_python(plan: Plan, environ: Mapping[str, str]) -> Path:
    """Return the Python that makes the sdist: the running one, or one of the plan's if the project refuses that.

    Some backends, such as meson-python, heed `requires-python` when they make an sdist.
    """
    own = Path(sys.executable)
    if parse_specifiers(plan.project.requires_python).contains(platform.python_version(), prereleases=True):
        return own
    found = (interpreter.find(python, environ) for python in sorted({job.python for job in plan.jobs}))
    return next(filter(None, found), own)


class Toolchains:
    """Finds and fetches toolchains on this machine; for another one only if `backend` takes a compiler for it."""

    def __init__(self, catalog: Catalog, outside: Outside, backend: Backend = UNKNOWN) -> None:
        self.catalog = catalog
        self.backend = backend
        self.outside = outside
        self.cache = outside.cache
        self.environ = outside.environ
        self.reporter = outside.reporter
        self.cuda = CudaToolkits(catalog, outside)

    def missing(self, job: Job) -> str:
        """Return why this machine cannot build `job`, or "" if it can. Fetches nothing."""
        if self.interpreter_of(job) is None:
            return f"Python {job.python} is not on this machine"
        if job.platform is None:
            return ""
        facts = self.catalog.platforms[job.platform]
        here = self.outside.host
        if why := self._explain_backend(job, facts.host):
            return why
        if facts.host != here and (why := cross.explain_refusal(job, facts.host, here, self.environ)):
            return why
        return explain_other_libc(job.wheel_platform, libc()) or self._no_compiler(job, facts)

    def _explain_backend(self, job: Job, wanted: str) -> str:
        """Return why the project's backend cannot compile a job for the host `wanted` here, or "" if it can."""
        here = self.outside.host
        if wanted == here or cross.explain_other_host(job, wanted, here):
            return ""
        why = explain_own_machine(self.backend)
        own = f"{job.platform} wheels of this project are built on {wanted}, such as the platform's default runner"
        return f"{own}; this machine is {here}, and {why}" if why else ""

    def interpreter_of(self, job: Job) -> Path | None:
        """Return the Python that runs the build: the job's own, or this one if one wheel serves all Pythons."""
        if not job.python_stays and Minor(*sys.version_info[:2]) >= job.python.version:
            return Path(sys.executable)
        return interpreter.find(job.python, self.environ)

    def _no_compiler(self, job: Job, facts: PlatformFacts) -> str:
        accelerator = job.accelerator
        if facts.os == "windows" and job.kind is JobKind.NATIVE and (why := explain_missing(self.environ)):
            return why
        if facts.os == "linux" and shutil.which("c++", path=self.environ.get("PATH")) is None:
            return "there is no C++ compiler on PATH (c++)"
        if accelerator is None:
            return ""
        if accelerator.kind == CUDA:
            return self.cuda.missing(job)
        return self._installed(accelerator.kind).explain_missing(job)

    def prepare(self, job: Job, includes: Collection[str] = ()) -> Toolchain:
        """Return the job's toolchain, fetching the missing parts; `includes` are the headers that its sources name.

        Raises MachineError if `missing` gives a reason, or the network fails.
        """
        why = self.missing(job)
        python = self.interpreter_of(job)
        if why or python is None:
            raise MachineError(f"{job.name} cannot be built here: {why}")
        if job.kind is JobKind.PURE:  # nothing is compiled
            return Toolchain(identity="none", python=python)
        if is_cross := self._is_cross(job):
            self.reporter.say(f"{job.name} is compiled for {job.platform} by {cross.compiler_of(self.environ)}")
        compiler, *identity = self._compiler(job, includes)
        msvc = self._choose_msvc(job, compiler)
        fetch_headers = self._headers_of(self.catalog.torch[job.torch]) if job.torch else None
        if job.torch:
            identity.append(f"torch-{self.catalog.torch[job.torch].patch}")
        is_cuda = job.accelerator is not None and job.accelerator.kind == CUDA
        overlays = self.cuda.find_libraries(job, includes) if is_cuda else ()
        identity += [each.identity for each in overlays]
        identity += [f"msvc-{msvc.toolset}"] if msvc else []
        return Toolchain(
            identity=" ".join(" ".join(identity).split()),
            python=python,
            folders=(compiler,) if compiler else (),
            overlays=tuple(each.folder for each in overlays),
            fetch_headers=fetch_headers,
            is_cross=is_cross,
            variables=self._read_environment(msvc) if msvc else {},
        )

    def doubt(self, job: Job) -> str:
        """Return why a job's wheel may not keep to its platform tag; "" if it certainly will."""
        return "" if job.kind is JobKind.PURE else libc_doubt(job.wheel_platform, libc())

    def _is_cross(self, job: Job) -> bool:
        return cross.is_cross(job, self.catalog, self.outside.host)

    # -- Windows

    def _choose_msvc(self, job: Job, toolkit: tuple[str, Path] | None) -> Msvc | None:
        """Return Microsoft's compiler for a job: the newest, or the newest that its CUDA takes; None elsewhere."""
        if self.outside.host != WINDOWS:
            return None
        bounds = read_bounds(toolkit[1]) if toolkit else None
        cuda = str(job.accelerator.version) if job.accelerator else ""
        return choose_msvc(self.environ, cuda, bounds)

    def _read_environment(self, msvc: Msvc) -> dict[str, str]:
        """Return the variables with which that compiler works."""
        self.reporter.say(f"compiles with Visual C++ {msvc.toolset} of {msvc.product}")
        with tempfile.TemporaryDirectory(prefix="fatwheel-") as folder:
            return msvc_variables(msvc, self.environ, Path(folder))

    def _compiler(self, job: Job, includes: Collection[str]) -> tuple[tuple[str, Path] | None, str]:
        """Return the accelerator's home folder with the variable that names it, and an identity of the compilers."""
        host_compiler = self._host_compiler(job)
        if job.accelerator is None:
            return None, host_compiler
        kind = job.accelerator.kind
        if kind == CUDA:
            home = self.cuda.find_home(job, includes)
            return (CUDA.homes[0], home), f"{nvcc_build(home)} {host_compiler}"
        compilers = self._installed(kind)
        chosen = compilers.choose(job)
        build = hashlib.sha256((compilers.says(chosen) if chosen else "").encode()).hexdigest()[:12]
        return (kind.homes[0], chosen) if chosen else None, f"{kind.compiler}-{build} {host_compiler}"

    def _installed(self, kind: AcceleratorKind) -> InstalledCompilers:
        return InstalledCompilers(kind, self.catalog, self.environ)

    def _host_compiler(self, job: Job) -> str:
        """Return the identity of the compiler for the CPU; on Windows it is chosen by the toolkit."""
        if self.outside.host == WINDOWS:
            return ""
        if self._is_cross(job):
            return cross.compiler_of(self.environ)
        # the second by itself may be just the major version (GCC, Developer Options)
        return f"c++-{output(['c++', '-dumpfullversion', '-dumpversion'])}"

    # -- torch

    def _headers_of(self, release: TorchRelease) -> Callable[[], Path]:
        """Return a function that fetches a release's headers; raise MachineError if it has not been published."""
        if not release.is_published:
            msg = f"nobody has published torch {release.version} yet ({release.where}), so nothing is built with it"
            raise MachineError(msg)
        return functools.partial(self._torch_headers, release)

    def _torch_headers(self, release: TorchRelease) -> Path:
        """Return a folder with a release's `torch/` headers, extracted from its smallest wheel that has them."""
        headers = release.headers
        if headers is None:
            msg = f"{release.where} names no wheel with the headers of torch {release.version}, which this build needs"
            raise MachineError(msg, hint="`fatwheel catalog update` names one where the index has its sha256")

        def fetch(target: Path) -> None:
            with self.reporter.step(f"fetch the headers of torch {release.patch}") as step:
                if headers.file in records():
                    self._fetch_parts(WheelOffer(headers.file, "", headers.sha256), target, step)
                else:
                    self._fetch_whole(headers, release.indexes, target, step)

        folder = fill_once(self.cache / "torch" / release.patch, fetch, self.reporter.say)
        return folder / HEADERS

    def _fetch_parts(self, offer: WheelOffer, target: Path, step: Step) -> None:
        """Fetch the headers in a wheel whose RECORD the catalog knows."""
        with package_index.files_of("torch", package_index.users_index(self.environ)) as (session, addresses):
            if offer.file not in addresses:
                raise InputError(f'the package index has no file "{offer.file}"')
            with open_parts(offer._replace(url=addresses[offer.file]), session, self.reporter.say) as parts:
                refuse_record(parts, self.outside)
                parts.copy([name for name in parts.names if name.startswith(HEADERS)], target, step.progress)
                step.result(f"{parts.fetched / 1e6:.1f} MB in {parts.requests} requests")

    def _fetch_whole(self, headers: Headers, indexes: Sequence[str], target: Path, step: Step) -> None:
        """Fetch a wheel whose sha256 is all that the catalog knows: that of a nightly from its own index."""
        archive = target / headers.file
        index = package_index.users_index(self.environ)
        index = index._replace(url=indexes[0]) if indexes else index
        package_index.download("torch", headers.file, headers.sha256, archive, index=index, progress=step.progress)
        _extract_headers(archive, target)
        archive.unlink()


def explain_other_libc(wheel_platform: str, libc: str) -> str:
    """Return why this machine's C library, as `libc()` names it, is not the one of a wheel's tag, or ""."""
    if wheel_platform.startswith("manylinux") and not libc:
        return f"{wheel_platform} is of glibc (PEP 600), and this machine has another C library"
    if wheel_platform.startswith("musllinux") and libc:
        return f"{wheel_platform} is of musl (PEP 656), and this machine has {libc}"
    return ""


def libc() -> str:
    """Return this machine's glibc and its version, `glibc 2.36`; "" for another C library, such as musl."""
    try:
        # Windows has no confstr, musl not this name
        return (os.confstr("CS_GNU_LIBC_VERSION") or "") if hasattr(os, "confstr") else ""
    except (OSError, ValueError):
        return ""


def find_level(said: str) -> str:
    """Return the level of a tag, or of wheels for a C library: manylinux_2_36 of `glibc 2.36`; "" without a version."""
    found = re.search(r"(\d+)[._](\d+)", said)
    return f"manylinux_{found[1]}_{found[2]}" if found else ""


def libc_doubt(wheel_platform: str, libc: str) -> str:
    """Return why a wheel linked with that C library may not keep to its platform tag, or "" if it can.

    A newer glibc is only a doubt: a library that uses no newer symbol still keeps to the older level.
    """
    level, here = re.match(r"manylinux_(\d+)_(\d+)_", wheel_platform), re.search(r"(\d+)\.(\d+)", libc)
    if level is None or here is None or tuple(map(int, level.groups())) >= tuple(map(int, here.groups())):
        return ""
    return (
        f"this machine links with {libc}, newer than {wheel_platform} allows: what asks for a newer symbol will not "
        f"keep to it (a `container` such as PyPA's manylinux images does, or `wheel-platform: {find_level(libc)}`)"
    )


def _extract_headers(archive: Path, target: Path) -> None:
    """Extract only the headers from a torch wheel whose hash was checked."""
    try:
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(target, [name for name in wheel.namelist() if name.startswith(HEADERS)])
    except zipfile.BadZipFile as error:
        raise Rejected(f"{archive.name} cannot be unpacked: {error}") from error
