"""`cffi`, which writes a C source from declarations: here, one that includes what the project's own part includes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import setuptools
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

from ci_tools.observe.inside.build_ext import extend_command
from ci_tools.observe.inside.facts import FACTS

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FFI", "cffi_modules"]

__version__ = "2.1.1"
WRITTEN = "build/cffi"  # the real one writes into a folder that is named for the Python that builds
LIMITED, PYTHON = "#define Py_LIMITED_API\n", "#include <Python.h>\n"
NO_LIMIT = ("_CFFI_NO_LIMITED_API", None)
ABI3T = (3, 15)  # the first free-threaded Python with a stable ABI


class FFI:
    """Declarations of C, and the module that is to be made of them."""

    def __init__(self, backend: object = None) -> None:
        self.backend = backend
        self.assigned: tuple[str, str | None, str, dict[str, Any]] | None = None
        self.declared: list[str] = []

    def cdef(self, csource: str, override: bool = False, packed: bool = False, pack: Any = None) -> None:
        """Take declarations: they decide how functions are called, not what is compiled."""
        self.declared.append(csource)

    def include(self, ffi_to_include: FFI) -> None:
        """Take the declarations of another."""
        self.declared += ffi_to_include.declared

    def set_source(self, module_name: str, source: str | None, source_extension: str = ".c", **kwds: Any) -> None:
        """Name the module, with the project's own part of its source; None: it is written in Python."""
        self.assigned = module_name, source, source_extension, kwds

    def distutils_extension(self, tmpdir: str = "build", verbose: bool = True) -> setuptools.Extension:
        """Return the extension of the module, without a stable ABI."""
        name, source, ending, kwds = _assigned(self)
        return setuptools.Extension(name, _write_sources(name, source or "", ending, kwds), **kwds)

    def __getattr__(self, name: str) -> Any:
        return FACTS.unknown(f"cffi.FFI.{name}")


def _assigned(ffi: FFI) -> tuple[str, str | None, str, dict[str, Any]]:
    if ffi.assigned is None:
        raise ValueError("set_source() must be called before")
    name, source, ending, kwds = ffi.assigned
    return name, source, ending, dict(kwds)


def _write(path: Path, text: str) -> str:
    """Write a file, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def _write_sources(name: str, source: str, ending: str, kwds: dict[str, Any]) -> list[str]:
    """Write the module's source, and return it with the project's; it asks for the limited API unless told not to."""
    limit = "" if NO_LIMIT in map(tuple, kwds.get("define_macros", ())) else LIMITED
    return [_write(Path(WRITTEN, f"{name}{ending}"), f"{limit}{PYTHON}{source}\n"), *kwds.pop("sources", [])]


def cffi_modules(distribution: Any, _keyword: str, value: Any) -> None:
    """Add the modules that setup() names by this keyword, such as `build_demo.py:ffi`."""
    for said in [value] if isinstance(value, str) else value:
        file, _, variable = str(said).partition(":")
        names = {"__name__": "__cffi__", "__file__": file}
        exec(compile(Path(file).read_text(encoding="utf-8"), os.path.abspath(file), "exec"), names)  # noqa: S102 - as the real one does
        found: FFI | Callable[[], FFI] = names[variable]  # type: ignore[assignment]
        _add(distribution, found if isinstance(found, FFI) else found())


def _add(distribution: Any, ffi: FFI) -> None:
    name, source, ending, kwds = _assigned(ffi)
    if source is None:
        file, text = f"{name.replace('.', '/')}.py", "\n".join(ffi.declared)  # they decide it, and no Python does
        extend_command(distribution, build_py, lambda command: _write(Path(command.build_lib, file), text))
        return
    kwds = _limit(kwds)
    extension = setuptools.Extension(name, _write_sources(name, source, ending, kwds), **kwds)
    distribution.ext_modules = [*(distribution.ext_modules or ()), extension]
    base = distribution.cmdclass.get("build_ext", build_ext)
    if hasattr(base, "pre_run"):
        FACTS.doubt("changes by pre_run() what cffi writes, which is not simulated")


def _limit(kwds: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an extension as cffi sets them: by default it has the stable ABI of its Python."""
    kwds.setdefault("py_limited_api", True)
    if FACTS.ask("free_threaded"):
        if tuple(map(int, FACTS.ask("python").split("."))) < ABI3T:
            kwds["py_limited_api"] = False
        else:
            FACTS.doubt("has cffi use the stable ABI of a free-threaded Python, which is not simulated")
    if not kwds["py_limited_api"]:
        kwds["define_macros"] = [*kwds.get("define_macros", ()), NO_LIMIT]
    return kwds
