"""Runs cmake's configure step for a cell, confined, on a copy of the source, and keeps what it showed.

Its folder has the copy, stand-ins and the cell's builder.
"""

from __future__ import annotations

import functools
import posixpath
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.catalog.accelerators.cuda import cuda_of
from ci_tools.catalog.pinned_tools import PinnedTool, open_tool
from ci_tools.errors import MachineError
from ci_tools.machine.context import Outside
from ci_tools.machine.storage import sha256_of
from ci_tools.model.evidence import Compile
from ci_tools.model.platforms import AcceleratorKind
from ci_tools.model.versions import CudaArch
from ci_tools.observe.cells import TOO_MANY, Spent
from ci_tools.observe.cmake.options import CmakeOption, select_off
from ci_tools.observe.cmake.reply import FACTS, GIT, QUERY, CmakeTarget, TraceFacts, read_targets, read_trace
from ci_tools.observe.laboratory import Laboratory, TrialResult, name_folders_alike
from ci_tools.observe.stage import SourceCopy, write_git
from ci_tools.observe.views import View
from ci_tools.sandbox import Limits, why_not
from ci_tools.sandbox.groups import ForkServer, lend_starter
from ci_tools.sandbox.leftovers import clear, read_safely
from ci_tools.source.checkout import COMMIT_DECIDES

if TYPE_CHECKING:
    from ci_tools.source.backends.cmake_call import CmakeCall
    from ci_tools.source.files import Tree


STAND_INS = Path(__file__).parent / "standins"
SYSTEMS = {"linux": ("Linux", "GNU"), "macos": ("Darwin", "AppleClang"), "windows": ("Windows", "MSVC")}
PROCESSORS = {("macos", "arm64"): "arm64", ("windows", "amd64"): "AMD64"}
# Programs of the builder; none is run by a configure step whose questions the stand-ins answer.
PROGRAMS = ("bin/compiler", "bin/nproc", "bin/python", "cuda/bin/nvcc")
# Folders that the stand-ins name: cmake looks whether they are there.
FOLDERS = (
    *("cuda/include", "cuda/lib64", "python/numpy", "packages/nanobind/include", "packages/pybind11/include"),
    *("packages/torch/include/torch/csrc/api/include", "packages/torch/share/cmake/Torch"),
)
# Torch's libraries, which projects search for by name: its CMake files have no target for torch_python, for one.
TORCH_LIBRARIES = ("c10", "torch", "torch_cpu", "torch_python")
LIBRARY_NAMES = {"linux": "lib%s.so", "macos": "lib%s.dylib", "windows": "%s.lib"}
NINJA = "#!/bin/sh\necho 1.13.0\n"  # cmake itself asks for its version


class ConfigureStage(SourceCopy):
    """The folder in which a project's configure steps are observed."""

    def __init__(self, folder: Path, prefix: str = "") -> None:
        super().__init__(folder, prefix)
        self.build = folder / "build"  # that cmake fills
        self.root = folder / "root"  # the builder: only there cmake finds programs, libraries and packages
        self.trace = folder / "trace"  # that cmake writes
        # The stand-ins and the facts that they answer by; outside the folder that the project can write to.
        self.stand_ins = folder.parent / "standins"

    def set(self, tree: Tree, view: View, no: Sequence[str], *, lends: bool) -> None:
        """Clear the stage, and make it for a view's configure step, whose compiler says no to some questions.

        `lends` says whether the step may read the objects of the source's repository.
        """
        for folder in (self.folder, self.stand_ins):
            clear(folder)
        tree.copy_to(self.source)
        tree.make_checkout(self.source, lends=lends)
        shutil.copytree(STAND_INS, self.stand_ins)
        (self.stand_ins / "facts.cmake").write_text("".join(self._facts(view, no)), encoding="utf-8")
        for name in PROGRAMS if view.accelerator else PROGRAMS[:-1]:
            self._script(name, "#!/bin/sh\nexit 1\n")
        self._script("bin/ninja", NINJA)
        self._script("bin/git", write_git(tree, self.folder))
        for name in FOLDERS:
            (self.root / name).mkdir(parents=True, exist_ok=True)
        for name in (*TORCH_LIBRARIES, *(("c10_cuda", "torch_cuda") if cuda_of(view.accelerator) else ())):
            self._script(f"packages/torch/lib/{LIBRARY_NAMES[view.os] % name}", "")
        query = self.build / QUERY
        query.parent.mkdir(parents=True)
        query.touch()

    def write(self, files: Iterable[tuple[str, str]]) -> None:
        """Write files into the copy of the source, as a build did before it called cmake.

        The build names them, so a name that leads out of the copy is skipped.
        """
        for name, text in files:
            path = (self.source / name).resolve()
            if path.is_relative_to(self.source):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")

    def fill_in(self, text: str) -> str:
        """Return a word of a call of cmake with this stage's folders in place of their names."""
        for name, folder in (
            ("<source>", self.source),
            ("<build>", self.build),
            ("<accelerator>", self.root / "cuda"),
            ("<python>/", f"{self.root}/python/"),
            ("<python>", self.root / "bin" / "python"),
            ("<package>", self.root / "packages"),
            ("<modules>", self.root / "packages"),
            ("<stage>", self.build / "temporary"),
        ):
            text = text.replace(name, str(folder))
        return text

    def _script(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def _facts(self, view: View, no: Sequence[str]) -> Iterator[str]:
        system, compiler = SYSTEMS[view.os]
        version = cuda_of(view.accelerator)
        cuda = f"{version}.0" if version else ""
        facts = {
            "SYSTEM": system,
            "PROCESSOR": PROCESSORS.get((view.os, view.machine.lower()), view.machine),
            "COMPILER": compiler,
            "ROOT": self.root,
            "PACKAGES": self.stand_ins / "packages",
            "PYTHON": view.python.version,
            "FREE_THREADED": "TRUE" if view.python.free_threaded else "",
            "TORCH": view.torch,
            "CUDA": cuda,
            "GENCODES": " ".join(_list_gencodes(view)) if cuda else "",
            "NO": ";".join(no),
        }
        return (f'set(FATWHEEL_{name} "{value}")\n' for name, value in facts.items())


def _list_gencodes(view: View) -> Iterator[str]:
    """Yield the flags that torch's CMake files make of TORCH_CUDA_ARCH_LIST (select_compute_arch.cmake there)."""
    for text in dict(view.env).get("TORCH_CUDA_ARCH_LIST", "").replace(" ", ";").split(";"):
        try:
            arch = CudaArch.parse(text)
        except ValueError:
            continue
        number = str(arch).removesuffix("+PTX").replace(".", "")
        for code in ("sm", "compute") if arch.ptx else ("sm",):
            yield f"-gencode arch=compute_{number},code={code}_{number}"


# ---------------------------------------------------------------- the run

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
            if (its_call, said, _always_asked(earlier)) != (call, no, _always_asked(view)):
                continue
            if all(earlier.fact(name) == view.fact(name) for name in found.facts):
                return found  # it would get the same answers
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
        found = self._read(view, heard, ended.status, log.read_text(encoding="utf-8", errors="replace"))
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

    def _read(self, view: View, heard: TraceFacts, status: int, log: str) -> Configured:
        """Return what a configure step that ended by itself has left."""
        stage, source = self.stage, str(self.stage.source)
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
        own = f"(?!{view.kind.switches})" if view.kind else ""
        every = "|".join(kind.switches for kind in AcceleratorKind.known.values())
        absent = re.compile(rf"{own}(Intel)?({every})(Toolkit)?(_.*)?", re.IGNORECASE)
        if missing := _find_missing(cache, heard.finds, absent):
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


def _find_missing(
    cache: Mapping[str, str], finds: Mapping[str, str], absent: re.Pattern[str]
) -> tuple[str, str] | None:
    """Return the first library, file or package, but for `absent` ones, that was not found, and where it was sought."""
    for variable, value in cache.items():
        asked = variable if variable in finds else variable.removesuffix("_DIR")
        if value.endswith("-NOTFOUND") and asked in finds and not (IDLE.fullmatch(asked) or absent.fullmatch(asked)):
            return asked, finds[asked]
    return None
