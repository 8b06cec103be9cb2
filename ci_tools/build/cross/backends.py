"""Says which build backends compile for another machine than the one that runs them, and what each of them reads.

setuptools follows CC, CXX and what sysconfig says, and CMake its toolchain file: see `arm`. meson takes a cross file
only (https://mesonbuild.com/Cross-compilation.html), which meson-python hands on from the build's settings. cargo
follows none of these: it compiles for its own machine, and what it makes gets the label of the other one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ci_tools.build.cross.arm import TRIPLE
from ci_tools.model.versions import name_of_required
from ci_tools.source.backends import SETUPTOOLS, scikit_build_core
from ci_tools.source.project_file import ProjectFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ci_tools.machine.python import Environment
    from ci_tools.model.request import Request
    from ci_tools.source.files import Tree

MESON = "mesonpy"
RUST = frozenset({"maturin", "setuptools-rust"})
TAKES = SETUPTOOLS | scikit_build_core.BACKENDS | {MESON}  # a compiler for another machine, from here or from `arm`
# If a build requires one of these, a backend in its source, or a hook of another, compiles with it.
COMPILES = frozenset({"scikit-build", "scikit-build-core", "setuptools"})
CROSS_FILE = f"""\
[binaries]
c = '{TRIPLE}-gcc'
cpp = '{TRIPLE}-g++'
ar = '{TRIPLE}-ar'
strip = '{TRIPLE}-strip'
python = '{{python}}'

[properties]
needs_exe_wrapper = true

[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
"""


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
    file.write_text(CROSS_FILE.format(python=isolated.python), encoding="utf-8")
    return {**settings, "setup-args": [f"--cross-file={file}"]}
