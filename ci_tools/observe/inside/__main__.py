"""Runs one build of one cell and records what it does: `python -s -S __main__.py REQUEST.json`.

The request names the copy of the source, the backend, the cell's facts and variables, and the journal: a FIFO to which
every event is written when it happens. The answer comes last, sealed with a secret word that only this process gets.
With more arguments this is a Python that the build starts: it runs them as Python would, and records their questions.

`--serve REQUEST SCRIPT DESCRIPTOR` prepares a process from which SCRIPT forks another for each build: it has imported
what every build needs, and no project has run in it. Its REQUEST, in JSON, is the part that all builds share.
"""

from __future__ import annotations

import gc
import hashlib
import hmac
import importlib
import json
import logging
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ci_tools.observe.inside.facts import AskedFacts

REQUEST = 1
SERVE = "--serve"
WORD = "FATWHEEL_WORD"  # the variable that passes the secret word
# Of files that a compiler or cmake reads.
TEXT_ENDINGS = tuple(
    # ruff: noqa: SIM905 - as words they fit on a page
    ".c .cc .cmake .cpp .cu .cuh .cxx .h .hh .hip .hpp .inc .inl .pyx .sycl CMakeLists.txt".split()
)
MAX_TEXT = 1 << 20  # characters of one generated source
READER = f"{sys.version_info[0]}.{sys.version_info[1]}"  # before it is another one
# What setuptools imports in the course of a build; none of it looks at the machine when it is imported.
USED_LATER = (
    "distutils.command.build_py",
    "distutils.command.build_scripts",
    "distutils.command.install",
    "distutils.command.install_lib",
    "distutils.command.install_scripts",
    "setuptools._distutils.spawn",
    "setuptools._distutils.sysconfig",
    "setuptools._distutils.unixccompiler",
    "setuptools._distutils.util",
    "setuptools.archive_util",
    "setuptools.build_meta",
    "setuptools.command.build_py",
    "setuptools.command.install",
    "setuptools.command.install_egg_info",
    "setuptools.command.install_lib",
    "setuptools.command.install_scripts",
    "setuptools.compat.py310",
    "setuptools.namespaces",
)


def main() -> None:
    """Observe the build that the request describes, or a Python that it starts."""
    gc.disable()  # until the project's code runs: nothing that is imported before becomes garbage
    del sys.path[0]  # this folder
    if sys.argv[1] == SERVE:
        _serve(*sys.argv[2:])
        return
    word = _take_word()
    request = _read_request()
    arguments = sys.argv[REQUEST + 1 :]
    _prepare(request)
    if arguments:
        _observe_child(request, arguments)
    else:
        _observe_build(request, word)


def _read_request() -> dict[str, Any]:
    request: dict[str, Any] = json.loads(Path(sys.argv[REQUEST]).read_text(encoding="utf-8"))
    return request


def _serve(request: str, script: str, descriptor: str) -> None:
    """Prepare this process, and let a script fork others from it."""
    _prepare(json.loads(request))
    import runpy

    runpy.run_path(script)["serve"](int(descriptor), _run_forked)


def _run_forked(command: list[str]) -> None:
    sys.orig_argv = command  # as of a process that was started with it
    sys.argv[1:] = command[-1:]
    _observe_build(_read_request(), _take_word())


def _prepare(request: dict[str, Any]) -> None:
    """Import and read what every build needs and no fact of a cell changes."""
    sys.path[:0] = request["path"]
    from ci_tools.observe.inside import build_ext, machine, modules, text  # noqa: F401 - imported for later
    from ci_tools.observe.inside.standard_library.library import LIBRARY
    from ci_tools.observe.inside.torch_names.headers import HEADERS
    from ci_tools.observe.inside.torch_names.torch import TORCH

    HEADERS.read(request["torch_headers"])
    LIBRARY.read(request["standard_library"])
    TORCH.read(request["torch_names"])
    for name in USED_LATER:
        importlib.import_module(name)
    modules.remember_entry_points()
    machine.prepare()


def _take_word() -> bytes:
    """Return the word that seals the answer, and remove it from the environment."""
    return os.environ.pop(WORD, "").encode()  # also from `posix.environ`, which is the same table


def _observe_build(request: dict[str, Any], word: bytes) -> None:
    os.chdir(request["project"])
    before = _stamp_sources(request["root"])
    _disguise(request, request["env"])
    error = _build_wheel(request)
    answer = {
        **_collect_records(),
        "error": error,
        "generated": _read_written_sources(request["root"], before),
    }
    text = json.dumps(answer).encode()
    seal = hmac.new(word, text, hashlib.sha256).hexdigest().encode()
    _facts().write(b"answer " + seal + b" " + text)
    sys.stdout.flush()
    os._exit(0)  # ends threads and skips exit handlers of the project


def _disguise(request: dict[str, Any], env: dict[str, str]) -> None:
    from ci_tools.observe.inside import build_ext, machine
    from ci_tools.observe.inside.facts import FACTS

    build_ext.install()
    logging.disable(logging.INFO)  # setuptools says each file that it copies
    modules = request["path"][0] + "/"
    FACTS.begin(request["facts"], request["root"] + "/", request["prefix"], modules, request["journal"])
    machine.install_fakes(env, request["provided"])
    gc.enable()


def _facts() -> AskedFacts:
    from ci_tools.observe.inside.facts import FACTS

    return FACTS


def _collect_records() -> dict[str, Any]:
    from ci_tools.observe.inside import build_ext, programs, text
    from ci_tools.observe.inside.facts import FACTS

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
    from ci_tools.observe.inside import modules

    sys.path[:0] = request["backend_path"]
    sys.argv = ["setup.py"]
    try:
        module, _, attribute = request["backend"].partition(":")
        backend = importlib.import_module(module)
        for name in filter(None, attribute.split(".")):
            backend = getattr(backend, name)
        if request["backend_path"] and (hook := getattr(backend, "get_requires_for_build_wheel", None)):
            modules.provide(hook(request["settings"]))
        backend.build_wheel(request["wheels"], request["settings"])  # type: ignore[attr-defined]
    except BaseException as error:  # noqa: BLE001 - any error of a project is part of the answer
        traceback.print_exc()
        return _describe_error(error)
    return None


# ---------------------------------------------------------------- a Python that the build starts


def _observe_child(request: dict[str, Any], arguments: list[str]) -> None:
    """Run what Python is asked to run, and record that it ended."""
    sys.stdin.reconfigure(encoding="utf-8")
    _disguise(request, dict(os.environ))
    _facts().tell(began=True)  # the journal then shows if it never ended
    status = 0
    try:
        _run(arguments)
    except SystemExit as ended:
        status = _status(ended.code)
    except BaseException:  # noqa: BLE001 - as Python does
        traceback.print_exc()
        status = 1
    _scan_text()
    _facts().tell(ended=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _scan_text() -> None:
    from ci_tools.observe.inside import text

    text.scan()


def _status(code: object) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    sys.stderr.write(f"{code}\n")
    return 1


def _run(arguments: list[str]) -> None:
    """Run as `python ARGUMENTS...` does, for a file, a module or a text."""
    import runpy  # the observed build itself does not need it

    from ci_tools.observe.inside.facts import FACTS

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
    from ci_tools.observe.inside.facts import FACTS

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
    from ci_tools.observe.inside.facts import FACTS

    name = error.filename or ""
    if name == "<string>":  # setuptools reads setup.py, and runs its text
        place = f"setup.py:{error.lineno}"
    elif FACTS.is_own(name):
        place = f"{FACTS.shown(name)}:{error.lineno}"
    return {"kind": type(error).__name__, "text": f"{error.msg}, says Python {READER}", "place": place}


def _is_project(error: BaseException) -> bool:
    from ci_tools.observe.inside.facts import FACTS

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


if __name__ == "__main__":
    main()
