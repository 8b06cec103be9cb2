"""Observes what a setuptools project builds for a cell: its code runs confined, on a copy, and compiles nothing.

Every question that the code asks about its machine is answered for the cell and recorded. Cells with the same answers
to all recorded questions get the same build, so one run stands for all of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import sys
import sysconfig
from contextlib import ExitStack
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.errors import InputError, Rejected
from ci_tools.evidence.observe import journal
from ci_tools.evidence.observe.stage import (
    OBSERVER,
    PROGRAMS,
    TOOLS,
    Stage,
    readable,
)
from ci_tools.formats.wheel import Hashing, open_wheel
from ci_tools.machine.sandbox import (
    Limits,
    Verdict,
    run_in_sandbox,
    why_not,
)
from ci_tools.machine.sandbox.leftovers import clear, read_safely
from ci_tools.machine.seals import read_key, seal, unseal
from ci_tools.machine.search_path import compiler_variables
from ci_tools.machine.storage import digest_of, write_atomically
from ci_tools.machine.workplace import workplace
from ci_tools.model.evidence import OWN_SUFFIX, Compile
from ci_tools.model.files import EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ci_tools.evidence.source import Tree
    from ci_tools.machine.context import Outside, Step
    from ci_tools.model.platforms import Accelerator
    from ci_tools.model.versions import Python

__all__ = ["HARMLESS", "SIMULATED", "Failure", "Linked", "Observed", "Observer", "Subject", "View"]

# Build requirements that the observed code can do without, or that have a fake.
SIMULATED = frozenset(
    # ruff: noqa: SIM905 - as words they fit on a page
    "cmake cython ninja numpy oldest-supported-numpy packaging pip psutil pybind11 setuptools toml tomli torch "
    "versioneer wheel".split()
)
# Requirements that add nothing to a wheel except its version, or a file with it.
HARMLESS = frozenset(
    "build click pytest-runner requests setuptools-git-versioning setuptools-scm six tqdm typing-extensions".split()
)
LIMITS = Limits(seconds=60, memory=2 << 30, processes=64, written=2 << 30)
WORD = "FATWHEEL_WORD"  # the observer removes it from its variables before the project's code runs
JOB = {"CMAKE_BUILD_PARALLEL_LEVEL": "1", "MAX_JOBS": "1", "SOURCE_DATE_EPOCH": str(EPOCH)}  # every job sets these
MOST_KEPT = 256 << 20  # bytes
NETWORK = "opens the network"  # the start of that doubt's text
MOST_MARK = 100  # bytes
MARK = re.compile(rb"in place of what would be linked as number (\d{1,6})\n")
ENDED_EARLY = {
    Verdict.TIMED_OUT: f"setup.py ran for over {LIMITS.seconds} seconds",
    Verdict.OUT_OF_MEMORY: f"setup.py took over {LIMITS.memory >> 30} GiB of memory",
    Verdict.TOO_MANY_PROCESSES: f"setup.py started over {LIMITS.processes} processes",
    Verdict.TOO_MUCH_WRITTEN: f"setup.py wrote over {LIMITS.written >> 30} GiB",
}


class View(NamedTuple):
    """All facts that one build is given and may depend on."""

    os: str
    machine: str
    python: Python
    torch: str = ""  # 2.10.0+cu130
    accelerator: Accelerator | None = None
    capability: str = ""  # of the GPU, if any
    env: tuple[tuple[str, str], ...] = ()
    gpu: bool = False
    chance: bool = False  # whether this is the second run: at a later time, with more processors

    def fact(self, name: str) -> object:
        """Return the answer to a question that a build asked."""
        variables = dict(self.env)
        if name.startswith("env:"):
            return variables.get(name.removeprefix("env:"))
        answers: dict[str, object] = {
            "env": self.env,
            "python": self.python.version,
            "free_threaded": self.python.free_threaded,
            "hipify": self.accelerator,
        }
        return answers[name] if name in answers else getattr(self, name)


class Linked(NamedTuple):
    """One linked library: its path in the wheel, its compile commands and its link flags."""

    member: str
    commands: tuple[Compile, ...]
    links: tuple[str, ...]


class Failure(NamedTuple):
    """The error that the build raised, and its place in the project."""

    text: str
    place: str


class Observed(NamedTuple):
    """The questions and actions of one build."""

    asked: Mapping[str, str]  # question → file:line
    stopped: bool = False  # whether it was ended early, or ended Python itself
    doubts: Mapping[str, str] = {}  # question that no cell answers → file:line
    imports: Mapping[str, str] = {}  # module → file:line
    opens_network: bool = False
    failure: Failure | None = None
    tag: str = ""  # interpreter and ABI, `cp310-abi3`; empty: that of the building Python
    is_pure: bool = False  # whether the wheel's tag has the platform `any`
    members: tuple[tuple[str, str], ...] = ()  # path and sha256; libraries have none
    shipped: tuple[str, ...] = ()  # compiled files that this build did not compile
    metadata: tuple[str, ...] = ()  # the fields of METADATA
    libraries: tuple[Linked, ...] = ()
    commands: tuple[Compile, ...] = ()  # every call of a compiler
    generated: Mapping[str, str] = {}  # the sources that the build wrote, with their text


class Subject(NamedTuple):
    """The observed project."""

    tree: Tree
    folder: str  # of the project, below the tree's root
    backend: str
    backend_path: tuple[str, ...]
    provided: tuple[str, ...]  # requirements without a fake
    capped: bool = False  # whether the project asks for an older setuptools than the newest


class Observer:
    """Observes the builds of one project, each only once."""

    def __init__(self, subject: Subject, outside: Outside) -> None:
        self.subject = subject
        self.outside = outside
        self.seen: list[tuple[View, Observed]] = []
        self.runs = 0
        self.shown = ExitStack()  # the step that the user sees once something runs
        self.step: Step | None = None
        self.stage: Stage | None = None
        self.sealing = read_key(outside.environ)
        self.said = False
        self.stopped: Observed | None = None  # a build that did not end by itself: no other is started

    def close(self) -> None:
        """End the step that the user sees, if there is one."""
        if self.step:
            self.step.result(f"{self.runs} build{'' if self.runs == 1 else 's'}")
        self.shown.close()

    def observe(self, view: View) -> Observed:
        """Return the observation of a view's build; runs the build only if no earlier run answers for it."""
        if self.stopped:
            return self.stopped
        for earlier, observed in self.seen:
            if all(view.fact(name) == earlier.fact(name) for name in observed.asked):
                return observed
        observed = self._the_same_again(view, self._load_or_run(view))
        self.seen.append((view, observed))
        self.stopped = observed if observed.stopped else None
        return observed

    def _the_same_again(self, view: View, observed: Observed) -> Observed:
        """Return the observation, with a doubt if the build asks for the time or chance and a second run differs."""
        if "chance" not in observed.asked or observed.doubts or observed.failure:
            return observed
        again = self._load_or_run(view._replace(chance=True))
        if again._replace(asked={}, imports={}) == observed._replace(asked={}, imports={}):
            return observed
        doubt = "decides by the time, by chance or by the number of processors"
        return observed._replace(doubts={doubt: observed.asked["chance"]})

    def _load_or_run(self, view: View) -> Observed:
        """Return the observation that an earlier plan stored, or run the build and store its observation."""
        name = self._key(view)
        path = self.outside.cache.resolve() / "observations" / f"{name}.json"
        kept = read_safely(path, MOST_KEPT)
        answer = unseal(name, kept, self.sealing) if kept is not None else None
        if answer is None:
            self._say_once(f"{path} is not what this user kept there" if kept is not None else "")
            answer = self._run(view)
            if "stopped" not in answer:  # not stored: next time the machine may have more resources free
                with write_atomically(path) as file:
                    file.write(seal(name, answer, self.sealing))
        return _parse_answer(answer)

    def _say_once(self, what: str) -> None:
        """Report once why a build is observed again: a cache that another user filled has many such files."""
        if what and not self.said:
            self.said = True
            self.outside.reporter.say(f"{what}, so what setup.py builds is observed again")

    def _key(self, view: View) -> str:
        subject = self.subject
        tools = (digest_of(OBSERVER), version("setuptools"), version("packaging"), str(sys.version_info[:2]))
        inputs = (subject.tree.sha256, subject[1:], tools, view, self.outside.trusts_source and why_not())
        return hashlib.sha256(repr(inputs).encode()).hexdigest()

    # -- one run

    def _run(self, view: View) -> dict[str, Any]:
        if not self.outside.trusts_source and (reason := why_not()):
            msg = f"what setup.py builds is seen by running it, and this machine cannot confine it: {reason}"
            raise InputError(msg, hint="--trust-source runs it all the same: do so for a source that you trust alone")
        if self.step is None:
            self.step = self.shown.enter_context(self.outside.reporter.step("observe what setup.py builds"))
        self.runs += 1
        if self.stage is None:
            folder = self.shown.enter_context(workplace(self.outside.cache / "stages", clear))
            self.stage = Stage(folder.resolve() / "stage")
        self.stage.set(self.subject.tree, view.accelerator)
        return self._ran(self.stage, view)

    def _ran(self, stage: Stage, view: View) -> dict[str, Any]:
        stage.request.write_text(json.dumps(self._request(stage, view)), encoding="utf-8")
        command: list[str | Path] = [sys.executable, "-s", "-S", "-B", OBSERVER / "__main__.py", stage.request]
        log = stage.folder.parent / "log"
        places = {"HOME": str(stage.home), "TMPDIR": str(stage.scratch)}
        word = secrets.token_hex()
        env = {"PATH": str(stage.tools), "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", **places, WORD: word}
        ended = run_in_sandbox(
            command,
            folder=stage.folder,
            readable=[stage.request, *readable()],
            env=env,
            log=log,
            limits=LIMITS,
            trusted=bool(self.outside.trusts_source and why_not()),
            journal=stage.journal,
        )
        if ended.verdict in ENDED_EARLY:
            return {"stopped": ENDED_EARLY[ended.verdict]}
        answer = journal.read(ended.journal, word)
        if answer is None:
            return {"stopped": f"setup.py ended Python before the build was done (exit status {ended.status})"}
        return {**_same_everywhere(answer, stage), "wheel": _wheel(stage)}

    def _request(self, stage: Stage, view: View) -> dict[str, Any]:
        project = stage.source / self.subject.folder
        home = str(stage.accelerator) if view.accelerator else ""
        path = [str(stage.accelerator / "bin")] if home else []
        own = "" if self.subject.folder in {"", "."} else f"{self.subject.folder}/"
        places = (stage.source, stage.accelerator, stage.wheels, stage.scratch)
        return {
            "path": [str(stage.modules), str(stage.inside / "fakes")],
            "root": str(stage.source),
            "project": str(project),
            "prefix": own,
            "backend": self.subject.backend,
            "backend_path": [str(project / part) for part in self.subject.backend_path],
            "settings": None if self.subject.backend_path else {"--build-option": ["--compression=stored"]},
            "provided": self.subject.provided,
            "wheels": str(stage.wheels),
            "journal": str(stage.journal),
            "facts": {
                **_facts(view),
                "accelerator_home": home,
                "capped": self.subject.capped,
                "tools": sorted(TOOLS),
                "programs": sorted(PROGRAMS),
                "tools_folder": str(stage.tools),
                "python_program": str(stage.tools / "python"),
                "home": str(stage.home),
                "modules": str(stage.modules),
                "around": str(stage.folder.parent),
                "simulated": sorted(SIMULATED | HARMLESS),
                "folders": list(map(str, places)),
            },
            "env": {
                "PATH": os.pathsep.join([*path, str(stage.tools)]),
                "HOME": str(stage.home),
                "TMPDIR": str(stage.scratch),
                "LANG": "C.UTF-8",
                "SETUPTOOLS_EXT_SUFFIX": OWN_SUFFIX,
                "FATWHEEL_TORCH_INCLUDE": str(stage.headers),
                **JOB,
                **_homes(view, home),
                **dict(view.env),
            },
        }


def _facts(view: View) -> dict[str, Any]:
    kind = (
        {"kind": str(view.accelerator.kind), "version": str(view.accelerator.version or "")}
        if view.accelerator
        else None
    )
    return {
        "os": view.os,
        "machine": view.machine,
        "python": str(view.python.version),
        "free_threaded": view.python.free_threaded,
        "torch": view.torch,
        "accelerator": kind or {"kind": "", "version": None},
        "gpu": view.gpu,
        "capability": view.capability,
        "chance": view.chance,
    }


def _homes(view: View, home: str) -> dict[str, str]:
    """Return the variables that a job sets for its accelerator: its home folder, and its compilers' settings."""
    names = {"cuda": "CUDA_HOME", "rocm": "ROCM_HOME", "xpu": "CMPLR_ROOT"}
    return {names[str(view.accelerator.kind)]: home, **compiler_variables(view.accelerator)} if view.accelerator else {}


# ---------------------------------------------------------------- the result of a run


def _same_everywhere(answer: dict[str, Any], stage: Stage) -> dict[str, Any]:
    """Return the answer with this host's folders replaced by names that are the same on every host."""
    text = json.dumps(answer)
    fakes = stage.inside / "fakes"
    for folder, name in (
        (f"{stage.source}/", ""),
        (stage.source, "."),
        (f"{fakes}/", "<package>/"),
        (stage.accelerator, "<accelerator>"),
        (stage.tools / "python", "<python>"),
        (stage.folder, "<stage>"),
        (sysconfig.get_path("stdlib"), "<python>"),
        (sysconfig.get_path("include"), "<python>"),
        (sys.prefix, "<python>"),
        (sys.base_prefix, "<python>"),
    ):
        text = text.replace(json.dumps(str(folder))[1:-1], name)
    same: dict[str, Any] = json.loads(text)
    return same


def _wheel(stage: Stage) -> dict[str, Any] | None:
    """Return the wheel's content, or None without exactly one wheel; notes members that name the build folder."""
    if stage.wheels.resolve() != stage.wheels:
        return None
    wheels = [path for path in stage.wheels.glob("*.whl") if path.is_file() and not path.is_symlink()]
    if len(wheels) != 1:
        return None
    try:
        return _content(wheels[0], str(stage.folder).encode())
    except Rejected as error:
        return {"broken": str(error)}


def _content(path: Path, folder: bytes) -> dict[str, Any]:
    wheel = open_wheel(path)
    members, shipped, libraries, placed = [], [], {}, []
    with wheel.archive:
        for info in wheel.infos:
            if mark := info.file_size < MOST_MARK and MARK.fullmatch(wheel.read(info)):
                libraries[info.filename] = int(mark[1])
            elif not info.filename.startswith(f"{wheel.dist_info}/"):
                digest, holds = _scan_member(wheel.chunks(info), folder)
                members.append((info.filename, digest))
                shipped += [info.filename] if wheel.binary_format(info) else []
                placed += [info.filename] if holds else []
        metadata = [f"{name}: {value}" for name, value in wheel.metadata.items()]
    return {
        "file": path.name,
        "members": members,
        "shipped": shipped,
        "libraries": libraries,
        "metadata": metadata,
        "placed": placed,
    }


def _scan_member(chunks: Iterator[bytes], folder: bytes) -> tuple[str, bool]:
    """Return the hash of a member, and whether it contains the folder's path."""
    hashing, holds, before = Hashing(), False, b""
    for chunk in chunks:
        hashing.update(chunk)
        seen = before + chunk
        holds = holds or folder in seen
        before = seen[-len(folder) :]
    return hashing.record_value, holds


def _parse_answer(answer: Mapping[str, Any]) -> Observed:
    """Return the observation in an answer; the project's code could have changed it, so a wrong shape is a doubt."""
    if "stopped" in answer:
        return Observed({}, stopped=True, doubts={str(answer["stopped"]): ""})
    try:
        return _understood(answer)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return Observed({}, stopped=True, doubts={"setup.py left an answer that cannot be understood": ""})


def _understood(answer: Mapping[str, Any]) -> Observed:
    wheel = answer["wheel"] or {}
    doubts = dict(_doubts(answer, wheel))
    failure = answer["error"] and _failure(answer["error"])
    commands = [(str(one["object"]), _command(one)) for one in answer["compiles"]]
    tag = "-".join(wheel["file"].removesuffix(".whl").split("-")[-3:-1]) if "file" in wheel else ""
    own = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    return Observed(
        asked=_texts(answer["asked"]),
        doubts=doubts,
        opens_network=any(what.startswith(NETWORK) for what in doubts),
        imports=_texts(answer["imports"]),
        failure=failure,
        tag="" if tag.startswith(f"{own}-cp") else tag,
        is_pure=wheel.get("file", "").endswith("-any.whl"),
        members=tuple(sorted((str(name), str(digest)) for name, digest in wheel.get("members", ()))),
        shipped=tuple(wheel.get("shipped", ())),
        metadata=tuple(sorted(map(str, wheel.get("metadata", ())))),
        libraries=tuple(_libraries(wheel.get("libraries", {}), answer["links"], commands)),
        commands=tuple(command for _, command in dict.fromkeys(commands)),
        generated=_texts(answer["generated"]),
    )


def _texts(table: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in table.items()}


def _doubts(answer: Mapping[str, Any], wheel: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _texts(answer["doubts"]).items()
    for line in answer["own_commands"][:1]:
        yield f"compiles by a command of its own: {line[:80]}", ""
    for member in wheel.get("placed", ())[:1]:
        yield f"writes the folder of its build into {member}", ""
    if "broken" in wheel:
        yield f"builds a wheel that is none: {wheel['broken']}", ""
    elif not wheel and not answer["error"]:
        yield "builds no wheel", ""


def _failure(error: Mapping[str, Any]) -> Failure:
    text = " ".join(f"{error['kind']}: {error['text']}".split())
    return Failure(text[:400], str(error["place"]))


def _command(one: Mapping[str, Any]) -> Compile:
    """Return one compiler call, without the flags that distutils adds to all calls on this host."""
    flags = (str(flag) for flag in one["flags"])
    kept = dict.fromkeys(flag for flag in flags if flag != "-c" and not flag.startswith("-I<python>"))
    return Compile(str(one["source"]), str(one["compiler"]), tuple(kept))


def _libraries(
    found: Mapping[str, int], links: Sequence[Mapping[str, Any]], commands: Sequence[tuple[str, Compile]]
) -> Iterator[Linked]:
    """Yield each library's parts; an object's command is the last one that compiled it before the link."""
    for member, number in sorted(found.items()):
        link = links[number]
        made = dict(commands[: int(link["compiled"])])
        own = tuple(made[name] for name in link["objects"] if name in made)
        yield Linked(member, own, (*(f"-l{name}" for name in link["libraries"]), *map(str, link["flags"])))
