"""Reads the reply of cmake's file API (cmake-file-api(7), codemodel version 2): the targets of a configured project."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ci_tools.model.evidence import Compile
from ci_tools.observe.cmake.options import ENABLES, CmakeOption, read_kernels, read_options
from ci_tools.sandbox.leftovers import read_safely

QUERY = ".cmake/api/v1/query/codemodel-v2"
REPLY = ".cmake/api/v1/reply"
MOST = 64 << 20  # bytes of one file
LINKED = frozenset({"EXECUTABLE", "MODULE_LIBRARY", "SHARED_LIBRARY"})
COMPILED = LINKED | {"STATIC_LIBRARY", "OBJECT_LIBRARY"}
LINKS_TORCH = "-DFATWHEEL_LINKS_TORCH"  # the stand-in for torch gives it to every target that links torch


class CmakeTarget(NamedTuple):
    """A target that compiles something: its kind, its file, its compiler calls, and what its linker gets."""

    name: str
    kind: str
    file: str
    compiles: tuple[Compile, ...]
    links: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()  # names of targets that are built before it
    is_installed: bool = False

    @property
    def is_linked(self) -> bool:
        """Whether it is a library or a program of its own."""
        return self.kind in LINKED


def read_targets(build: Path, source: str) -> tuple[CmakeTarget, ...] | None:
    """Return the targets that compile sources, relative to the folder `source`; None without a readable reply."""
    try:
        return tuple(_read_all(build / REPLY, source))
    except (AttributeError, IndexError, KeyError, OSError, TypeError, ValueError):
        return None  # the project's own commands can write there, too


def _read_all(reply: Path, source: str) -> Iterator[CmakeTarget]:
    (index,) = reply.glob("index-*.json")
    (model,) = (one for one in _load(index)["objects"] if one["kind"] == "codemodel")
    model = _load(reply / model["jsonFile"])
    targets = model["configurations"][0]["targets"]
    top = str(model["paths"]["source"])  # of the first CMakeLists.txt: the files' paths are relative to it
    names = {str(one["id"]): str(one["name"]) for one in targets}
    for one in targets:
        found = _load(reply / one["jsonFile"])
        if found["type"] in COMPILED:
            yield _target(found, top, source, names)


def _load(path: Path) -> dict[str, Any]:
    content = read_safely(path, MOST)
    if content is None:
        raise ValueError(f"{path.name} cannot be read")
    value: dict[str, Any] = json.loads(content)
    return value


def _target(found: dict[str, Any], top: str, source: str, targets: dict[str, str]) -> CmakeTarget:
    flags = [tuple(_flags(group)) for group in found.get("compileGroups", ())]
    languages = [str(group["language"]) for group in found.get("compileGroups", ())]
    compiled = [one for one in found.get("sources", ()) if "compileGroupIndex" in one]
    names = {one["path"]: posixpath.normpath(posixpath.join(top, one["path"])) for one in compiled}
    return CmakeTarget(
        str(found["name"]),
        str(found["type"]),
        str(found.get("nameOnDisk", found["name"])),
        tuple(
            Compile(
                posixpath.relpath(names[one["path"]], source),
                languages[one["compileGroupIndex"]],
                flags[one["compileGroupIndex"]],
            )
            for one in compiled
        ),
        tuple(str(one["fragment"]) for one in found.get("link", {}).get("commandFragments", ())),
        tuple(targets[str(one["id"])] for one in found.get("dependencies", ()) if one["id"] in targets),
        "install" in found,
    )


def _flags(group: dict[str, Any]) -> Iterator[str]:
    for one in group.get("compileCommandFragments", ()):
        yield from str(one["fragment"]).split()
    yield from (f"-D{one['define']}" for one in group.get("defines", ()))


# ---------------------------------------------------------------- the trace

# A trace has a line for every command, with its file. A question of the project is a call of one of the stand-ins'
# commands, or of a cmake command whose answer depends on the machine; its place is the project's last line before it.
FACTS = frozenset({"cuda", "python", "torch"})  # questions that the cell answers; all others are the builder's
HOST = "cmake_host_system_information"
SIZE = re.compile(r"NUMBER_OF_(LOGICAL|PHYSICAL)_CORES|(TOTAL|AVAILABLE)_(PHYSICAL|VIRTUAL)_MEMORY")  # see world.cmake
# Commands whose answers come from the machine or the network, with the first arguments for which that is so.
DOUBTS: Mapping[str, Mapping[str, str] | str] = {
    HOST: "asks for a property of its machine",
    "exec_program": "runs a program",
    "externalproject_add": "fetches or builds another project",
    "site_name": "asks for the name of its machine",
    "file": {"DOWNLOAD": "opens the network", "UPLOAD": "opens the network", "REAL_PATH": "asks where a link leads"},
    "string": {"RANDOM": "asks for a random value", "UUID": "asks for a random value"},
}
MAX_LINES = 1 << 31  # cmake gives a larger number to what it calls by itself
STAND_INS = "/world.cmake"  # from the first command in it on, programs are answered for
# Commands that read files, and the first words of those that only list, name, make or remove them.
READING = frozenset({"configure_file", "file", "include", "load_cache"})
NOT_READING = frozenset(
    {
        *("APPEND", "GLOB", "GLOB_RECURSE", "MAKE_DIRECTORY", "READ_SYMLINK", "REAL_PATH", "RELATIVE_PATH", "REMOVE"),
        *("REMOVE_RECURSE", "TOUCH", "TO_CMAKE_PATH", "TO_NATIVE_PATH", "WRITE"),
    }
)
GIT = "git"
TELLING = re.compile(rb'"cmd":"(?:fatwheel_|find_|%s)' % "|".join(sorted(READING)).encode(), re.IGNORECASE)
LOOKING = frozenset({"add_subdirectory", "elseif", "file", "if", "include", "while"})
# A search that leaves no trace, or the builder's folders.
ELSEWHERE = frozenset({"NO_CACHE", "NO_CMAKE_FIND_ROOT_PATH"})
FINDING = re.compile(r"find_(?:library|path|file|program|package)")
# Commands that can say for which architectures a target is compiled.
SETTING = frozenset(
    {
        *("add_compile_options", "list", "set", "set_property", "set_target_properties", "string"),
        "target_compile_options",
    }
)
ARCHITECTURES = re.compile(r"\bCUDA_ARCHITECTURES\b|\bCMAKE_CUDA_ARCHITECTURES\b|-gencode|--generate-code|-arch[= ]")
# Files of cmake that find out about compilers: what they search for is in the builder's description, or of no matter.
FOR_ITSELF = re.compile(r"/Modules/(?:CMake|Internal/|Platform/|Compiler/)[^/]*")
ABSOLUTE = re.compile(r"(?<![\w./+-])/[\w.+-]+(?:/[\w.+-]+)+")


class TraceFacts(NamedTuple):
    """The questions of a configure step, each with its place, and what no cell answers."""

    asked: dict[str, str]  # in the order of the questions
    doubts: dict[str, str]
    finds: dict[str, str]  # the results that it searched for, by the name of their variable
    archs: dict[str, str]  # the last line that names GPU architectures, by what it does
    read: set[str]  # the words of all commands that read files, of cmake's own modules too
    kernels: dict[str, str]  # what compiles kernels
    options: list[CmakeOption]
    values: dict[str, str]  # of variables that the project sets, the last one
    end: str = ""  # the project's last line


def read_trace(lines: Sequence[bytes], source: str, own: Sequence[str], line_of: Callable[[str], str]) -> TraceFacts:
    """Return what a trace says of a project in the folder `source`; a look into the `own` folders asks nothing.

    `line_of` gives the text of a place of the project.
    """
    heard = TraceFacts({}, {}, {}, {}, set(), {}, [], {})
    place, answers = "", False
    for event in filter(None, map(_parse, _pick(lines, source))):
        file = str(event["file"])
        answers = answers or file.endswith(STAND_INS)
        is_project = file.startswith(f"{source}/")
        if is_project and event["line"] < MAX_LINES:
            place = f"{file[len(source) + 1 :]}:{event['line']}"
        if is_project and not answers and event["cmd"].lower() == "execute_process" and not _runs_git(event):
            heard.doubts.setdefault("runs a program before its first project()", place)
        _note(event, place, is_project=is_project, own=(source, *own), heard=heard)
        for what, at in read_kernels(event, place):
            heard.kernels.setdefault(what, at)
        if is_project:
            heard.options.extend(read_options(event, place, line_of))
    return heard._replace(end=place)


def _pick(lines: Iterable[bytes], source: str) -> Iterator[bytes]:
    """Yield the lines that may matter: most are of cmake's own modules, and to parse them takes the longest."""
    is_plain = source.isascii() and source.isprintable() and not {*'"\\'} & {*source}  # as it stands in JSON
    whole = tuple(map(str.encode, (source, STAND_INS, ENABLES)))
    for line in lines:
        if not is_plain or any(sign in line for sign in whole) or TELLING.search(line):
            yield line


def _parse(line: bytes) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) and {"cmd", "file", "line"} <= event.keys() else {}


def _note(event: Mapping[str, Any], place: str, *, is_project: bool, own: Sequence[str], heard: TraceFacts) -> None:
    """Record a command."""
    command = str(event["cmd"]).lower()
    words = [str(word) for word in event.get("args", ())]
    first = words[0] if words else ""
    if command == "fatwheel_ask":
        heard.asked.setdefault(first, place)
    elif command == "fatwheel_doubt":
        heard.doubts.setdefault(first, place)
    elif FINDING.fullmatch(command) and not FOR_ITSELF.search(str(event["file"])):
        heard.finds.setdefault(first, place)
    if is_project and command == "set" and words[1:] and "CACHE" not in words:
        heard.values[first] = ";".join(word for word in words[1:] if word != "PARENT_SCOPE")
    if is_project and command in SETTING and ARCHITECTURES.search(" ".join(words)):
        heard.archs["last"] = place
    if is_project and _runs_git(event):
        heard.read.add(GIT)
    if command in READING and first.upper() not in NOT_READING:
        heard.read.update(words)
    if is_project:
        for what in _list_doubts(command, words, own):
            heard.doubts.setdefault(what, place)


def _runs_git(event: Mapping[str, Any]) -> bool:
    """Whether a command runs git, which answers of the copy of the source."""
    words = map(str, event.get("args", ()))
    return str(event["cmd"]).lower() == "execute_process" and GIT in {word.rpartition("/")[2] for word in words}


def _list_doubts(command: str, words: Sequence[str], own: Sequence[str]) -> Iterator[str]:
    """Yield why the answer to a command of the project depends on the machine."""
    known = DOUBTS.get(command, "")
    if command == HOST and "QUERY" in words and all(map(SIZE.fullmatch, words[words.index("QUERY") + 1 :])):
        return
    if what := known if isinstance(known, str) else known.get(words[0] if words else "", ""):
        yield what
    if FINDING.fullmatch(command) and ELSEWHERE.intersection(words):
        yield f"searches for {words[0]} in a way that is not observed"
    for word in words if command in LOOKING else ():
        for path in ABSOLUTE.findall(word):
            if not path.startswith(tuple(own)):
                yield f"looks at {path}"
