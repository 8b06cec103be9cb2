"""`pybind11.setup_helpers`: extensions with pybind11's include folder."""

from __future__ import annotations

from typing import Any

import setuptools
from pybind11 import get_include
from setuptools.command.build_ext import build_ext as _build_ext


class Pybind11Extension(setuptools.Extension):
    """An extension in C++ that includes pybind11."""

    def __init__(self, *args: Any, cxx_std: int = 0, **kwargs: Any) -> None:
        kwargs["include_dirs"] = [*(kwargs.get("include_dirs") or ()), get_include()]
        super().__init__(*args, **{"language": "c++", **kwargs})
        self.extra_compile_args += [f"-std=c++{cxx_std or 17}"]


class build_ext(_build_ext):
    """The command that picks a language standard; here it is always the same."""


class ParallelCompile:
    """What compiles several files at once, where anything is compiled."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> ParallelCompile:
        """Change nothing."""
        return self

    def __exit__(self, *_: object) -> None:
        """Change nothing back."""

    def install(self) -> ParallelCompile:
        """Change nothing."""
        return self


def naive_recompile(*_: object) -> bool:
    """Whether to compile a file again: it was never compiled."""
    return True
