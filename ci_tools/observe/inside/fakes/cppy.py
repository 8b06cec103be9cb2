"""A cppy that adds to a build what the real one adds: the folder of its headers, and flags that decide no wheel."""

from __future__ import annotations

from setuptools.command.build_ext import build_ext

from ci_tools.observe.inside.facts import FACTS

__all__ = ["CppyBuildExt", "get_include"]

OPTIONS = {"msvc": ["/EHsc"], "unix": ["-std=c++11"]}


def get_include() -> str:
    """Return the folder of cppy's headers."""
    return "<cppy>/include"


class CppyBuildExt(build_ext):
    """The command that builds extension modules with cppy's headers, for C++11."""

    c_opts = OPTIONS

    def build_extensions(self) -> None:
        is_msvc = FACTS.ask("os") == "windows"
        for extension in self.extensions:
            extension.include_dirs.insert(0, get_include())
            extension.extra_compile_args = self.c_opts["msvc" if is_msvc else "unix"]
            if is_msvc:
                FACTS.variable("CPPY_DISABLE_FH4")
                extension.extra_link_args.extend(["ucrt.lib", "vcruntime.lib"])
        super().build_extensions()
