"""`Cython.Build`: the extensions, each `.pyx` standing for the C or C++ file that Cython makes of it.

The programs `cython` and `cythonize` write an empty file: the `.pyx` says what it includes.
"""

from __future__ import annotations

import glob
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import setuptools
from setuptools.command.build_ext import build_ext as _build_ext

from ci_tools.observe.inside.build_ext import record, record_link
from ci_tools.observe.inside.facts import FACTS

__all__ = ["build_ext", "cythonize"]

ENDINGS = (".py", ".pyx")


class build_ext(_build_ext):
    """The command that has Cython write the C files of all extensions."""

    def finalize_options(self) -> None:
        """Replace the sources that Cython translates."""
        if self.distribution.ext_modules:
            self.distribution.ext_modules[:] = cythonize(self.distribution.ext_modules)
        super().finalize_options()


def cythonize(module_list: Any, exclude: Any = (), **_: Any) -> list[Any]:
    """Return an extension for every module, its sources written in C."""
    items = module_list if isinstance(module_list, (list, tuple)) else [module_list]
    excluded = {
        path for pattern in ([exclude] if isinstance(exclude, str) else exclude or ()) for path in _found(pattern)
    }
    extensions = [extension for item in items for extension in _extensions(item)]
    return [_written(extension) for extension in extensions if not set(extension.sources) & excluded]


def translate(words: Any = None) -> list[str]:
    """Write the files that a command line of `cython` or `cythonize` asks for, and return their names."""
    words = [str(word) for word in (sys.argv[1:] if words is None else words)]
    FACTS.note_import("Cython")
    ending = ".cpp" if {"--cplus", "-+"} & {*words} else ".c"
    named = [after for word, after in pairwise(words) if word in {"-o", "--output-file"}]
    sources = [path for word in words if word.endswith(ENDINGS) for path in _found(word)]
    made = named if len(sources) == 1 and named else [str(Path(one).with_suffix(ending)) for one in sources]
    for name in made:
        Path(name).write_text("/* in place of what Cython would write */\n", encoding="utf-8")
    for name in made if {"-b", "-i", "--build", "--inplace"} & {*words} else ():  # it compiles them, too
        stem = Path(name).with_suffix("")
        record(name, f"{stem}.o", "cc", [])
        record_link(f"{stem}{FACTS.known['suffix']}", [f"{stem}.o"], None, [])
        Path(f"{stem}.o").unlink()  # Cython's own is in a folder that it removes
    return made


def _found(pattern: str) -> list[str]:
    return sorted(glob.glob(pattern, recursive=True))


def _extensions(item: Any) -> list[Any]:
    if isinstance(item, (str, Path)):
        return [setuptools.Extension(_module(path), [path]) for path in _found(str(item))]
    pattern = next((source for source in item.sources if "*" in source), "")
    if not pattern:
        return [item]
    return [_like(item, _module(path), [path]) for path in _found(pattern)]


def _like(item: Any, name: str, sources: list[str]) -> Any:
    extension = setuptools.Extension(name, sources)
    extension.__dict__.update({**item.__dict__, "name": name, "sources": sources})
    return extension


def _module(path: str) -> str:
    parts = Path(path).with_suffix("").parts
    top = next(
        (index for index in range(len(parts)) if Path(*parts[: index + 1], "__init__.py").exists()), len(parts) - 1
    )
    return ".".join(parts[top:])


def _written(extension: Any) -> Any:
    ending = ".cpp" if extension.language == "c++" else ".c"
    extension.sources = [
        str(Path(source).with_suffix(ending)) if source.endswith(ENDINGS) else source for source in extension.sources
    ]
    return extension
