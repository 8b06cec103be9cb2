"""The observation of one build: read from the observer's answer and the wheel that the build left.

The project's code could have changed both, so anything unexpected in them is a doubt.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import json
import os
import re
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from ci_tools.errors import Rejected
from ci_tools.formats.binaries.magic import name_systems
from ci_tools.formats.wheel import Hashing, open_wheel
from ci_tools.model.evidence import Compile, Extension
from ci_tools.model.versions import Python
from ci_tools.observe.images import DEVICE_SOURCES

if TYPE_CHECKING:
    from ci_tools.observe.setup_py.prepared import Prepared
    from ci_tools.observe.stage import Stage


NETWORK = "opens the network"  # the start of that doubt's text
BUILDERS = ("cmake", "make")  # other build systems, noted among the questions where a build runs them
# https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc (--threads, --split-compile), and the manuals of the others.
TAKES_JOBS = frozenset({"--split-compile", "--threads", "-split-compile", "-t"})
JOBS = re.compile(
    r"(-t|--threads|--?split-compile)=?\d+|-j\d+|-flto(=|-jobs=)\d+|-Wl,.*(jobs|threads)=\d+|-parallel-jobs=\d+|/MP\d+"
)
CMAKE_JOBS = re.compile(r"(-D)?\w*(JOBS|JOB_POOLS|THREADS|PARALLEL_LEVEL)(:\w+)?=\D*\d+")
MAX_MARK = 100  # bytes
MARK = re.compile(rb"(?:#!/bin/sh\nexit 1 # )?in place of what would be linked as number (\d{1,6})\n")


class Failure(NamedTuple):
    """The error that the build raised, and its place in the project."""

    text: str
    place: str


class Observed(NamedTuple):
    """The questions and actions of one build."""

    asked: Mapping[str, str]  # question → file:line
    stopped: bool = False  # whether it was ended early, or ended Python itself
    doubts: Mapping[str, str] = {}  # question that no cell answers → file:line
    before: tuple[str, ...] = ()  # the questions asked before the first doubt; all of them if there is none
    imports: Mapping[str, str] = {}  # module → file:line
    opens_network: bool = False
    failure: Failure | None = None
    tag: str = ""  # interpreter and ABI, `cp310-abi3`; empty: that of the building Python
    platform: str = ""  # the tag of the platform, where the project chooses it
    is_pure: bool = False  # whether the wheel's tag has the platform `any`
    members: tuple[tuple[str, str], ...] = ()  # path and sha256; libraries have none
    shipped: tuple[str, ...] = ()  # compiled files that this build did not compile
    systems: Mapping[str, str] = {}  # of those that are for some system: `linux x86_64`
    metadata: tuple[str, ...] = ()  # the fields of METADATA
    libraries: tuple[Extension, ...] = ()
    commands: tuple[Compile, ...] = ()  # every call of a compiler
    tests: frozenset[str] = frozenset()  # sources of tests of the compiler: nothing of their objects is in the wheel
    configured: tuple[tuple[str, ...], ...] = ()  # of each call of cmake: changed variables, arguments
    generated: Mapping[str, str] = {}  # the sources that the build wrote or changed, with their text

    @property
    def kept_commands(self) -> tuple[Compile, ...]:
        """The calls of a compiler whose objects the wheel may hold."""
        return tuple(one for one in self.commands if one.source not in self.tests)

    @property
    def sources(self) -> frozenset[str]:
        """The compiled sources."""
        return frozenset(one.source for one in self.kept_commands)

    @property
    def device_sources(self) -> frozenset[str]:
        """The compiled sources of GPU kernels."""
        return frozenset(one.source for one in self.kept_commands if one.source.endswith(DEVICE_SOURCES))

    @property
    def without_jobs(self) -> Observed:
        """The observation without the numbers of jobs that a compiler runs at once: they make the same file."""
        libraries = (
            one._replace(compiles=tuple(map(_drop_jobs, one.compiles)), links=tuple(_list_without_jobs(one.links)))
            for one in self.libraries
        )
        return self._replace(
            commands=tuple(map(_drop_jobs, self.commands)),
            libraries=tuple(libraries),
            configured=tuple(tuple(_list_without_jobs(call, CMAKE_JOBS)) for call in self.configured),
        )

    @property
    def gist(self) -> tuple[object, ...]:
        """The parts that a switch may change."""
        return self.commands, self.configured, self.members, self.libraries, dict(self.doubts), self.failure

    @property
    def version(self) -> str:
        """The version in METADATA; "" if there is none."""
        return next((line.partition(": ")[2] for line in self.metadata if line.startswith("Version: ")), "")


def _drop_jobs(command: Compile) -> Compile:
    return command._replace(flags=tuple(_list_without_jobs(command.flags)))


def _list_without_jobs(flags: Sequence[str], jobs: re.Pattern[str] = JOBS) -> Iterator[str]:
    """Yield flags without the numbers of jobs in them; nvcc's may be a word of its own."""
    for flag, before in zip(flags, ("", *flags), strict=False):
        is_of_jobs = jobs.fullmatch(flag) or before in TAKES_JOBS
        yield re.sub(r"\d+", "", flag) if is_of_jobs else flag


def list_folders(stage: Stage, prepared: Prepared) -> dict[object, str]:
    """Return this host's folders in an answer, each with the name that it gets on every host."""
    return {
        f"{stage.source}/": "",
        stage.source: ".",
        f"{prepared.fakes}/": "<package>/",
        stage.accelerator: "<accelerator>",
        stage.tools / "python": "<python>",
        stage.folder: "<stage>",
        prepared.modules: "<modules>",
        **dict.fromkeys(_list_python_folders(), "<python>"),
    }


@functools.cache  # sysconfig expands all of its variables for each path
def _list_python_folders() -> tuple[str, ...]:
    """Return the folders of the Python that runs this, the inner ones first."""
    return sysconfig.get_path("stdlib"), sysconfig.get_path("include"), sys.prefix, sys.base_prefix


def read_wheel(stage: Stage, prepared: Prepared) -> dict[str, Any] | None:
    """Return the wheel's content, or None without exactly one wheel; notes members that name a folder of the build."""
    if stage.wheels.resolve() != stage.wheels:
        return None
    wheels = [path for path in stage.wheels.glob("*.whl") if path.is_file() and not path.is_symlink()]
    if len(wheels) != 1:
        return None
    try:
        return _content(wheels[0], [os.fsencode(folder) for folder in (stage.folder, prepared.modules)])
    except Rejected as error:
        return {"broken": str(error)}


def _content(path: Path, folders: Sequence[bytes]) -> dict[str, Any]:
    wheel, is_for_any = open_wheel(path), path.stem.endswith("-any")
    members, shipped, libraries, placed, systems = [], [], {}, [], {}
    with wheel.archive:
        for info in wheel.infos:
            if mark := info.file_size < MAX_MARK and MARK.fullmatch(wheel.read(info)):
                libraries[info.filename] = int(mark[1])
            elif not info.filename.startswith(f"{wheel.dist_info}/"):
                digest, holds = _scan_member(wheel.chunks(info), folders)
                members.append((info.filename, digest))
                # such as the launchers in distlib, which pip and others bring along: data on other systems
                if wheel.binary_format(info) and not (is_for_any and info.filename.endswith(".exe")):
                    shipped.append(info.filename)
                    with wheel.archive.open(info) as file:
                        systems[info.filename] = ", ".join(name_systems(cast("BinaryIO", file)))
                placed += [info.filename] if holds else []
        metadata = [f"{name}: {value}" for name, value in wheel.metadata.items()]
    return {
        "file": path.name,
        "members": members,
        "shipped": shipped,
        "systems": systems,
        "libraries": libraries,
        "metadata": metadata,
        "placed": placed,
    }


def _scan_member(chunks: Iterator[bytes], folders: Sequence[bytes]) -> tuple[str, bool]:
    """Return the hash of a member, and whether it contains the path of one of the folders."""
    longest = max(map(len, folders))
    hashing, holds, before = Hashing(), False, b""
    for chunk in chunks:
        hashing.update(chunk)
        seen = before + chunk
        holds = holds or any(folder in seen for folder in folders)
        before = seen[-longest:]
    return hashing.record_value, holds


def parse_answer(answer: Mapping[str, Any], python: Python) -> Observed:
    """Return the observation in an answer for a cell's Python; a wrong shape is a doubt.

    The project's code could have changed the answer.
    """
    if "stopped" in answer:
        return Observed({}, stopped=True, doubts={str(answer["stopped"]): ""})
    try:
        return _understood(answer, python)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return Observed({}, stopped=True, doubts={"setup.py left an answer that cannot be understood": ""})


def _understood(answer: Mapping[str, Any], python: Python) -> Observed:
    wheel = answer["wheel"] or {}
    doubts = dict(_doubts(answer, wheel))
    failure = None
    if error := answer["error"]:
        failure = Failure(" ".join(f"{error['kind']}: {error['text']}".split())[:400], str(error["place"]))
    commands = [(str(one["object"]), _command(one)) for one in answer["compiles"]]
    own_platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")  # as setuptools names this host's
    *tags, platform = wheel["file"].removesuffix(".whl").split("-")[-3:] if "file" in wheel else ("",)
    tag, is_chosen = "-".join(tags), "get_tag" in answer["asked"] or platform != own_platform
    # A method of the project's own gets the tags of the cell's Python, setuptools those of the Python that runs it.
    own = python.interpreter_tag if "get_tag" in answer["asked"] else f"cp{sys.version_info[0]}{sys.version_info[1]}"
    return Observed(
        asked=_texts(answer["asked"]),
        doubts=doubts,
        before=tuple(map(str, answer["before"] if answer["doubts"] else answer["asked"])),
        opens_network=any(what.startswith(NETWORK) for what in doubts),
        imports=_texts(answer["imports"]),
        failure=failure,
        tag="" if tag.startswith(f"{own}-cp") else tag,
        platform=platform if is_chosen else "",
        is_pure=wheel.get("file", "").endswith("-any.whl"),
        members=tuple(sorted((str(name), str(digest)) for name, digest in wheel.get("members", ()))),
        shipped=tuple(wheel.get("shipped", ())),
        systems={name: of for name, of in _texts(wheel.get("systems", {})).items() if of},
        metadata=tuple(sorted(map(str, wheel.get("metadata", ())))),
        libraries=tuple(_libraries(wheel.get("libraries", {}), answer["links"], commands)),
        commands=tuple(command for _, command in dict.fromkeys(commands)),
        tests=frozenset(_list_tests(answer, wheel)),
        configured=tuple(tuple(map(str, arguments)) for arguments in answer["configured"]),
        generated=_texts(answer["generated"]),
    )


def _list_tests(answer: Mapping[str, Any], wheel: Mapping[str, Any]) -> Iterator[str]:
    """Yield the sources whose objects nobody opens, and nothing links but programs that are not in the wheel.

    A library that is not in the wheel may be a static one, and part of one that is.
    """
    packed = {*wheel.get("libraries", {}).values()}
    links = answer["links"]
    used = {name for at, link in enumerate(links) if at in packed or not link["is_program"] for name in link["objects"]}
    for one in answer["compiles"]:
        if str(one["object"]) not in used and str(one["source"]) not in answer["opened"]:
            yield str(one["source"])


def _texts(table: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in table.items()}


def _doubts(answer: Mapping[str, Any], wheel: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _texts(answer["doubts"]).items()
    for line in answer["own_commands"][:1]:
        yield f"compiles by its own command: {line[:80]}", ""
    for member in wheel.get("placed", ())[:1]:
        yield f"writes the folder of its build into {member}", ""
    for name in BUILDERS:
        if name in answer["asked"] and answer["error"]:
            yield f"fails after it ran {name}, which builds nothing here", ""
    if "broken" in wheel:
        yield f"builds an invalid wheel: {wheel['broken']}", ""
    elif not wheel and not answer["error"]:
        yield "builds no wheel", ""


def _command(one: Mapping[str, Any]) -> Compile:
    """Return one compiler call, without the flags that distutils adds to all calls on this host."""
    flags = (str(flag) for flag in one["flags"])
    kept = dict.fromkeys(flag for flag in flags if flag != "-c" and not flag.startswith("-I<python>"))
    return Compile(str(one["source"]), str(one["compiler"]), tuple(kept))


def _libraries(
    found: Mapping[str, int], links: Sequence[Mapping[str, Any]], commands: Sequence[tuple[str, Compile]]
) -> Iterator[Extension]:
    """Yield each library's parts; an object's command is the last one that compiled it before the link."""
    for member, number in sorted(found.items()):
        link = links[number]
        made = dict(commands[: int(link["compiled"])])
        own = tuple(made[name] for name in link["objects"] if name in made)
        yield Extension(member, own, (*(f"-l{name}" for name in link["libraries"]), *map(str, link["flags"])))


# ---------------------------------------------------------------- the journal

# A journal is a FIFO that every process of the build can write to and none can read. The observer writes a line for
# each event when it happens; so do the Pythons and the compilers that the build starts. The answer is sealed with a
# secret word that only the observer gets. The project's code may write lines too: these add doubts and remove nothing.
ANSWER = re.compile(rb"^answer ([0-9a-f]*) (.*)$", re.MULTILINE)  # its seal and its JSON, parsed if the seal is valid
TABLES = ("asked", "doubts", "imports", "reads")
# Event → the answer's list of such events.
MADE = {"compiled": "compiles", "configured": "configured", "linked": "links"}
MAX_TOLD = 16 << 20  # bytes of the other lines: parsed, they take twenty times as much memory
MAX_LINES = 100_000
MAX_COMMANDS = 100
UNENDED = "starts a Python whose end is not observed"
ELSEWHERE = "compiles in a separate Python"
TAKEN_BACK = "changes the record of its compilations"
FORGED = "writes its own answer"
ENDLESS = "reports more than can be read"


def read_journal(content: bytes, word: str) -> dict[str, Any] | None:
    """Return the journal's answer with the doubts of all its lines, or None without a sealed answer."""
    answer, told = None, JournalEvents()
    for found in ANSWER.finditer(content):
        sealed = _unseal(found[1], found[2], word)
        answer = sealed or answer
        told.tables["doubts"] |= {} if sealed else {FORGED: ""}
    rest = ANSWER.sub(b"", content)
    for line in rest[:MAX_TOLD].split(b"\n", MAX_LINES)[:MAX_LINES]:
        if line:
            told.add(line)
    told.tables["doubts"] |= {ENDLESS: ""} if len(rest) > MAX_TOLD or rest.count(b"\n") > MAX_LINES else {}
    return told.merge_into(answer) if answer else None


def _unseal(seal: bytes, text: bytes, word: str) -> dict[str, Any] | None:
    """Return a line's answer, or None unless its seal was made with the word and its tables can be added to."""
    own = hmac.new(word.encode(), text, hashlib.sha256).hexdigest().encode()
    answer = _object(text) if hmac.compare_digest(own, seal) else None
    return answer if answer and all(isinstance(answer.get(table), dict) for table in TABLES) else None


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


@dataclass
class JournalEvents:
    """The events that a journal's lines report."""

    tables: dict[str, dict[str, str]] = field(default_factory=lambda: {table: {} for table in TABLES})
    began: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    made: Counter[tuple[str, str]] = field(default_factory=Counter)  # (a key of MADE, process) → count
    before: dict[str, tuple[str, ...]] = field(default_factory=dict)  # doubt → the questions asked until then
    commands: list[str] = field(default_factory=list)  # of compilers that the project starts itself

    def add(self, line: bytes) -> None:
        """Record one line; a line that is not a JSON object is a compiler's command."""
        value = _object(line)
        if value is None:
            self.commands += [line.decode(errors="replace")][: MAX_COMMANDS - len(self.commands)]
            return
        for name, table in self.tables.items():
            found = value.get(name)
            for what, place in found.items() if isinstance(found, dict) else ():
                if not table.get(what):
                    table[what] = str(place)
                if name == "doubts":
                    self.before.setdefault(what, tuple(self.tables["asked"]))
        by = str(value.get("by"))
        self.began |= {by} if "began" in value else set()
        self.ended |= {by} if "ended" in value else set()
        self.made.update((what, by) for what in MADE if what in value)

    def merge_into(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Return the answer with the reported events that it leaves out, and what was asked before its first doubt."""
        for name, table in self.tables.items():
            for what, place in table.items():
                answer[name][what] = answer[name].get(what) or place
        for doubt in self._contradictions(answer):
            answer["doubts"].setdefault(doubt, "")
        before = self.before.get(next(iter(answer["doubts"]), ""), answer["asked"])
        return {**answer, "own_commands": self.commands, "before": [*before]}

    def _contradictions(self, answer: dict[str, Any]) -> Iterator[str]:
        if self.began - self.ended:
            yield UNENDED
        if any(by in self.began for _, by in self.made):
            yield ELSEWHERE
        for what, name in MADE.items():
            found = answer.get(name)
            count = sum(times for (made, by), times in self.made.items() if made == what and by not in self.began)
            if not isinstance(found, list) or len(found) != count:
                yield TAKEN_BACK
