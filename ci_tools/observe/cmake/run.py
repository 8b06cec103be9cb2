"""Runs cmake's configure step for a cell, confined, on a copy of the source, and keeps what it showed."""

from __future__ import annotations

import functools
import posixpath
import re
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.catalog.pinned_tools import PinnedTool, open_tool
from ci_tools.errors import MachineError
from ci_tools.machine.storage import sha256_of
from ci_tools.model.evidence import Compile
from ci_tools.observe.cells import TOO_MANY, Spent
from ci_tools.observe.cmake.options import CmakeOption, select_off
from ci_tools.observe.cmake.reply import CmakeTarget, read_targets
from ci_tools.observe.cmake.stage import ConfigureStage
from ci_tools.observe.cmake.trace import FACTS, GIT, TraceFacts, read_trace
from ci_tools.observe.laboratory import Laboratory, TrialResult, name_folders_alike
from ci_tools.sandbox import Limits, why_not
from ci_tools.sandbox.leftovers import read_safely
from ci_tools.sandbox.starter import lend_starter
from ci_tools.source.checkout import COMMIT_DECIDES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ci_tools.machine.context import Outside
    from ci_tools.observe.views import View
    from ci_tools.sandbox.groups import ForkServer
    from ci_tools.source.backends.cmake_call import CmakeCall
    from ci_tools.source.files import Tree

HOME = "cmake/data/"  # of cmake in its wheel
# It is pinned by the catalog, so every machine asks the same one.
NEEDED = re.compile(rf"{HOME}(bin/cmake|share/cmake-[\d.]+/(Modules|Templates)/.*)")
CMAKE = PinnedTool("cmake", "cmake", f"{HOME}bin/cmake", NEEDED)
LIMITS = Limits(seconds=60, memory=2 << 30, processes=16, written=2 << 30)
MAX_TRACE = 256 << 20  # bytes
MAX_CACHE = 64 << 20
MAX_TOLD = 200  # characters of an error
ERROR = re.compile(
    r"""
    ^CMake\ Error (?:
        :[ ]* (?P<line> [^\s][^\n]* )
        | (?: \ (?:at|in)\ (?P<place>[^\n]+?) (?: \ \([^)\n]*\) )? )? :[ ]*\n+ (?P<text>
            (?: [ ]{2,}[^\n]+\n )+
            (?: (?<= :\n ) \n+ (?: [ ]{2,}[^\n]+\n )+ )?  # a name stands apart: "could not find requested file:"
        )
    )
    """,
    re.MULTILINE | re.VERBOSE,
)
SCRIPT = re.compile(r"(?:^|/)CMakeLists\.txt$|\.cmake$")  # files that cmake reads without being told their whole name
# Programs that change no target: where one is missing, a project does without.
IDLE = re.compile(
    r"(?i)(CMAKE|ProcessorCount)_.*|(.*_)?(s?ccache|git|doxygen|sphinx|clang_?(tidy|format)|cppcheck|iwyu)(_.*)?"
)


class Configured(NamedTuple):
    """The result of a configure step: its targets, its questions with their places, and why it shows nothing."""

    targets: tuple[CmakeTarget, ...] = ()
    asked: tuple[tuple[str, str], ...] = ()  # in order
    doubt: str = ""
    failure: str = ""  # why it ends in an error; a check's other answer may not
    archs: str = ""  # the last line that names GPU architectures
    kernels: tuple[tuple[str, str], ...] = ()  # what compiles kernels of CUDA, or enables it, by its line
    off: tuple[CmakeOption, ...] = ()  # options that may turn such kernels on

    @property
    def facts(self) -> tuple[str, ...]:
        """The questions about the cell."""
        return tuple(name for name, _ in self.asked if name in FACTS)

    @property
    def checks(self) -> dict[str, str]:
        """The questions about the builder's compiler."""
        return {name: place for name, place in self.asked if name not in FACTS}


class Configurer(Laboratory):
    """Observes the configure steps of one project, each only once."""

    code, task, unit, store = "cmake's configure step", "observe what cmake configures", "run", "configured"

    def __init__(self, tree: Tree, folder: str, outside: Outside, spent: Spent | None = None) -> None:
        super().__init__(tree, outside, LIMITS, spent)
        self.project = folder
        self.seen: list[tuple[View, CmakeCall, tuple[str, ...], Configured]] = []
        self.stopped: Configured | None = None  # a step that did not end by itself: no other is started
        self.lines_of = functools.cache(lambda file: tree.text(file).splitlines())

    def script_of(self, call: CmakeCall) -> str:
        """Return the path of the first file that cmake reads."""
        return posixpath.normpath(f"{self.project or '.'}/{call.folder}/CMakeLists.txt")

    def configure(self, view: View, call: CmakeCall, no: tuple[str, ...] = ()) -> Configured:
        """Return what the configure step shows for a view, with a compiler that says no to some questions."""
        if self.stopped:
            return self.stopped
        for earlier, its_call, said, found in self.seen:
            if (its_call, said) == (call, no) and _is_alike(earlier, view, found):
                return found
        if not self.spent.spend():
            return Configured(doubt=f"{self.code} {TOO_MANY}")
        facts = (*_always_asked(view), view.python, view.torch)
        inputs = (self.project, CMAKE.version, _identify_observer(), facts, call, no)
        shown = self.recall(inputs, partial(self._run, view, call, no))
        found = _parse(shown.answer)
        self.seen.append((view, call, no, found))
        self.stopped = found if shown.stopped else None
        return found

    def _list_read(self, words: Iterable[str]) -> list[str]:
        """Return the files that cmake may have read: its scripts, and those that a word names in whatever folder."""
        named = {posixpath.basename(word) for word in words}
        told = [COMMIT_DECIDES] if GIT in named else []
        return told + [name for name in self.tree.files if posixpath.basename(name) in named or SCRIPT.search(name)]

    @cached_property
    def stage(self) -> ConfigureStage:
        """The folder in which the steps are observed."""
        return ConfigureStage(self.folder / "stage", self.tree.prefix)

    @cached_property
    def cmake(self) -> Path:
        """The folder of cmake, whose wheel is fetched once from the user's package index, and unpacked in the cache.

        Raises MachineError if the catalog has no cmake for this machine, or if the index does not answer.
        """
        try:
            return open_tool(CMAKE, self.outside)
        except MachineError as error:
            msg = f"{self.code} cannot be observed: {error.message}"
            raise MachineError(msg, hint=error.hint, page=error.page) from error

    @cached_property
    def starter(self) -> ForkServer | None:
        """The process that the steps are forked from; None where this machine confines no process."""
        return None if why_not() else self.open.enter_context(lend_starter())

    def _run(self, view: View, call: CmakeCall, no: tuple[str, ...]) -> TrialResult:
        """Run a configure step; return what it showed, and the files that it may have read."""
        cmake, stage = self.cmake, self.stage
        stage.set(self.tree, view, no, lends=self.stores is not None)
        stage.write(call.written)
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        ended = self.run(
            [cmake / CMAKE.program, *self._arguments(stage, call)],
            folder=stage.folder,
            readable=[cmake, stage.stand_ins],
            env={
                "PATH": f"{stage.root}/bin",
                "HOME": str(stage.folder),
                "LANG": "C.UTF-8",
                "SOURCE_DATE_EPOCH": "315532800",
                **({"CUDA_HOME": f"{stage.root}/cuda"} if view.accelerator else {}),  # CUDA: see the witness
                **{name: stage.fill_in(value) for name, value in call.env},
            },
            log=log,
            server=self.starter,
        )
        stopped = self.explain_end(ended.verdict)
        trace = None if stopped else read_safely(stage.trace, MAX_TRACE)
        if trace is None:
            found = Configured(doubt=stopped or "cmake's configure step left no trace that can be read")
            return TrialResult(found._asdict(), stopped=True)
        own = (stage.folder, stage.stand_ins, cmake)
        heard = read_trace(trace.splitlines(), str(stage.source), tuple(map(str, own)), self.line_of)
        found = self._read(stage, heard, ended.status, log.read_text(encoding="utf-8", errors="replace"))
        places = {f"{stage.source}/": "", stage.source: ".", stage.build: "<build>", stage.root: "<builder>"}
        places |= {stage.stand_ins: "<package>", cmake: "<cmake>"}
        return TrialResult(name_folders_alike(found._asdict(), places), self._list_read(heard.read))

    def _arguments(self, stage: ConfigureStage, call: CmakeCall) -> list[str]:
        return [
            *("-S", str(stage.source / self.project / call.folder), "-B", str(stage.build), "-G", "Ninja"),
            f"-DCMAKE_MAKE_PROGRAM={stage.root}/bin/ninja",
            f"-DCMAKE_TOOLCHAIN_FILE={stage.stand_ins}/builder.cmake",
            f"-DCMAKE_PROJECT_TOP_LEVEL_INCLUDES={stage.stand_ins}/world.cmake",
            f"-DCMAKE_INSTALL_PREFIX={stage.build}/install",
            *("-Wno-author", "-Wno-unused-cli"),
            f"-DPython_EXECUTABLE={stage.root}/bin/python",
            f"-DPython3_EXECUTABLE={stage.root}/bin/python",
            "--trace-expand",
            "--trace-format=json-v1",
            f"--trace-redirect={stage.trace}",
            *(stage.fill_in(one) for one in call.arguments),
        ]

    def _read(self, stage: ConfigureStage, heard: TraceFacts, status: int, log: str) -> Configured:
        """Return what a configure step that ended by itself has left."""
        source = str(stage.source)
        cache = _read_cache(read_safely(stage.build / "CMakeCache.txt", MAX_CACHE) or b"")
        found = Configured(
            asked=tuple(heard.asked.items()),
            kernels=tuple(heard.kernels.items()),
            off=tuple(select_off(heard.options, {**cache, **heard.values})),
        )
        for what, place in heard.doubts.items():
            return found._replace(doubt=f"{place}: cmake's configure step {what}".removeprefix(": "))
        if status:
            return found._replace(failure=_describe_error(log, source, heard.end))
        if missing := _find_missing(cache, heard.finds):
            name, place = missing
            return found._replace(doubt=f"{place}: what cmake compiles may depend on whether it finds {name}")
        targets = read_targets(stage.build, source)
        if targets is None:
            return found._replace(doubt="cmake left no reply that can be read")
        return found._replace(targets=targets, archs=heard.archs.get("last", ""))

    def line_of(self, place: str) -> str:
        """Return the text of a line of the source; "" if there is no such line."""
        file, _, number = place.rpartition(":")
        lines = self.lines_of(file)
        return lines[int(number) - 1] if 0 < int(number) <= len(lines) else ""


@functools.cache
def _identify_observer() -> tuple[str, ...]:
    """Return the hashes of the observer's own files: another observer may see something else."""
    files = (path for path in Path(__file__).parent.rglob("*") if path.suffix in {".cmake", ".py"})
    return tuple(sha256_of(path) for path in sorted(files))


def _is_alike(earlier: View, view: View, found: Configured) -> bool:
    """Whether a view's configure step gets the answers of an earlier one."""
    return _always_asked(earlier) == _always_asked(view) and all(
        earlier.fact(name) == view.fact(name) for name in found.facts
    )


def _always_asked(view: View) -> tuple[object, ...]:
    """Return the facts that cmake itself reads for every project."""
    return view.os, view.machine, view.accelerator, view.python.free_threaded, view.env


def _parse(entry: Mapping[str, Any]) -> Configured:
    targets = tuple(
        CmakeTarget(a, b, c, tuple(Compile(x, y, tuple(z)) for x, y, z in compiles), tuple(links), tuple(needs), own)
        for a, b, c, compiles, links, needs, own in entry["targets"]
    )
    return Configured(
        targets,
        tuple((name, place) for name, place in entry["asked"]),
        str(entry["doubt"]),
        str(entry["failure"]),
        str(entry["archs"]),
        tuple((what, place) for what, place in entry["kernels"]),
        tuple(CmakeOption(*one) for one in entry["off"]),
    )


def _describe_error(log: str, source: str, end: str) -> str:
    """Return the first error of a configure step, and its place: in the project, whose last line was `end`."""
    found = ERROR.search(log)
    text = " ".join((found["line"] or found["text"] if found else "it gives no reason").split())
    named = (found["place"] or "") if found else ""
    place = named.removeprefix(f"{source}/") if named.startswith(source) or not named.startswith("/") else end
    return f"{place or end}: cmake's configure step fails: {text[:MAX_TOLD]}".removeprefix(": ")


def _read_cache(cache: bytes) -> dict[str, str]:
    """Return the variables in cmake's cache."""
    lines = (line.partition("=") for line in cache.decode(errors="replace").splitlines())
    return {name.partition(":")[0]: value for name, equals, value in lines if equals}


def _find_missing(cache: Mapping[str, str], finds: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the first library, file or package that was searched for and not found, and the place of the search."""
    for variable, value in cache.items():
        asked = variable if variable in finds else variable.removesuffix("_DIR")
        if value.endswith("-NOTFOUND") and asked in finds and not IDLE.fullmatch(asked):
            return asked, finds[asked]
    return None
