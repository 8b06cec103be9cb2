"""Compiles for Arm on an x86-64 machine: with GCC's cross compiler, if one is on PATH, and this machine's Python.

The Python that runs a build is not the one that its wheel is for. Two variables say so, as in CPython's own cross
builds (python/cpython, configure.ac: `_PYTHON_HOST_PLATFORM` and `_PYTHON_SYSCONFIGDATA_NAME`).

setuptools follows CC, CXX and what sysconfig says, and CMake its toolchain file. meson takes a cross file
only (https://mesonbuild.com/Cross-compilation.html), which meson-python hands on from the build's settings. cargo
follows none of these: it compiles for its own machine, and what it makes gets the label of the other one.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ci_tools.build.sdk.lending import LENT
from ci_tools.build.sdk.link_stubs import TRIPLE, exports_of, make_stub
from ci_tools.catalog import Catalog
from ci_tools.machine.process import output
from ci_tools.machine.python import Environment
from ci_tools.model.plan import Job
from ci_tools.model.request import Request
from ci_tools.model.versions import name_of_required
from ci_tools.source.backends import SETUPTOOLS, scikit_build_core
from ci_tools.source.files import Tree
from ci_tools.source.project_file import ProjectFile

TARGET = "linux-aarch64"  # the host, in our words, of the wheels that are compiled so
FROM = "linux-x86_64"
COMPILER = f"{TRIPLE}-g++"
ARM_LIBRARIES = "targets/sbsa-linux/lib"  # of a CUDA toolkit that compiles for Arm servers as well
TOOLCHAIN = Path(__file__).with_name("cross.cmake").read_text(encoding="utf-8").replace("TRIPLE", TRIPLE)
# What sysconfig says of this machine's Python, with the names that end the libraries of an Arm one. The two have the
# same headers: pyconfig.h of a 64-bit Linux differs in nothing that an extension reads.
SETTINGS = "_fatwheel_sysconfig"
VARIABLES = Path(__file__).with_name("cross-sysconfig.txt").read_text(encoding="utf-8").replace("TRIPLE", TRIPLE)
MESON = "mesonpy"
RUST = frozenset({"maturin", "setuptools-rust"})
TAKES = SETUPTOOLS | scikit_build_core.BACKENDS | {MESON}  # a compiler for another machine, from here or by a variable
# If a build requires one of these, a backend in its source, or a hook of another, compiles with it.
COMPILES = frozenset({"scikit-build", "scikit-build-core", "setuptools"})
CROSS_FILE = Path(__file__).with_name("cross-file.ini").read_text(encoding="utf-8")


class Backend(NamedTuple):
    """What builds a project: its backend's name, what its build requires, and whether its source has the backend."""

    name: str
    requires: tuple[str, ...] = ()
    in_source: bool = False

    @property
    def rust(self) -> str:
        """The requirement by which the build compiles Rust, or ""."""
        return next((one for one in self.requires if name_of_required(one) in RUST), "")


UNKNOWN = Backend("")


def read_backend(request: Request, tree: Tree) -> Backend:
    """Return what builds the project of a request, as its pyproject.toml says."""
    project = ProjectFile(request, tree)
    return Backend(project.backend, project.build_requires(), bool(project.value("build-system", "backend-path")))


def explain_own_machine(backend: Backend) -> str:
    """Return why a backend may compile for the machine that runs it only, or "" if it takes another's compiler."""
    if backend.rust:
        return f'cargo compiles for that one only (the build requires "{backend.rust}")'
    takes = backend.name in TAKES and not backend.in_source
    if takes or any(name_of_required(one) in COMPILES for one in backend.requires):
        return ""
    if backend.in_source:
        return f"nothing says that the source's own backend ({backend.name}) compiles for another one"
    return f"nothing says that {backend.name or 'its backend'} compiles for another one"


def write_settings(
    backend: str, isolated: Environment, scratch: Path, *, is_cross: bool = False
) -> Mapping[str, str | list[str]]:
    """Return a backend's settings (PEP 517), with `is_cross` those for Arm; the file that they name is put into place.

    meson-python and scikit-build-core build in a folder of a random name, which debug information would repeat, and
    nvcc in names of what is generated there: here it has always the same.
    meson would take what the compiler makes for programs that this machine can run, if it has qemu for them: so the
    file says that it needs a wrapper, and a build is the same on every machine.
    """
    if backend not in {MESON, scikit_build_core.WITHOUT_SETUPTOOLS}:
        return {}
    settings: dict[str, str | list[str]] = {"build-dir": str(scratch / "build")}
    if not is_cross or backend != MESON:
        return settings
    file = scratch / "cross.ini"
    file.write_text(CROSS_FILE.format(triple=TRIPLE, python=isolated.python), encoding="utf-8")
    return {**settings, "setup-args": [f"--cross-file={file}"]}


def is_cross(job: Job, catalog: Catalog, host: str) -> bool:
    """Whether a job is for another machine than the one that builds it."""
    return job.platform is not None and catalog.platforms[job.platform].host != host


def explain_other_host(job: Job, wanted: str, host: str) -> str:
    """Return why nothing on `host` compiles for the host `wanted`, or ""."""
    if wanted == host or (wanted, host) == (TARGET, FROM):
        return ""
    return f"{job.platform} wheels are built on {wanted}, this machine is {host}"


def explain_refusal(job: Job, wanted: str, host: str, environ: Mapping[str, str]) -> str:
    """Return why a job for the host `wanted` cannot be cross-compiled on `host`, or "" if it can.

    A build that binds to torch's ABI would get headers of this machine's torch, some of which differ for Arm
    (ATen/Config.h); those of the stable ABI are the same.
    """
    if why := explain_other_host(job, wanted, host):
        return why
    if shutil.which(COMPILER, path=environ.get("PATH")) is None:
        return f"{job.platform} wheels are built on {wanted}, or here once {COMPILER} is on PATH; this is {host}"
    if job.requires_torch:
        return f"{job.platform} wheels that bind to torch are built on {wanted}, this machine is {host}"
    return ""


def compiler_of(environ: Mapping[str, str]) -> str:
    """Return the cross compiler's name and version, such as `aarch64-linux-gnu-g++ 12.2.0`."""
    program = shutil.which(COMPILER, path=environ.get("PATH")) or COMPILER
    found = re.search(r"\d+(?:\.\d+)+", output([program, "-dumpfullversion", "-dumpversion"]) or "")
    return f"{COMPILER} {found[0]}" if found else COMPILER


def prepare_environment(isolated: Environment, scratch: Path) -> dict[str, str]:
    """Return variables with which a project's own commands compile for Arm; what they name is put into place.

    They are not for the installer: build requirements are programs of this machine. The libraries of a toolkit are
    named to setuptools, as torch.utils.cpp_extension looks in its lib64 only; CMake's modules find them by themselves.
    """
    packages = next(isolated.path.glob("lib/python*/site-packages"))
    (packages / f"{SETTINGS}.py").write_text(VARIABLES, encoding="utf-8")
    toolchain = scratch / "cross.cmake"
    toolchain.write_text(TOOLCHAIN, encoding="utf-8")
    return {
        "_PYTHON_HOST_PLATFORM": TARGET,
        "_PYTHON_SYSCONFIGDATA_NAME": SETTINGS,
        "CMAKE_TOOLCHAIN_FILE": str(toolchain),  # an environment variable of cmake since 3.21
        "CC": f"{TRIPLE}-gcc",
        "CXX": f"{TRIPLE}-g++",
        "AR": f"{TRIPLE}-ar",
        "CUDAHOSTCXX": f"{TRIPLE}-g++",
        "NVCC_CCBIN": f"{TRIPLE}-g++",
        **({"LDFLAGS": f"-L{home}/{ARM_LIBRARIES}"} if (home := isolated.variables.get("CUDA_HOME")) else {}),
    }


def replace_stubs(isolated: Environment) -> None:
    """Put stand-ins for Arm in place of those of the build torch in an environment, if it has one."""
    for library in sorted(isolated.path.glob(f"{LENT}/torch/lib/*.so")):
        make_stub(library, exports_of(library), isolated.log, COMPILER)
