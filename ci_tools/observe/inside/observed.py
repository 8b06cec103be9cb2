"""Runs what the request of one observation describes, a build or a Python that the build starts, and records it."""

from __future__ import annotations

import gc
import hashlib
import hmac
import importlib
import json
import logging
import os
import pkgutil
import sys
import traceback
from pathlib import Path
from typing import Any

from ci_tools.observe.inside import build_ext, machine, modules, programs, text
from ci_tools.observe.inside.facts import FACTS
from ci_tools.observe.inside.standard_library.library import LIBRARY
from ci_tools.observe.inside.torch_names.table import HEADERS
from ci_tools.observe.inside.torch_names.torch import TORCH

# Of files that a compiler or cmake reads.
TEXT_ENDINGS = tuple(
    # ruff: noqa: SIM905 - as words they fit on a page
    ".c .cc .cmake .cpp .cu .cuh .cxx .h .hh .hip .hpp .inc .inl .pyx .sycl CMakeLists.txt".split()
)
MAX_TEXT = 1 << 20  # characters of one generated source
READER = f"{sys.version_info[0]}.{sys.version_info[1]}"  # before it is another one
# What setuptools imports in the course of a build; none of it looks at the machine when it is imported.
OF_DISTUTILS = "build_py build_scripts install install_lib install_scripts"
OF_SETUPTOOLS = (
    "_distutils.spawn _distutils.sysconfig _distutils.unixccompiler _distutils.util archive_util build_meta "
    "command.build_py command.install command.install_egg_info command.install_lib command.install_scripts "
    "compat.py310 namespaces"
)
USED_LATER = (
    *(f"distutils.command.{name}" for name in OF_DISTUTILS.split()),
    *(f"setuptools.{name}" for name in OF_SETUPTOOLS.split()),
)


def prepare(request: dict[str, Any]) -> None:
    """Import and read what every build needs and no fact of a cell changes."""
    HEADERS.read(request["torch_headers"])
    LIBRARY.read(request["standard_library"])
    TORCH.read(request["torch_names"])
    for name in USED_LATER:
        importlib.import_module(name)
    modules.remember_entry_points()
    machine.prepare()


def observe_build(request: dict[str, Any], word: bytes) -> None:
    """Run the build, and write the answer, sealed with the word, as the journal's last line."""
    os.chdir(request["project"])
    before = _stamp_sources(request["root"])
    _disguise(request, request["env"])
    error = _build_wheel(request)
    answer = {**_collect_records(), "error": error, "generated": _read_written_sources(request["root"], before)}
    content = json.dumps(answer).encode()
    seal = hmac.new(word, content, hashlib.sha256).hexdigest().encode()
    FACTS.write(b"answer " + seal + b" " + content)
    sys.stdout.flush()
    os._exit(0)  # ends threads and skips exit handlers of the project


def _disguise(request: dict[str, Any], env: dict[str, str]) -> None:
    build_ext.install()
    logging.disable(logging.INFO)  # setuptools says each file that it copies
    lent = request["path"][0] + "/"
    FACTS.begin(request["facts"], request["root"] + "/", request["prefix"], lent, request["journal"])
    machine.install_fakes(env, request["provided"])
    gc.enable()


def _collect_records() -> dict[str, Any]:
    text.scan()
    return {
        "asked": FACTS.asked,
        "doubts": FACTS.doubts,
        "imports": FACTS.imports,
        "reads": FACTS.reads,
        "compiles": build_ext.Recorder.compiles,
        "links": build_ext.Recorder.links,
        "configured": programs.CONFIGURED,
        "left": build_ext.LEFT,
        "opened": [*build_ext.OPENED],
    }


def _build_wheel(request: dict[str, Any]) -> dict[str, Any] | None:
    """Let the backend build the wheel; return the error that it raised, or None."""
    sys.path[:0] = request["backend_path"]
    sys.argv = ["setup.py"]
    try:
        backend = pkgutil.resolve_name(request["backend"] + ":" * (":" not in request["backend"]))
        if request["backend_path"] and (hook := getattr(backend, "get_requires_for_build_wheel", None)):
            modules.provide(hook(request["settings"]))
        backend.build_wheel(request["wheels"], request["settings"])  # type: ignore[attr-defined]
    except BaseException as error:  # noqa: BLE001 - any error of a project is part of the answer
        traceback.print_exc()
        return _describe_error(error)
    return None


# ---------------------------------------------------------------- a Python that the build starts


def observe_child(request: dict[str, Any], arguments: list[str]) -> None:
    """Run what Python is asked to run, and record that it ended."""
    sys.stdin.reconfigure(encoding="utf-8")
    _disguise(request, dict(os.environ))
    FACTS.tell(began=True)  # the journal then shows if it never ended
    status = 0
    try:
        _run(arguments)
    except SystemExit as ended:
        status = _status(ended.code)
    except BaseException:  # noqa: BLE001 - as Python does
        traceback.print_exc()
        status = 1
    text.scan()
    FACTS.tell(ended=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _status(code: object) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    sys.stderr.write(f"{code}\n")
    return 1


def _run(arguments: list[str]) -> None:
    """Run as `python ARGUMENTS...` does, for a file, a module or a text."""
    import runpy  # the observed build itself does not need it

    words = list(arguments)
    while words and words[0] in {"-B", "-E", "-I", "-S", "-s", "-u"}:
        del words[0]
    if words[:1] == ["-c"]:
        sys.argv = ["-c", *words[2:]]
        sys.path.insert(0, "")
        exec(words[1], {"__name__": "__main__"})  # noqa: S102 - the text of `python -c`
    elif words[:1] == ["-m"]:
        sys.argv = words[1:]
        if words[1].lower() == "cython":
            importlib.import_module("Cython.Build.Cythonize").main()
            return
        FACTS.doubt(f"runs the module {words[1]} in a separate Python")
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words and not words[0].startswith("-"):
        sys.argv = words
        sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
        runpy.run_path(words[0], run_name="__main__")
    else:
        FACTS.doubt(f"starts Python with {' '.join(arguments[:1])}, which is not simulated")


# ---------------------------------------------------------------- errors of the build


def _describe_error(error: BaseException) -> dict[str, Any]:
    """Return an error's kind and text, and the place in the project where it was raised."""
    while isinstance(error, SystemExit) and error.__context__ and not _is_project(error):
        error = error.__context__
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if FACTS.is_own(frame.filename)]
    place = f"{FACTS.shown(own[-1].filename)}:{own[-1].lineno}" if own else ""
    if isinstance(error, SyntaxError):
        return _describe_syntax_error(error, place)
    name = type(error).__name__
    text = error.code if isinstance(error, SystemExit) else error
    return {"kind": name, "text": str(text), "place": place}


def _describe_syntax_error(error: SyntaxError, place: str) -> dict[str, Any]:
    """Return what is wrong with a line, its place, and the Python that read it, which is not the cell's."""
    name = error.filename or ""
    if name == "<string>":  # setuptools reads setup.py, and runs its text
        place = f"setup.py:{error.lineno}"
    elif FACTS.is_own(name):
        place = f"{FACTS.shown(name)}:{error.lineno}"
    return {"kind": type(error).__name__, "text": f"{error.msg}, says Python {READER}", "place": place}


def _is_project(error: BaseException) -> bool:

    last = traceback.extract_tb(error.__traceback__)[-1:]
    return any(FACTS.is_own(frame.filename) for frame in last)


# ---------------------------------------------------------------- files of the build


def _stamp_sources(root: str) -> dict[str, tuple[int, ...]]:
    """Return the sources below a folder, relative to it, each with values that change when it is written."""
    found, folders = {}, [""]
    while folders:
        folder = folders.pop()
        with os.scandir(os.path.join(root, folder)) as entries:
            for entry in entries:
                name = f"{folder}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    folders += [f"{name}/"] if entry.name != ".git" else []
                elif name.endswith(TEXT_ENDINGS) and entry.is_file():
                    stat = entry.stat()
                    found[name] = stat.st_ino, stat.st_size, stat.st_mtime_ns
    return found


def _read_written_sources(root: str, before: dict[str, tuple[int, ...]]) -> dict[str, str]:
    """Return the sources that the build wrote or changed, with their text."""
    written = sorted(name for name, stamp in _stamp_sources(root).items() if before.get(name) != stamp)
    texts = {name: Path(root, name).read_text(encoding="utf-8", errors="replace") for name in written}
    return {name: text for name, text in texts.items() if len(text) <= MAX_TEXT}
