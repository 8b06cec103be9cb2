"""Makes compilers out of zig: programs under the names that builds call, for one machine and one glibc.

Each is a script that calls zig's clang, which differs from others in two ways that matter here (ziglang/zig,
src/main.zig, `buildOutputType`): it adds checks of undefined behaviour to what is compiled without `-O`, and it links
its own C++ library, which it compiles on the first use of each target and keeps. Debug information of that library has
paths of this machine, so none is linked in; at `-O2` it is the same library for all.

Each module has a copy of that library. So types are compared by their names, as LLVM's CMake option
LIBCXX_TYPEINFO_COMPARISON_IMPLEMENTATION=2 does: by their addresses, which zig takes, another module does not
know a std::runtime_error as one, and pybind11 hands the exceptions of all modules to the translators of the first.
Modules with a zig of somebody else's still compare addresses, so ours take no part in theirs (PYBIND11_BUILD_ABI).
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.build.zig.choice import target_of
from ci_tools.catalog.pinned_tools import Edit, PinnedTool, open_tool
from ci_tools.errors import MachineError
from ci_tools.machine.process import complaint, run
from ci_tools.machine.storage import hold_lock
from ci_tools.machine.workplace import scratch

if TYPE_CHECKING:
    from ci_tools.machine.context import Outside
    from ci_tools.machine.python import Environment

__all__ = ["ZIG", "ZigCompilers", "open_compilers"]

# Of its 19,500 files it needs those for Linux with glibc, on the machines that it compiles for.
NEEDED = re.compile(
    r"ziglang/(zig|LICENSE|lib/(?!docs/|libtsan/|libc/).+|lib/libc/glibc/.+"
    r"|lib/libc/include/(any-linux-any|generic-glibc|(x86|x86_64|aarch64)-linux-(any|gnu))/.+)"
)
BY_ADDRESS = "#          define _LIBCPP_TYPEINFO_COMPARISON_IMPLEMENTATION 1\n"
BY_NAME = "#          define _LIBCPP_TYPEINFO_COMPARISON_IMPLEMENTATION 2\n"
EDIT = Edit("ziglang/lib/libcxx/include/typeinfo", BY_ADDRESS, BY_NAME)
ZIG = PinnedTool("zig", "ziglang", "ziglang/zig", NEEDED, (EDIT,))
OWN_ABI = '-DPYBIND11_BUILD_ABI="_cxxabi1002_types_by_name"'
FOLDER = "zig"  # of a build: the compilers, and what zig keeps for its time
COMPILE = """\
#!/bin/sh
export ZIG_GLOBAL_CACHE_DIR={kept} ZIG_LOCAL_CACHE_DIR={own}
for argument do
  shift
  case $argument in
    -march=x86-64*) argument=-march=$(echo "${{argument#*=}}" | tr - _) ;; # x86_64_v3 in zig
    -mtune=*) continue ;; # zig takes it for -mcpu, and a processor named generic has no SSE
    -fopenmp*) # its clang would call a library that zig does not have
      echo "zig has no OpenMP ($argument)" >&2
      exit 1 ;;
  esac
  set -- "$@" "$argument"
done
for argument do
  case $argument in
    -c | -S | -E | -M | -MM | -fsyntax-only | -dump* | -print* | --version) exec {command} "$@" ;;
  esac
done
exec {command} -O2 "$@" -Wl,--strip-debug
"""
OTHER = """\
#!/bin/sh
export ZIG_GLOBAL_CACHE_DIR={kept} ZIG_LOCAL_CACHE_DIR={own}
exec {command} "$@"
"""
STRIP = """\
#!/bin/sh
# What zig has linked has no symbols to strip, and this machine's strip cannot read what is for another one.
"""
NAMES = {"cc": ("cc", "gcc", "clang"), "c++": ("c++", "g++", "clang++"), "ar": ("ar",), "ranlib": ("ranlib",)}
FIRST = """\
#include <stdexcept>
#include <string>
extern "C" int first(const char *text) {
  try { throw std::runtime_error(std::string(text)); } catch (const std::exception &error) { return error.what()[0]; }
}
"""
MULTIARCH = Path("/usr/include")


@dataclass(frozen=True, slots=True, kw_only=True)
class ZigCompilers:
    """zig for one target: its program, its version, and the folder in which it keeps the libraries that it compiles."""

    program: Path
    kept: Path
    target: str
    version: str = ZIG.version

    @property
    def identity(self) -> str:
        """An identity that differs if the bytes that it compiles would."""
        return f"zig-{self.version} {self.program.parents[1].name} {self.target}"

    def describe(self, compiler: str) -> str:
        """Return zig's version beside that of its compiler, `zig 0.17.0 (clang version 22.1.8)`."""
        return f"zig {self.version} ({compiler})"

    def command(self, what: str) -> list[str]:
        """Return the command line of one of its compilers, `cc` or `c++`."""
        home = f"-ffile-prefix-map={self.program.parent}=ziglang"
        return [str(self.program), what, "-target", self.target, "-fno-sanitize=undefined", home, OWN_ABI]

    def prepare_environment(self, isolated: Environment, scratch: Path, *, is_cross: bool) -> dict[str, str]:
        """Write the compilers' programs into a build's folder, and return variables with which its commands find them.

        A compiler for another machine has its triple before its name: what a build calls `cc` runs on this machine.
        """
        folder = scratch / FOLDER / "bin"
        folder.mkdir(parents=True)
        triple = self.target.partition(".")[0]
        for what, names in NAMES.items():
            text = self._script(what, scratch / FOLDER)
            for name in (f"{triple}-{names[0]}", *(f"{triple}-{name}" for name in names[1:])):
                _write_program(folder / name, text)
            for name in () if is_cross else names:
                _write_program(folder / name, text)
        if is_cross:
            _write_program(folder / f"{triple}-strip", STRIP)
        path = {"PATH": os.pathsep.join((str(folder), isolated.variables["PATH"]))}
        return path if is_cross else {**path, "CC": "cc", "CXX": "c++", "AR": "ar", "RANLIB": "ranlib"}

    def _script(self, what: str, folder: Path) -> str:
        is_compiler = what in {"cc", "c++"}
        command = [*self.command(what), *_list_python_headers(folder)] if is_compiler else [str(self.program), what]
        text = COMPILE if is_compiler else OTHER
        quoted = {name: shlex.quote(str(path)) for name, path in {"kept": self.kept, "own": folder / "kept"}.items()}
        return text.format(command=shlex.join(command), **quoted)


def _write_program(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def _list_python_headers(folder: Path) -> list[str]:
    """Return the flags with which zig finds the half of Debian's Python headers that is for one machine.

    /usr/include/python3.11/pyconfig.h includes <x86_64-linux-gnu/python3.11/pyconfig.h>; zig looks into no folder of
    this machine by itself.
    """
    links = folder / "include"
    for found in sorted(MULTIARCH.glob("*-linux-gnu/python3*")):
        link = links / found.relative_to(MULTIARCH)
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(found)
    return ["-idirafter", str(links)] if links.exists() else []


def open_compilers(wheel_platform: str, outside: Outside) -> ZigCompilers:
    """Return zig for a platform tag; what is missing is fetched, and its C++ library compiled for that target.

    Raises MachineError if zig cannot be fetched, or does not compile.
    """
    folder = open_tool(ZIG, outside)
    kept = outside.cache / "tools" / f"{folder.name}-kept"
    zig = ZigCompilers(program=folder / ZIG.program, kept=kept, target=target_of(wheel_platform))
    with hold_lock(kept / zig.target, outside.reporter.say):
        if not (kept / f"{zig.target}.done").is_file():
            _compile_first(zig, outside)
    return zig


def _compile_first(zig: ZigCompilers, outside: Outside) -> None:
    """Compile for a target for the first time, which takes over a minute, and keep what zig compiles of its own."""
    log = zig.kept / f"{zig.target}.log"
    with outside.reporter.step(f"compile zig's C++ library for {zig.target}, once"), scratch() as folder:
        source, cxx = folder / "first.cpp", folder / "c++"
        source.write_text(FIRST, encoding="utf-8")
        _write_program(cxx, zig._script("c++", folder))  # noqa: SLF001 - the script as a build has it
        ended = run([cxx, "-shared", "-fPIC", "-o", folder / "first.so", source], log=log)
    if ended.status:
        msg = f"zig {zig.version} cannot compile for {zig.target}: {complaint(ended)}"
        raise MachineError(msg, hint=f"log: {log}")
    (zig.kept / f"{zig.target}.done").write_text("")
