"""Which files there are: those of the source and of Python, and nothing else of this machine's.

A project that looks elsewhere finds nothing, and what it would find on a builder is a doubt.
"""

from __future__ import annotations

import errno
import functools
import os
import pathlib
import re
import shutil
import sys
import sysconfig
from typing import Any

from ci_tools.evidence.observe.inside.facts import FACTS

# Programs that only make a build quicker, or that tell of a GPU.
INDIFFERENT_PROGRAMS = frozenset({"ccache", "sccache"})
GPU_PROGRAMS = frozenset(
    # ruff: noqa: SIM905 - as words they fit on a page
    "amd-smi hl-smi npu-smi nvidia-smi rocm-smi rocm_agent_enumerator rocminfo sycl-ls xpu-smi".split()
)
ACCELERATOR_PROGRAMS = frozenset({"hipcc", "hipconfig", "nvcc"})
USUAL_PLACES = ("/usr/local/cuda", "/opt/rocm", "/opt/intel")  # of toolkits that a job names by a variable
LOOKS = ("access", "chdir", "listdir", "lstat", "readlink", "scandir", "stat", "statvfs")
MICROSOFTS = "cl"  # the compiler of Windows, and of no other system
LIBRARY = sysconfig.get_path("stdlib")
INCLUDE = sysconfig.get_path("include")
HEADER = "Python.h"
OF_CUDA = re.compile(r"/(fakes|lib/.*)/nvidia(/|$)")  # packages that torch brings with its CUDA builds alone
TRANSLATION = re.compile(r"/share/locale/.*\.mo$")  # argparse and others look for their messages there
REPOSITORIES = frozenset({".git", ".hg", ".svn"})


def watch() -> None:
    """See every look at a file, by whatever function the project looks."""
    for name in LOOKS:
        if hasattr(os, name):
            setattr(os, name, _guard_lookup(name, getattr(os, name)))
    for kind in (getattr(pathlib, "_NormalAccessor", None),):  # Python 3.10 keeps the functions it began with
        for name in LOOKS if kind else ():
            setattr(kind, name, staticmethod(getattr(os, name)))
    os.symlink = _watch_link(os.symlink)
    shutil.which = which(shutil.which)
    shutil.disk_usage = _doubtful("shutil.disk_usage()", shutil.disk_usage)


def _guard_lookup(name: str, real: Any) -> Any:
    """Let nothing be there for the project that lies on this machine outside the source."""

    @functools.wraps(real)
    def called(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
        if isinstance(path, int) or not FACTS.lets_ask() or _leads_here(name, path) or is_there(path):
            return real(path, *args, **kwargs)
        if name == "access":
            return False
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    for group in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks, os.supports_effective_ids):
        if real in group:
            group.add(called)  # shutil.rmtree asks whether it may use them with descriptors
    return called


def _watch_link(real: Any) -> Any:
    """Look at what a link names as it is made: what is found through the link later looks like the source's own."""

    @functools.wraps(real)
    def called(source: Any, link: Any, *args: Any, **kwargs: Any) -> Any:
        if FACTS.lets_ask():
            is_there(os.path.join(os.path.dirname(os.fsdecode(link)), os.fsdecode(source)))
        return real(source, link, *args, **kwargs)

    return called


def _leads_here(look: str, path: Any) -> bool:
    """Whether it is one of the folders above the source or Python that `os.path.realpath` asks for links."""
    if look not in {"lstat", "readlink"}:
        return False
    above = f"{os.fsdecode(path).rstrip('/')}/"
    return any(folder.startswith(above) for folder in (FACTS.root, f"{sys.prefix}/", f"{sys.base_prefix}/"))


def _doubtful(name: str, real: Any) -> Any:
    @functools.wraps(real)
    def called(*args: Any, **kwargs: Any) -> Any:
        if FACTS.lets_ask():
            FACTS.doubt(f"asks for {name}, which no cell says")
        return real(*args, **kwargs)

    return called


def is_there(path: Any) -> bool:
    """Whether the project may see a path; note what it learns of its machine by that, or would."""
    try:
        name = os.fsdecode(os.path.abspath(os.fspath(path)))
    except (TypeError, ValueError):
        return True  # not a path: the real function says so
    if name == os.devnull or _is_ours(name):
        return True
    if name.startswith(USUAL_PLACES):
        FACTS.ask("accelerator")
    elif not (_is_around(name) or TRANSLATION.search(name) or _is_known_to_be_absent(name)):
        FACTS.doubt(f"looks for {name}, which is not in the source")
    return False


def _is_ours(name: str) -> bool:
    """Whether a path belongs to the source, to the folders of this observation or to Python itself."""
    home = FACTS.known["accelerator_home"]
    if home and name.startswith(home):
        FACTS.ask("accelerator")
        return True
    folder, _, file = name.rpartition("/")
    if folder == FACTS.known["tools_folder"]:
        note_program(file)
        return True
    if name.startswith(FACTS.known["modules"]):
        return _is_of_modules(name)
    return name.startswith(tuple(FACTS.known["folders"])) or _is_pythons(name)


def _is_of_modules(name: str) -> bool:
    """Whether a file of a package may be seen; what lies in one that is stood in for is not known."""
    if "/fakes" in name and not name.endswith("/fakes"):
        package = name.partition("/fakes/")[2]
        if _is_known_to_be_absent(name):
            return True
        FACTS.doubt(f"looks into {package or 'the installed packages'}, which is not simulated")
    elif name.rstrip("/") == FACTS.known["modules"].rstrip("/"):
        FACTS.doubt("lists the installed packages, and what a build has of those no cell says")
    return True


def _is_known_to_be_absent(name: str) -> bool:
    """Whether a build would have a package of CUDA's libraries only where its torch is built for CUDA, and is not."""
    return OF_CUDA.search(name) is not None and FACTS.ask("accelerator")["kind"] != "cuda"


def _is_pythons(name: str) -> bool:
    """Whether a path is one that every builder's Python has."""
    is_library = name.startswith(f"{LIBRARY}/") and "site-packages" not in name
    return is_library or name in {sys.prefix, sys.base_prefix, LIBRARY, INCLUDE, f"{INCLUDE}/{HEADER}"}


def _is_around(name: str) -> bool:
    """Whether a path is beside or above the source: a job builds in a folder where nothing else lies."""
    folder, _, file = name.rpartition("/")
    if file in REPOSITORIES and FACTS.root.startswith(f"{folder}/"):
        return True
    return name.startswith(FACTS.known["around"]) and not name.startswith(FACTS.known["home"])


def note_program(name: str) -> None:
    """Note that the project looks for a program that a builder may have or not."""
    if name in GPU_PROGRAMS:
        FACTS.ask("gpu")
    elif name in ACCELERATOR_PROGRAMS:
        FACTS.ask("accelerator")
    elif name == MICROSOFTS:
        FACTS.ask("os")
    elif name not in INDIFFERENT_PROGRAMS | set(FACTS.known["programs"]):
        FACTS.doubt(f"looks for the program {name}")


def which(real: Any) -> Any:
    """Return `shutil.which` or its like, noting what is looked for."""

    @functools.wraps(real)
    def called(cmd: Any, *args: Any, **kwargs: Any) -> Any:
        if FACTS.lets_ask():
            name = os.path.basename(os.fsdecode(cmd))
            note_program(name)
            if name == MICROSOFTS and FACTS.known["os"] != "windows":
                return None
        return real(cmd, *args, **kwargs)

    return called


def note_read(path: Any, mode: object, flags: object) -> None:
    """Note that the project reads a file of its machine's."""
    writes = set(str(mode or "")) & set("wax+") or (isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR))
    if not writes and FACTS.lets_ask():
        is_there(path)
