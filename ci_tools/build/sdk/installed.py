"""Finds the compilers on this machine: an accelerator's, and Microsoft's C++ compiler for a CUDA toolkit.

Visual Studio 2017 and later are found by vswhere.exe, which their installer puts in one place
(https://github.com/microsoft/vswhere/wiki). An installation may have several toolsets; a CUDA takes some of them, as
the header crt/host_config.h of its toolkit says by `_MSC_VER`. Nothing here runs the compiler itself.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import MachineError
from ci_tools.machine.process import output
from ci_tools.model.plan import Job
from ci_tools.model.platforms import AcceleratorKind
from ci_tools.model.request import ToolchainKind
from ci_tools.model.versions import Minor, parse_version

if TYPE_CHECKING:
    from ci_tools.catalog import Catalog

VARIABLE = re.compile(r"\$(\w+)/")
TOOLS = "Microsoft.VisualStudio.Component.VC.Tools.x86.x64"
PROGRAM_FILES = ("PROGRAMFILES(X86)", "PROGRAMFILES")  # the installer is in the first of them, of 32-bit programs
VSWHERE = "Microsoft Visual Studio/Installer/vswhere.exe"
# -products *: the Build Tools too, which have no product of their own; all of them, as the newest may be too new.
QUESTION = ("-products", "*", "-requires", TOOLS, "-sort", "-format", "json", "-utf8", "-nologo")
TOOLSETS = "VC/Tools/MSVC"
PROGRAMS = "bin/Hostx64/x64"
SETUP = "VC/Auxiliary/Build/vcvars64.bat"
BOUND = re.compile(r"^#if _MSC_VER < (\d+) \|\| _MSC_VER >= (\d+)\s*$", re.MULTILINE)
FIRST_MINOR = 1900  # `_MSC_VER` of toolset 14.0; each minor version counts one more ("Predefined macros")
PAGE = "how-to/build-for-windows-cuda.md"
INSTALL = 'install the Build Tools for Visual Studio with the workload "Desktop development with C++"'
# vcvars64.bat changes the environment of the shell that calls it, so the same shell has to print it, in UTF-8.
SCRIPT = '@chcp 65001 >nul\n@call "{setup}" -vcvars_ver={toolset} >nul\n@if errorlevel 1 exit /b 1\n@set\n'
# Variables of that shell, and of nobody who compiles.
OF_SHELL = frozenset({"PROMPT", "ERRORLEVEL", "CMDCMDLINE"})


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
        found += [Path(on_path).resolve().parent.parent] if on_path else []  # it may be a link
        yield from (home.resolve() for home in found if shutil.which(self.kind.compiler, path=str(home / "bin")))


class Bounds(NamedTuple):
    """The compilers that a CUDA takes: `_MSC_VER` from the lowest to below the limit."""

    lowest: int
    limit: int

    def __str__(self) -> str:
        """Return the toolsets in words."""
        return f"14.{self.lowest - FIRST_MINOR} to 14.{self.limit - 1 - FIRST_MINOR}"


class Msvc(NamedTuple):
    """A toolset of an installation of Visual Studio."""

    product: str  # Visual Studio Build Tools 2022
    home: Path
    toolset: str  # 14.44.35207

    @property
    def number(self) -> int:
        """Its `_MSC_VER`."""
        major, minor = map(int, self.toolset.split(".")[:2])
        return FIRST_MINOR + (major - 14) * 100 + minor

    @property
    def programs(self) -> Path:
        """The folder of cl.exe, link.exe and lib.exe."""
        return self.home / TOOLSETS / self.toolset / PROGRAMS

    @property
    def setup(self) -> Path:
        """The script that sets its environment."""
        return self.home / SETUP


def find_msvc(environ: Mapping[str, str]) -> tuple[Msvc, ...]:
    """Return every toolset on this machine that compiles for x86-64, the newest first.

    Raises MachineError if vswhere's answer cannot be read.
    """
    vswhere = _find_vswhere(environ)
    if vswhere is None:
        return ()
    said = output([vswhere, *QUESTION], env=environ, encoding="utf-8")
    try:
        listed = json.loads(said or "")
        homes = [(str(one["displayName"]), Path(one["installationPath"])) for one in listed]
    except (ValueError, TypeError, KeyError) as error:
        msg = f"{vswhere} does not list the installations of Visual Studio: {said or 'it failed'}"
        raise MachineError(msg, hint=f'"{vswhere}" {" ".join(QUESTION)}', page=PAGE) from error
    pattern = f"{TOOLSETS}/14.*/{PROGRAMS}/cl.exe"  # an update may leave the folder of an older toolset behind
    places = ((product, home, path) for product, home in homes for path in home.glob(pattern))
    found = [Msvc(product, home, path.relative_to(home / TOOLSETS).parts[0]) for product, home, path in places]
    return tuple(sorted(found, key=lambda each: parse_version(each.toolset), reverse=True))  # 14.9 comes before 14.44


def _find_vswhere(environ: Mapping[str, str]) -> Path | None:
    places = (Path(environ[name]) / VSWHERE for name in PROGRAM_FILES if environ.get(name))
    return next((place for place in places if place.is_file()), None)


def explain_missing(environ: Mapping[str, str]) -> str:
    """Return why this machine has no such compiler, or "" if it has one."""
    if find_msvc(environ):
        return ""
    if _find_vswhere(environ) is None:
        places = " or ".join(f"{name}\\{VSWHERE}".replace("/", "\\") for name in PROGRAM_FILES)
        return f"there is no Visual C++: no vswhere.exe ({places}); {INSTALL}"
    return f"there is no Visual C++: vswhere finds no installation with {TOOLS}; {INSTALL}"


def read_bounds(toolkit: Path) -> Bounds | None:
    """Return the compilers that a toolkit takes, by its header; None if it does not say."""
    header = toolkit / "include/crt/host_config.h"
    found = BOUND.search(header.read_text(encoding="utf-8", errors="replace")) if header.is_file() else None
    return Bounds(int(found[1]), int(found[2])) if found else None


def choose_msvc(environ: Mapping[str, str], cuda: str = "", bounds: Bounds | None = None) -> Msvc:
    """Return the newest toolset that a CUDA takes, or the newest of all; raise MachineError if there is none."""
    found = find_msvc(environ)
    fitting = [each for each in found if bounds is None or bounds.lowest <= each.number < bounds.limit]
    if fitting:
        return fitting[0]
    if not found:
        raise MachineError(f"nothing compiles for Windows here: {explain_missing(environ)}", page=PAGE)
    have = ", ".join(f"{each.toolset} of {each.product}" for each in found)
    is_newer = bounds is not None and found[-1].number >= bounds.limit
    what = "newer than" if is_newer else "not what"
    msg = f"Visual C++ {have} is {what} CUDA {cuda} takes, expected a toolset {bounds}"
    hint = f"add an older toolset in Visual Studio's installer, or {INSTALL}"
    raise MachineError(msg, hint=hint, page=PAGE)


def msvc_variables(msvc: Msvc, environ: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Return the variables with which a build compiles by that toolset; `scratch` is an existing folder.

    They are those that vcvars64.bat sets or changes, PATH among them, and those by which setuptools (DISTUTILS_USE_SDK,
    MSSdk), nvcc and CMake take this compiler and look for no other. Raises MachineError if the script fails.
    """
    script = scratch / "msvc.bat"
    # In a file, as cmd.exe reads its command line by rules that no quoting of another program keeps to.
    script.write_text(SCRIPT.format(setup=msvc.setup, toolset=msvc.toolset), encoding="utf-8", newline="\r\n")
    said = output([environ.get("COMSPEC", "cmd.exe"), "/d", "/c", script], env=environ, encoding="utf-8")
    known = {name.upper(): value for name, value in environ.items()}  # Windows' names of variables have no case
    pairs = (line.partition("=") for line in (said or "").splitlines())
    changed = {name.upper(): value for name, _, value in pairs if name and known.get(name.upper()) != value}
    if "INCLUDE" not in changed or "LIB" not in changed:
        msg = f"{msvc.setup} sets no environment of Visual C++ {msvc.toolset}"
        raise MachineError(msg, hint=f"run it in a shell of its own: {script}", page=PAGE)
    return {
        **{name: value for name, value in changed.items() if name not in OF_SHELL},
        "DISTUTILS_USE_SDK": "1",  # setuptools, and torch.utils.cpp_extension, then look for no other compiler
        "MSSdk": "1",
        "NVCC_CCBIN": str(msvc.programs),  # as -ccbin, which a project may still give (nvcc, "Environment Variables")
        "CUDAHOSTCXX": str(msvc.programs / "cl.exe"),
        "CMAKE_GENERATOR": "Ninja",  # Visual Studio's own generator needs an integration that no wheel of nvcc has
    }
