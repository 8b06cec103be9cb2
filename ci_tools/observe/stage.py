"""Creates the folder in which setup.py is observed: fake compilers that record their calls, and a fake toolkit.

Every host creates the same stage for the same cell, so that a project's build code behaves the same on each of them.
"""

from __future__ import annotations

import compileall
import functools
import hashlib
import importlib.metadata
import os
import shlex
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

from ci_tools.catalog import STANDARD_LIBRARY, TORCH_HEADERS, TORCH_NAMES
from ci_tools.catalog.accelerators import KINDS
from ci_tools.machine.context import Outside
from ci_tools.machine.storage import sha256_of
from ci_tools.machine.workplace import find_memory
from ci_tools.model.platforms import Accelerator
from ci_tools.sandbox.leftovers import clear

if TYPE_CHECKING:
    from ci_tools.observe.views import View
    from ci_tools.source.files import Tree

OBSERVER = Path(__file__).parent / "inside"
SCRIPTS = Path(__file__).parent / "scripts"  # of programs that the stage has, with what is put into them
# The catalog's tables that it reads, by their keys in its request.
OBSERVER_TABLES = {"standard_library": STANDARD_LIBRARY, "torch_names": TORCH_NAMES, "torch_headers": TORCH_HEADERS}
VERSIONED = ("setuptools", "packaging")
LENT = ("setuptools", "packaging", "_distutils_hack")  # packages of Fatwheel's environment for the observed code
HEADERS = ("ATen", "c10", "torch/csrc/inductor/aoti_torch/c", "torch/csrc/stable", "torch/headeronly")
TOOLS = frozenset("c++ cc cl clang clang++ false g++ gcc git ninja true".split())  # noqa: SIM905 - as words
COMPILERS = frozenset(name for kind in KINDS.values() for name in kind.tools)
ANSWERS = {
    "ninja": "1.13.0",
    **dict.fromkeys(("c++", "cc", "g++", "gcc"), "gcc (GCC) 13.3.0"),
    **dict.fromkeys(("clang", "clang++"), "clang version 18.1.8"),
    "cl": "Microsoft (R) C/C++ Optimizing Compiler Version 19.44 for x64",
}
# Asked for its version, a fake compiler prints it. Any other call it records, and it creates the file of `-o`.
COMPILER = (SCRIPTS / "compiler.sh").read_text(encoding="utf-8")
# Programs of Xcode: no image of manylinux has Swift, nor has the runner of Windows.
OF_XCODE = "codesign install_name_tool lipo otool sw_vers swift swiftc xcode-select xcodebuild xcrun".split()  # noqa: SIM905
OF_SYSTEMS = {"cl": "windows", "nproc": "linux", **dict.fromkeys(OF_XCODE, "macos")}  # programs of one system only
# Other programs of a builder, or of some: setup.py can start them, but what they would do is unknown.
FOUND = ("false", "make", "true", "ldconfig", *OF_XCODE)
FILE_PROGRAMS = ("chmod", "cp", "ln", "mkdir", "mv", "rm", "touch")  # this machine's own, as POSIX has them
# CMake says its version. Only the files that it reads say what it would build.
CMAKE = (SCRIPTS / "cmake.sh").read_text(encoding="utf-8")
# As Python says, which is asked for the machine's size in the same way.
NPROC = '#!/bin/sh\nexec "{python}" -c "import os; print(os.cpu_count())"\n'
CYTHON = ("cython", "cythonize")  # programs of a package that a build may require
SHELLS = ("bash", "sh")  # they get only plain words, which all of them understand alike
PYTHONS = ("python", "python3")
PROGRAMS = TOOLS | COMPILERS | {"cmake", "make", "nproc", *CYTHON, *PYTHONS, *SHELLS}
# Names of them that the observer gets.
KNOWN = {
    "tools": sorted({*TOOLS, *COMPILERS, "nproc"}),
    "compilers": sorted(COMPILERS),
    "programs": sorted(PROGRAMS),
    "file_programs": sorted(FILE_PROGRAMS),
    "of_systems": OF_SYSTEMS,
}
# A Python process that the project starts is observed as well.
PYTHON = '#!/bin/sh\nexec "{python}" -s -S -B "{observer}/__main__.py" "{request}" "$@"\n'
# Git itself answers of the copy, which is a checkout if the source is one.
GIT = (SCRIPTS / "git.sh").read_text(encoding="utf-8")
NO_REPOSITORY = "#!/bin/sh\necho 'fatal: not a git repository (or any of the parent directories): .git' >&2\nexit 128\n"


class SourceCopy:
    """The folder in which a project's code runs, on a copy of its source."""

    def __init__(self, folder: Path, prefix: str = "") -> None:
        self.folder = folder
        self.prefix = prefix  # the folder of the source below the root of its checkout
        self.checkout = folder / "source"  # the copy of the source, with what is around it in its checkout
        self.source = self.checkout / prefix


class Stage(SourceCopy):
    """The folder in which a project's builds are observed."""

    def __init__(self, folder: Path, prefix: str = "") -> None:
        super().__init__(folder, prefix)
        self.copied: dict[str, tuple[int, ...]] = {}  # the stamps of the source's files after copying
        # Beside the folder, where observed code can neither write nor replace them: the observer's request, and the
        # journal that observers and compilers write to.
        self.request = folder.parent / "request.json"
        self.journal = folder.parent / "journal"
        self.machine = folder / "machine"  # everything except the source
        self.wheels = self.machine / "wheels"  # the backend's wheel
        self.accelerator = self.machine / "accelerator"  # in CUDA_HOME, ROCM_HOME or CMPLR_ROOT
        self.driver = self.machine / "driver"  # files of a GPU's driver, below their usual places
        self.home = self.machine / "home"  # in HOME
        self.scratch = self.machine / "tmp"  # in TMPDIR
        self.headers = self.machine / "headers"  # in FATWHEEL_TORCH_INCLUDE
        self.tools = self.machine / "tools"  # the fake programs, on PATH

    def set(self, tree: Tree, view: View, *, lends: bool = True) -> None:
        """Prepare the folder for one build; the source is restored, whatever an earlier build changed in it.

        `lends` says whether the build may read the objects of the source's repository.
        """
        accelerator = view.accelerator
        clear(self.machine)
        for folder in (self.wheels, self.tools, self.accelerator, self.home, self.scratch):
            folder.mkdir(parents=True)
        for name in HEADERS:  # empty: their headers are fetched only for real builds
            (self.headers / name).mkdir(parents=True)
        self._restore(tree, lends=lends)
        version = str(accelerator.version or view.oneapi) if accelerator else ""  # that icpx says
        for name, answer in ANSWERS.items():
            self._tool(self.tools / name, answer)
        for name in ("git", "git.exe"):  # Windows' own name
            write_script(self.tools / name, write_git(tree, self.folder))
        for name in PYTHONS:
            write_script(
                self.tools / name, PYTHON.format(python=sys.executable, observer=OBSERVER, request=self.request)
            )
        for name in CYTHON:
            text = PYTHON.format(python=sys.executable, observer=OBSERVER, request=self.request)
            write_script(self.tools / name, text.replace('"$@"', '-m Cython "$@"'))
        write_script(self.tools / "cmake", CMAKE.replace("PYTHON", sys.executable))
        write_script(self.tools / "nproc", NPROC.format(python=self.tools / PYTHONS[0]))
        for name in FOUND:
            write_script(self.tools / name, f"#!/bin/sh\nexit {int(name == 'false')}\n")
        for name in SHELLS:
            (self.tools / name).symlink_to("/bin/sh")
        self._place_others(view.os)
        if accelerator:
            write_toolkit(self.accelerator, accelerator, version, self._tool)

    def _place_others(self, system: str) -> None:
        """Place the programs that are this machine's own, and remove those that a system does not have."""
        for name in FILE_PROGRAMS:
            (self.tools / name).symlink_to(which(name, path=os.defpath) or name)
        for name in (name for name, only in OF_SYSTEMS.items() if only != system):
            (self.tools / name).unlink()

    def _restore(self, tree: Tree, *, lends: bool) -> None:
        """Restore the copy of the source; files that no build has touched stay."""
        try:
            kept = set(self._prune_copy())
        except (OSError, RecursionError):  # folders nested too deeply to walk
            kept = set()
        if kept and kept == self.copied.keys():
            return
        if not kept:
            clear(self.checkout)
        missing = tuple(name for name in tree.files if f"{self.prefix}{name}" not in kept)
        replace(tree, files=missing).copy_to(self.source)
        for repository in self.checkout.rglob(".git"):  # its index knows the stamps of the files that were there
            clear(repository)
        tree.make_checkout(self.source, lends=lends)
        self.copied.clear()
        self.copied.update(_stamp_files(self.checkout))

    def _prune_copy(self) -> Iterator[str]:
        """Yield the files of the copy that no build has touched; remove all others."""
        if not self.copied or self.checkout.is_symlink():
            return
        start = len(str(self.checkout)) + 1
        # from below: a folder that gets empty goes, too
        for folder, folders, files in os.walk(self.checkout, topdown=False):
            for entry in (*files, *folders):
                path = f"{folder}/{entry}"
                if self.copied.get(path[start:]) == _stamp(path):
                    yield path[start:]
                else:
                    _remove(path)

    def _tool(self, path: Path, answer: str) -> None:
        write_script(path, COMPILER.format(answer=answer, name=path.name, noted=self.journal))


def write_toolkit(home: Path, accelerator: Accelerator, version: str, write: Callable[[Path, str], None]) -> None:
    """Create the folder of an accelerator's toolkit as setup.py looks at it; `write` writes a program that answers."""
    for name in ("bin", "include", "lib64", "lib"):
        (home / name).mkdir(parents=True)
    kind = accelerator.kind
    for name, answer in kind.tools.items() if accelerator.version or kind.is_asked_unversioned else ():
        write(home / "bin" / name, answer.replace("{version}", version))
    for name, text in kind.files(accelerator.version).items():
        (home / name).write_text(text, encoding="utf-8")


def write_git(tree: Tree, folder: Path) -> str:
    """Return the script that is `git` in an observed build below a folder."""
    if not tree.checkout:
        return NO_REPOSITORY
    path = tree.checkout.environ.get("PATH", os.defpath)
    return GIT.format(
        path=shlex.quote(path), folder=shlex.quote(str(folder)), git=shlex.quote(which("git", path=path) or "git")
    )


def choose_place(tree: Tree, written: int, outside: Outside) -> Path:
    """Return where the stages of a source go, whose builds write at most so many bytes: memory if there is room."""
    return (find_memory(written + tree.size) or outside.cache) / "stages"


@functools.cache  # finding a package's METADATA reads the list of all its files
def importable_folders() -> tuple[Path, ...]:
    """Return the folders of Fatwheel's environment that the observed code can import, with their metadata."""
    specs = [spec for name in LENT if (spec := find_spec(name)) and spec.origin]
    packages = [Path(spec.origin).parent for spec in specs if spec.origin]
    return (*packages, *map(_find_metadata, VERSIONED))


def _find_metadata(package: str) -> Path:
    """Return the `.dist-info` folder of an installed package."""
    files = importlib.metadata.files(package) or ()
    metadata = next(file for file in files if file.name == "METADATA")
    return Path(str(metadata.locate())).parent


def readable() -> tuple[Path, ...]:
    """Return the folders of this machine that the observed code may read: the importable ones and the observer."""
    return (OBSERVER, *OBSERVER_TABLES.values(), *importable_folders())


@functools.cache
def identify_tools() -> tuple[str, ...]:
    """Return the hash of the observer and of what reads its answers, and the versions of the packages beside it.

    All of it is compiled in this process, if Python may keep bytecode beside its files: each observation loads it
    again, without the right to write there. uv installs packages without bytecode, and setuptools is large.
    """
    if not sys.dont_write_bytecode:
        lent = [path for path in importable_folders() if path.suffix != ".dist-info"]
        for folder in (OBSERVER, *(path for path in lent if not _is_compiled(path))):
            compileall.compile_dir(folder, quiet=2)  # quiet 2: a folder that cannot be written to is not an error
    own = (path for ending in ("py", "json", "toml") for path in OBSERVER.parent.rglob(f"*.{ending}"))
    sources = sorted([*own, *SCRIPTS.iterdir()])  # with what reads the answers
    digest = hashlib.sha256()
    for path in (*sources, *OBSERVER_TABLES.values()):
        digest.update(f"{os.path.relpath(path, OBSERVER)}\0{sha256_of(path)}\n".encode())
    return digest.hexdigest(), *map(importlib.metadata.version, VERSIONED), str(sys.version_info[:2])


def _is_compiled(package: Path) -> bool:
    return Path(cache_from_source(package / "__init__.py")).exists()


def write_script(path: Path | str, text: str) -> None:
    """Write a program that the observed build can start."""
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - see _stamp
        os.fchmod(file.fileno(), 0o755)  # whatever the umask is
        file.write(text)


def _stamp(path: str) -> tuple[int, ...]:
    """Return values that change when a file is written, replaced or gets another mode; empty for a missing file.

    Paths are plain strings for speed: thousands of files are checked for every build.
    """
    try:
        found = os.lstat(path)
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode


def _stamp_files(top: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the files, links and empty folders below a folder, relative to it, each with its stamp."""
    start = len(str(top)) + 1
    for folder, folders, files in os.walk(top):
        for entry in (*files, *folders):
            path = f"{folder}/{entry}"
            if not stat.S_ISDIR(os.lstat(path).st_mode) or not os.listdir(path):  # noqa: PTH208 - see _stamp
                yield path[start:], _stamp(path)


def _remove(path: str) -> None:
    """Remove a file or an empty folder."""
    if stat.S_ISDIR(os.lstat(path).st_mode):
        with suppress(OSError):
            os.rmdir(path)  # noqa: PTH106 - see _stamp
    else:
        os.unlink(path)  # noqa: PTH108 - see _stamp
