"""Limits which files the project's code sees: those of the source and of Python, and no others of this machine.

A project that looks elsewhere finds nothing, and its lookup is recorded as a doubt: a builder might have the file.
"""

from __future__ import annotations

import functools
import os
import pathlib
import re
import shutil
import stat
import sys
import sysconfig
from types import FrameType
from typing import Any, NamedTuple

from ci_tools.observe.inside import facts
from ci_tools.observe.inside.build_ext import LEFT, place_data
from ci_tools.observe.inside.cell import doubt_function
from ci_tools.observe.inside.chance import look_for_size
from ci_tools.observe.inside.facts import FACTS, refuse_file
from ci_tools.observe.inside.standard_library import drivers
from ci_tools.observe.inside.torch_names.table import HEADERS, OF_HEADER

# Programs that only make a build faster, and programs that show whether there is a GPU.
INDIFFERENT_PROGRAMS = frozenset({"ccache", "sccache"})
GPU_PROGRAMS = frozenset(
    # ruff: noqa: SIM905 - as words they fit on a page
    "amd-smi hl-smi npu-smi nvidia-smi rocm-smi rocm_agent_enumerator rocminfo sycl-ls xpu-smi".split()
)
USUAL_PLACES = ("/usr/local/cuda", "/opt/rocm", "/opt/intel")  # of toolkits; jobs name theirs by variables
OF_LINUX = ("/proc/", "/sys/", "/usr/include/")  # macOS keeps its headers in an SDK
OF_UNIX = ("/bin/", "/etc/", "/home/", "/lib/", "/opt/", "/sbin/", "/usr/", "/var/")
readlink = os.readlink  # the original
LOOKS = ("access", "chdir", "listdir", "lstat", "readlink", "scandir", "stat", "statvfs")
LIBRARY = sysconfig.get_path("stdlib")
INCLUDE = sysconfig.get_path("include")
HEADER = "Python.h"
PREFIX = sys.base_prefix
FROZEN_LIBRARY = (f"{LIBRARY}/", "<frozen ")  # genericpath is one of the frozen modules
OF_CUDA = re.compile(r"/(fakes|lib/.*)/nvidia(/|$)")  # packages that only torch's CUDA builds install
TRANSLATION = re.compile(r"/share/locale/.*\.mo$")  # argparse and others look for translated messages there
NUMPY = re.compile(r"/fakes/numpy/(_)?core/include(?:/numpy(?:/\w+\.h)?)?$")
TORCH_HEADER = re.compile(r"/fakes/torch/include/(.+)")
REPOSITORIES = frozenset({".git", ".hg", ".svn"})


class _Kind(NamedTuple):
    """A kind of file, and the mode by which a question for it knows one."""

    what: str
    mode: int


# Functions that tell nothing of a path but whether there is one of that kind.
ONLY_ASKS = {
    "exists": _Kind("anything at", stat.S_IFREG),
    **dict.fromkeys(("is_file", "isfile"), _Kind("a file", stat.S_IFREG)),
    **dict.fromkeys(("is_dir", "isdir"), _Kind("a folder", stat.S_IFDIR)),
}


def watch() -> None:
    """Intercept every function through which the project could look at a file."""
    for name in LOOKS:
        if hasattr(os, name):
            setattr(os, name, _guard_lookup(name, getattr(os, name)))
    # The accessor of pathlib in Python 3.10 keeps references to the original functions.
    for kind in (getattr(pathlib, "_NormalAccessor", None),):
        for name in LOOKS if kind else ():
            setattr(kind, name, staticmethod(getattr(os, name)))
    os.open = _open_below(os.open)
    os.symlink = facts.watch(os.symlink, _check_link)
    shutil.which = which(shutil.which)
    shutil.disk_usage = doubt_function("shutil.disk_usage", shutil.disk_usage)


def _guard_lookup(name: str, real: Any) -> Any:
    """Hide from the project the files of this machine outside the source."""

    @functools.wraps(real)
    def called(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
        asks = FACTS.lets_ask()
        if asks and LEFT:
            place_data()
        if asks and (found := look_for_size(name, path)) is not None:
            return found
        if asks and (located := drivers.locate(path)) is not path:
            return real(located, *args, **kwargs)
        if asks and not (isinstance(path, int) or _leads_here(name, path)):
            hidden = _hide(name, path, sys._getframe(1))  # noqa: SLF001 - the caller
            if hidden is not None:
                return hidden
        if asks:
            _note_look(name, path, kwargs.get("dir_fd"))
        return real(path, *args, **kwargs)

    for group in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks, os.supports_effective_ids):
        if real in group:
            group.add(called)  # shutil.rmtree checks whether they accept descriptors
    return called


def _hide(look: str, path: Any, asker: FrameType) -> Any:
    """Return what a look tells of a file that the project may not see, or raise FileNotFoundError; None if it may."""
    only = ONLY_ASKS.get(_name_asker(asker)) if look == "stat" else None
    if (only or look == "access") and (header := TORCH_HEADER.search(_full_name(path))):
        return _find_header(header[1], look, only, path)
    if only and (found := NUMPY.search(_full_name(path))):  # numpy 2 has moved them
        return os.stat_result((only.mode, *[0] * 9)) if found[1] else refuse_file(path)
    if only and _full_name(path) == os.devnull and FACTS.ask("os") == "windows":
        refuse_file(path)
    if only and _is_elsewhere(path):  # only some builders have it: another run gets the other answer
        there = FACTS.suppose(f"there is {only.what} {_name_alike(path)}")
        return os.stat_result((only.mode, *[0] * 9)) if there else refuse_file(path)
    if is_there(path):
        return None
    if look == "access":
        return False
    return refuse_file(path)


def _find_header(header: str, look: str, only: _Kind | None, path: Any) -> Any:
    """Answer whether the cell's torch has a header, or a folder of them."""
    FACTS.note(f"{OF_HEADER}{header}")
    found = HEADERS.has(FACTS.known["torch_names"], header)
    if found is None:
        FACTS.doubt(f"looks for {header}, which not every torch has")
    is_folder = not re.search(r"\.\w+$", header)
    if found and look == "stat" and only and (only.what == "anything at" or is_folder == (only.mode == stat.S_IFDIR)):
        return os.stat_result((stat.S_IFDIR if is_folder else stat.S_IFREG, *[0] * 9))
    if look == "access":
        return bool(found)
    return refuse_file(path)


def _check_link(source: Any, link: Any, *_: Any, **__: Any) -> None:
    """Check the target of a link when it is created: files found through the link later look like the source's."""
    is_there(os.path.join(os.path.dirname(os.fsdecode(link)), os.fsdecode(source)))


def _leads_here(look: str, path: Any) -> bool:
    """Whether the path is a folder above the source or Python that `os.path.realpath` checks for links."""
    is_resolved = look == "stat" and _name_asker(sys._getframe(2)) == "resolve"  # noqa: SLF001 - the caller's caller
    if look not in {"lstat", "readlink"} and not is_resolved:
        return False
    above = f"{os.fsdecode(path).rstrip('/')}/"
    return any(
        folder.startswith(above) for folder in (FACTS.root, FACTS.known["modules"], f"{sys.prefix}/", f"{PREFIX}/")
    )


def is_there(path: Any) -> bool:
    """Whether the project may see a path; records what the lookup reveals, or would reveal, about the machine."""
    name = _full_name(path)
    if not name or name in {os.devnull, FACTS.known["home"]} or _is_ours(name):
        return True
    if _is_of_some_builders(name):
        FACTS.doubt(f"looks for {_name_alike(name)}, which is not in the source")
    return False


def _full_name(path: Any) -> str:
    """Return the whole path; "" if it is not a path: the real function raises the error."""
    try:
        return os.fsdecode(os.path.abspath(os.fspath(path)))
    except (TypeError, ValueError):
        return ""


def _is_of_some_builders(name: str) -> bool:
    """Whether a path that is not ours may be there on a builder, which no cell defines."""
    if name.startswith(USUAL_PLACES):
        FACTS.ask("accelerator")
        return False
    if name.startswith(OF_UNIX) and FACTS.ask("os") == "windows":
        return False
    if name.startswith(OF_LINUX) and FACTS.ask("os") != "linux":
        return False
    return not (_is_around(name) or TRANSLATION.search(name) or _is_known_to_be_absent(name))


def _is_elsewhere(path: Any) -> bool:
    """Whether a path is outside all that a job defines, so that only the builder decides whether it is there."""
    name = _full_name(path)
    return bool(name) and name != os.devnull and not _is_ours(name) and _is_of_some_builders(name)


def _name_asker(frame: FrameType | None) -> str:
    """Return the function of the standard library by which the project asks for a file."""
    name = ""
    while frame and frame.f_code.co_filename.startswith(FROZEN_LIBRARY):
        name, frame = frame.f_code.co_name, frame.f_back
    return name


def _name_alike(path: Any) -> str:
    """Return the name of a path as it is the same on every host."""
    name = _full_name(path)
    for folder, known in ((FACTS.known["home"], "~"), (LIBRARY, "<python>"), (PREFIX, "<python>")):
        if name.startswith(f"{folder}/"):
            return f"{known}{name.removeprefix(folder)}"
    return name


def _is_ours(name: str) -> bool:
    """Whether a path belongs to the source, to this observation's folders or to Python itself."""
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
    """Whether a file of a package may be seen; a look inside a fake package is a doubt."""
    if "/fakes" in name and not name.endswith("/fakes"):
        package = name.partition("/fakes/")[2]
        if _is_known_to_be_absent(name):
            return True
        FACTS.doubt(f"looks into {package or 'the installed packages'}, which is not simulated")
    elif name.rstrip("/") == FACTS.known["modules"].rstrip("/"):
        FACTS.doubt("lists the installed packages, and no cell defines which of them a build has")
    return True


def _is_known_to_be_absent(name: str) -> bool:
    """Whether the path is of a CUDA library package, which only torch's CUDA builds have, and the cell's has not."""
    return OF_CUDA.search(name) is not None and FACTS.ask("accelerator")["kind"] != "cuda"


def _is_pythons(name: str) -> bool:
    """Whether every builder's Python has the path."""
    is_library = name.startswith(f"{LIBRARY}/") and "site-packages" not in name
    return is_library or name in {sys.prefix, sys.base_prefix, LIBRARY, INCLUDE, f"{INCLUDE}/{HEADER}"}


def _is_around(name: str) -> bool:
    """Whether a path is beside or above the source: a job's build folder holds nothing else."""
    folder, _, file = name.rpartition("/")
    if file in REPOSITORIES and FACTS.root.startswith(f"{folder}/"):
        return True
    return name.startswith(FACTS.known["around"]) and not name.startswith(FACTS.known["home"])


def note_program(name: str) -> None:
    """Record that the project looks for a program that a builder may lack."""
    if name in GPU_PROGRAMS:
        FACTS.ask("gpu")
    elif name in FACTS.known["compilers"]:
        FACTS.ask("accelerator")
    elif not is_of_another(name) and _is_unknown_program(name):
        FACTS.doubt(f"looks for the program {name}")


def is_of_another(name: str) -> bool:
    """Whether only another system than the cell's has a program."""
    systems = FACTS.known["of_systems"]
    return name in systems and FACTS.ask("os") != systems[name]


def _is_unknown_program(name: str) -> bool:
    """Whether no cell defines that a builder has a program."""
    name = re.sub(r"\.exe$", "", name)  # as Windows names it
    known = (INDIFFERENT_PROGRAMS, GPU_PROGRAMS, *map(FACTS.known.get, ("compilers", "of_systems", "programs")))
    return not any(name in some for some in known if some)


def which(real: Any) -> Any:
    """Wrap `shutil.which` or a similar function to record the program that is searched."""

    @functools.wraps(real)
    def called(cmd: Any, *args: Any, **kwargs: Any) -> Any:
        if FACTS.lets_ask():
            name = os.path.basename(os.fsdecode(cmd))
            if _is_unknown_program(name):
                return f"/usr/bin/{name}" if FACTS.suppose(f"there is a program {name}") else None
            note_program(name)
            if is_of_another(name):
                return None
        return real(cmd, *args, **kwargs)

    return called


def note_read(path: Any, mode: object, flags: object) -> None:
    """Record that the project reads a file of its machine."""
    writes = set(str(mode or "")) & set("wax+") or (isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR))
    if not writes and FACTS.lets_ask():
        is_there(path)


def note_content(path: Any, mode: object, flags: object) -> None:
    """Record a file of the source that is opened, by whomever, for more than writing."""
    only_writes = "+" not in str(mode or "") and set(str(mode or "")) & set("wax")
    if not only_writes and not (mode is None and isinstance(flags, int) and flags & os.O_WRONLY):
        FACTS.note_file(path)


def note_contents(path: Any, folder: int = -1) -> None:
    """Record a file of the source, or all files of a folder, that get another name; `folder` is open, or -1."""
    top = _path_below(path, folder)
    FACTS.note_file(top)
    for inner, _, names in os.walk(top):
        for name in names:
            FACTS.note_file(os.path.join(inner, name))


def _path_below(path: Any, folder: int | None) -> str:
    """Return a path that is named from an open folder; without one it is the path itself.

    Where the system does not tell an open folder's path, the whole source stands for it.
    """
    if folder is None or folder < 0 or os.path.isabs(path):
        return os.fsdecode(path)
    if sys.platform != "linux":
        return FACTS.root
    return os.path.join(readlink(f"/proc/self/fd/{folder}"), os.fsdecode(path))


def _open_below(real: Any) -> Any:
    """Record the file that is opened by a name below an open folder: the audit hook hears only the name."""

    @functools.wraps(real)
    def called(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> Any:
        if dir_fd is not None:
            _note_file(path, dir_fd)
        return real(path, flags, mode, dir_fd=dir_fd)

    os.supports_dir_fd.add(called)
    return called


def _note_file(path: Any, folder: int | None) -> None:
    """Record a file that is named from an open folder."""
    found = _path_below(path, folder)
    if found == FACTS.root:
        note_contents(found)
    else:
        FACTS.note_file(found)


def _note_look(look: str, path: Any, folder: int | None) -> None:
    """Record the files whose size and mode the project gets to know; an open file was recorded when it was opened."""
    if look in {"access", "lstat", "stat"} and not isinstance(path, int):
        _note_file(path, folder)
    elif look == "scandir" and FACTS.asks():
        for name in os.listdir(path):
            _note_file(name, path) if isinstance(path, int) else FACTS.note_file(os.path.join(path, name))
