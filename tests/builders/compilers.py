"""Compilers for tests, whose output is kept in the user's cache: the same input is compiled once, not in each run.

ccache keeps what a C++ compiler makes, under a key of the compiler, its options and every file that it reads. It does
not see what a kernel's source says for each architecture, so what nvcc makes is kept here, under a key of our own.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ci_tools.machine.storage import cache_folder, fill_once, sha256_of

ROOT = Path(__file__).parents[2]
CXX = os.environ.get("CXX", "g++")
CCACHE = Path(sys.executable).with_name("ccache")
CACHED = {"CMAKE_CXX_COMPILER_LAUNCHER": str(CCACHE)} if CCACHE.exists() else {}  # for a build of cmake
SAID = "said"


def has_compiler() -> bool:
    return shutil.which(CXX) is not None


def compile_cxx(source: Path, target: Path, *options: str) -> Path:
    """Compile one source to an object, from the source's folder: ccache knows it and its headers in another as well.

    A source of this checkout, with the torch of its `.venv`, is known in another checkout. See CCACHE_BASEDIR and
    "Compiling in different directories" in https://ccache.dev/manual/latest.html.
    """
    folder = source.parent.resolve()
    command = [*([CCACHE] if CCACHE.exists() else []), CXX, *options, "-c", source.name, "-o", target.absolute()]
    base = ROOT if folder.is_relative_to(ROOT) else folder
    variables = {**os.environ, "CCACHE_BASEDIR": str(base), "CCACHE_NOHASHDIR": "1"}
    subprocess.run(command, check=True, capture_output=True, cwd=folder, env=variables)
    return target


def build_library(source: Path, library: Path, *options: str, link: Sequence[str] = ()) -> Path:
    """Compile one source, and link it to a shared library."""
    compiled = compile_cxx(source, library.with_suffix(".o"), "-fPIC", *options)
    subprocess.run([CXX, "-shared", compiled, *link, "-o", library], check=True)
    return library


def run_nvcc(nvcc: Path, out: Path, files: Sequence[Path], *options: str, included: Sequence[Path] = ()) -> str:
    """Let nvcc make `out` of files, and return what it said; `included` are the files that those may include.

    Raises CalledProcessError if it fails: that is not kept.
    """
    inputs = [(path.name, sha256_of(path)) for path in (*files, *included)]
    key = hashlib.sha256(repr((_toolkit(nvcc), _host(), out.name, options, inputs)).encode()).hexdigest()

    def fill(folder: Path) -> None:
        command = [nvcc, *options, "-o", folder / out.name, *files]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        (folder / SAID).write_text(done.stderr, encoding="utf-8")

    kept = fill_once(cache_folder(os.environ) / "compiled" / key, fill, print)
    shutil.copyfile(kept / out.name, out)
    return (kept / SAID).read_text(encoding="utf-8")


def fetch_cuda_program(name: str, versions: str) -> Path:
    """Return a program of CUDA that reads what nvcc made: from the package index, or on PATH; skip without one."""

    def fill(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        subprocess.run([*pip, f"nvidia-cuda-{name}{versions}"], check=True)

    try:
        folder = fill_once(cache_folder(os.environ) / "clients" / f"{name}{versions}-{platform.machine()}", fill, print)
        return next(folder.glob(f"nvidia/cu*/bin/{name}"))
    except subprocess.CalledProcessError:
        if found := shutil.which(name):
            return Path(found)
        pytest.skip(f"needs {name}: neither on PATH nor on the package index")


@functools.cache
def _toolkit(nvcc: Path) -> str:
    """Return a digest of the size and time of each program, library and header of a toolkit."""
    home = nvcc.resolve().parents[1]
    found = sorted(path for path in home.rglob("*") if path.is_file())
    stamps = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in found]
    return hashlib.sha256(repr(stamps).encode()).hexdigest()


@functools.cache
def _host() -> tuple[str, ...]:
    """Return what identifies the compiler that nvcc calls, and the C library whose headers it reads."""
    program = shutil.which("g++") or ""
    asked = (["g++", "-v"], ["ldd", "--version"])
    said = [subprocess.run(command, check=False, capture_output=True, text=True) for command in asked]
    return program and sha256_of(Path(program)), *(one.stdout + one.stderr for one in said)
