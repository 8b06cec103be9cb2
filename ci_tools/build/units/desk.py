"""Answers the launchers of one build: takes the objects of its units from the store, or lets them be compiled."""

from __future__ import annotations

import json
import logging
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.build.shards.listing import ListedBuild
from ci_tools.build.units import manifests
from ci_tools.build.units.calls import LINK, CompilerCall, read_call, read_link
from ci_tools.build.units.gate import STARVED, Gate, TimeIsUp
from ci_tools.build.units.launcher import receive, send
from ci_tools.build.units.manifests import Digests, FolderNames
from ci_tools.build.units.passes import ERROR, SAID, TRACE, Preprocessor, RanProgram, UnitText, read_lookups
from ci_tools.build.units.report import COMPILED, FAILED, LEFT, PLAIN, SAME_TEXT, UNCHANGED, UnitReport, UnitRun
from ci_tools.build.units.seeds import Seeds, Shims, digest_value
from ci_tools.build.units.store import UnitCost, UnitStore, keep_cost, name_object
from ci_tools.errors import Rejected

if TYPE_CHECKING:
    import socket


LOG = logging.getLogger(__name__)
FIRST = "first"
TRACED = "FATWHEEL_UNITS_TRACE"  # the variable of what a launcher runs: the file for trace.c, if it is traced
REFUSED = b"fatwheel: it is not compiled any more, as the time limit is near\n"
FORMAT = "4"  # of what the store holds: another one is not taken
# Variables with options for nvcc's programs, which it does not show among its words (nvcc.profile).
OPTIONS = ("CUDAFE_FLAGS", "CICC_FLAGS", "PTXAS_FLAGS", "OPENCC_FLAGS", "NVVMIR_LIBRARY_DIR")
# Variables that compilers read, beside those that change which programs they call (gcc(1), nvcc.profile).
VARIABLES = (
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "SOURCE_DATE_EPOCH"),
    *("LANG", "LC_ALL", "LC_MESSAGES", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN"),
    *("LIBRARY_PATH", "LD_RUN_PATH", "LDEMULATION", "GNUTARGET"),
    *("INCLUDES", "SYSTEM_INCLUDES", "LD_LIBRARY_PATH", *OPTIONS),
)


class StoredUnit(NamedTuple):
    """The files that a compiler made of a unit, and the text that it printed."""

    content: bytes
    dependencies: bytes
    said: bytes
    errors: bytes
    output: str  # the names that are in the dependencies
    site: str
    seconds: float  # of processor time that the compiler took

    def pack(self) -> bytes:
        """Return it as bytes."""
        parts = (self.content, self.dependencies, self.said, self.errors)
        head = [[len(part) for part in parts], self.output, self.site, self.seconds]
        return json.dumps(head).encode() + b"\n" + b"".join(parts)


def unpack(packed: bytes) -> StoredUnit:
    """Return what `StoredUnit.pack` wrote."""
    head, _, rest = packed.partition(b"\n")
    sizes, *others = json.loads(head)
    ends = [*accumulate(sizes, initial=0)]
    content, dependencies, said, errors = (rest[start:end] for start, end in pairwise(ends))
    return StoredUnit(content, dependencies, said, errors, *others)


class LauncherLine(NamedTuple):
    """The connection to one launcher."""

    line: socket.socket
    environ: Mapping[str, str]  # of the programs that it runs
    tracer: Path | None

    def run(self, words: Sequence[str], place: Path, trace: Path | None) -> RanProgram:
        """Let the launcher run a program (see `passes.Run`)."""
        loaded = f"{self.tracer} {self.environ.get('LD_PRELOAD', '')}".strip()
        told = {TRACED: str(trace or ""), **({"LD_PRELOAD": loaded} if trace and self.tracer else {})}
        self._ask(b"run", words, place, told)
        began = time.monotonic()
        status, microseconds, kib = map(int, receive(self.line))
        return RanProgram(status, UnitCost(time.monotonic() - began, microseconds / 1e6, kib << 10))

    def refuse_gone(self) -> None:
        """Raise EOFError if the launcher has ended; it says nothing before it is asked."""
        if select.select([self.line], [], [], 0)[0]:
            raise EOFError

    def execute(self, words: Sequence[str]) -> None:
        """Let the launcher become a program."""
        self._ask(b"exec", words, Path(os.devnull), {})

    def end(self, status: int, said: bytes, errors: bytes) -> None:
        """Let the launcher end."""
        send(self.line, [b"done", b"%d" % status, said, errors])

    def _ask(self, kind: bytes, words: Sequence[str], place: Path, told: Mapping[str, str]) -> None:
        path = self.environ["PATH"]
        program = shutil.which(words[0], path=path) or words[0]
        variables = [f"{name}={value}" for name, value in {"PATH": path, **told}.items()]
        fields = [f"{place}{SAID}", f"{place}{ERROR}", str(len(variables)), *variables, program, *words[1:]]
        send(self.line, [kind, *map(os.fsencode, fields)])


class _Work(NamedTuple):
    """A call that compiles: its launcher, the words that it gets beside its own, and a folder for its files."""

    asked: LauncherLine
    call: CompilerCall
    further: Sequence[str]
    folder: Path
    began: int  # nanoseconds since 1970

    def compile(self, trace: Path | None) -> RanProgram:
        """Let the compiler run, and record what it looks for if there is a file for that."""
        words = [str(self.call.program), *self.call.words, *self.further]
        return self.asked.run(words, self.folder / "compiler", trace)

    def read_output(self) -> tuple[bytes, bytes]:
        """Return the text that the compiler printed, and its errors."""
        said, errors = ((self.folder / f"compiler{suffix}").read_bytes() for suffix in (SAID, ERROR))
        return said, errors


class _StoreAnswer(NamedTuple):
    """A unit's object, how it was found, or why not; the seconds of preprocessing, and the key to store it under."""

    stored: StoredUnit | None = None
    how: str = ""
    why: str = ""
    seconds: float = 0.0
    key: str = ""
    read: frozenset[str] = frozenset()  # the files of a text that was made before the compiler runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Answers the launchers of one build. `programs` has the compiler that each of them stands for."""

    links: Path  # the folder of the host compilers' launchers
    programs: Mapping[str, Path]
    seeds: Seeds
    store: UnitStore | None
    files: Digests
    preprocessor: Preprocessor
    tracer: Path | None
    folder: Path  # for what a call needs while it runs
    report: UnitReport
    gate: Gate
    shims: Shims
    listing: ListedBuild | None = None  # of a build that compiles only some of its units

    def answer(self, line: socket.socket) -> None:
        """Answer one launcher until its call has ended; after an error here, the compiler runs as it was called."""
        name, cwd, count, *rest = map(os.fsdecode, receive(line))
        program, given = self._find_program(Path(cwd) / name), [self._find_real(word) for word in rest[: int(count)]]
        environ = dict(variable.split("=", 1) for variable in rest[int(count) :])
        folders = environ.get("PATH", os.defpath).split(os.pathsep)
        environ["PATH"] = os.pathsep.join(one for one in folders if one != str(self.links))
        asked = LauncherLine(line, environ, self.tracer)
        try:
            given = self.shims.add_to(read_call(program, given, Path(cwd), environ), given)
        except Rejected as error:
            asked.end(1, b"", f"fatwheel: {error}\n".encode())
            return
        call = read_call(program, given, Path(cwd), environ)
        plain = CompilerCall(program, tuple(given), Path(cwd), environ)
        try:
            if self.listing and self.listing.stand_in(plain, call, self.seeds, self.folder):
                asked.end(0, b"", b"")
                return
            self._answer_call(asked, call, plain)
        except (EOFError, ConnectionError):
            raise
        except Exception as error:
            LOG.exception("a compiler call")
            if call:
                self.report.add(call, PLAIN, why=f"{type(error).__name__}: {error}")
            asked.execute([str(program), *given])  # no fault in here may fail a build

    def _find_program(self, name: Path) -> Path:
        """Return the compiler that a launcher stands for, which may be called by a link to it under another name."""
        while name.name not in self.programs and name.is_symlink():
            name = name.parent / name.readlink()
        return self.programs[name.name]

    def _find_real(self, word: str) -> str:
        """Return a word with the compiler in place of its launcher, as nvcc would call that for each of its steps."""
        before, _, name = word.rpartition(f"{self.links}/")
        return f"{before}{self.programs[name]}" if name in self.programs and name != word else word

    def _answer_call(self, asked: LauncherLine, call: CompilerCall | None, plain: CompilerCall) -> None:
        made = call or read_link(plain)
        if not made or TRACED in asked.environ:  # the compiler that called this one has its seed, its memory, its trace
            asked.execute([str(plain.program), *plain.words])
            return
        kept = self.folder / "kept" / self.seeds.seed(made)  # the same path every time: debug information may name it
        further = [*self.seeds.list_words(made, kept)]
        with tempfile.TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as folder:
            self._take_or_make(_Work(asked, made, further, Path(folder), time.time_ns()))
        shutil.rmtree(kept, ignore_errors=True)

    def _take_or_make(self, work: _Work) -> None:
        """Give a unit its object from the store, or a link its file, or let the compiler run."""
        call, began = work.call, time.thread_time()
        store = self.store if not (self.listing and call.language == LINK) else None
        found = self._find(work, store) if store and not call.plain else _StoreAnswer(why=call.plain)
        asking = time.thread_time() - began + found.seconds
        run = UnitRun(self.seeds.name(call), work.began / 1e9)
        if found.stored:
            _put(found.stored, call, self.seeds.site)
            self._note(call, found.key)
            self.report.add(call, found.how, asking=asking, run=run)
            work.asked.end(0, found.stored.said, found.stored.errors)
            return
        trace = work.folder / f"compiler{TRACE}" if found.how == FIRST else None
        if trace:
            trace.touch()
        try:
            ran, run = self._compile(work, trace, run)
        except TimeIsUp:
            self.report.add(call, LEFT, run=run)
            work.asked.end(1, b"", REFUSED)
            return
        if trace and store and not ran.status:
            found = self._record_made(work, store, trace)
            asking = time.thread_time() - began + found.seconds
        if store and found.key and not ran.status and all(self.files.changed(one) < work.began for one in found.read):
            self._keep(work, found.key, ran.seconds, store)
            self._note(call, found.key)
        how = FAILED if ran.status else COMPILED if found.key or not found.why else PLAIN
        if store and not ran.status:
            keep_cost(run.name, ran.cost, store)
        self.report.add(call, how, found.why, asking, run)
        work.asked.end(ran.status, *work.read_output())

    def _keep(self, work: _Work, key: str, seconds: float, store: UnitStore) -> None:
        """Write what a compiler or a linker made into the store."""
        call, (said, errors) = work.call, work.read_output()
        content = (call.cwd / call.output).read_bytes()
        dependencies = (call.cwd / call.dependencies).read_bytes() if call.dependencies else b""
        made = StoredUnit(content, dependencies, said, errors, call.output, self.seeds.site, seconds)
        store.write(name_object(key), made.pack())

    def _note(self, call: CompilerCall, key: str) -> None:
        if self.listing:
            self.listing.done[self.seeds.seed(call)] = name_object(key)

    def _compile(self, work: _Work, trace: Path | None, run: UnitRun) -> tuple[RanProgram, UnitRun]:
        """Let the compiler run once it may, and a second time with nothing beside it if it had too little memory."""
        if work.call.language == LINK:  # it waits for no memory
            ran = work.compile(trace)
            return ran, run._replace(cost=ran.cost)
        for alone in (False, True):
            with self.gate.enter(run.name, work.call, work.asked.refuse_gone, alone=alone) as waited:
                if alone:
                    work.asked.refuse_gone()  # its build was stopped, and so was the compiler
                    self.report.starved.add(self.report.name_source(work.call))
                ran = work.compile(trace)
            run = run._replace(waited=run.waited + waited, cost=ran.cost)
            if not ran.status:
                self.gate.learn(work.call, ran.cost)
                break
            # The kernel ends a program that takes too much memory by this signal.
            if ran.status != -signal.SIGKILL and not STARVED.search(b"".join(work.read_output())):
                break
        return ran, run

    def _find(self, work: _Work, store: UnitStore) -> _StoreAnswer:
        """Look for what a unit or a link makes: by the files that it read before, then by a unit's text."""
        call = work.call
        told, names, unit = self._tell(call), self.seeds.names_of(call), self.seeds.name(call)
        key, stored = self._find_unchanged(unit, digest_value(told), names, store)
        if stored:
            return _StoreAnswer(stored, UNCHANGED, key=key)
        is_new = call.is_nvcc and self.tracer and not [*store.list_names(f"{manifests.MANIFESTS}/{unit}")]
        if is_new or call.language == LINK:
            return _StoreAnswer(how=FIRST)
        known = manifests.load_all(unit, store)
        why = next((manifests.explain(one, told, names, self.files, store) for one in known), "")
        named = self._record_made(work, store)
        return named if named.why else named._replace(stored=read_object(named.key, store), how=SAME_TEXT, why=why)

    def _record_made(self, work: _Work, store: UnitStore, trace: Path | None = None) -> _StoreAnswer:
        """Return the key of what is made, and record what it read; a `trace` has that of a link, or of nvcc's first."""
        call = work.call
        if trace and call.language == LINK:
            lookups, seconds = read_lookups(trace, call, self.folder), 0.0
            key = digest_value([self._tell(call), [self.files.digest(path) for path in sorted(lookups.read)]])
        else:
            text = self.preprocessor.read(call, work.further, work.asked.run, work.folder, trace)
            if text.plain:
                return _StoreAnswer(why=text.plain, seconds=text.seconds)
            lookups, seconds, key = text.lookups, text.seconds, self._key(call, text)
        is_reliable = manifests.is_reliable(lookups, call, self.files, work.began - manifests.LAG)
        if is_reliable:
            told, names = self._tell(call), self.seeds.names_of(call)
            made = manifests.record(key, digest_value(told), told, lookups, names, self.files)
            manifests.save(made, self.seeds.name(call), names, store)
        return _StoreAnswer(key=key if is_reliable or call.language != LINK else "", seconds=seconds, read=lookups.read)

    def _tell(self, call: CompilerCall) -> dict[str, str]:
        """Return everything that decides a compiler's work, in words that are the same for another Python."""
        names = self.seeds.names_of(call)
        return {
            "format": FORMAT,
            "compiler": self.files.identify(call),
            "program": f"{call.program.name} {call.language} {call.sources[0]}",
            "options": " ".join(call.flags),
            "macros": " ".join(call.macros),
            "include folders": " ".join(names.shorten(os.path.join(call.cwd, one)) for one in call.folders),  # noqa: PTH118
            "source": names.shorten(str(call.source)),
            "seed": self.seeds.seed(call),
            "variables": " ".join(f"{name}={call.environ[name]}" for name in VARIABLES if name in call.environ),
            "folder": " ".join(_list_places(call)),
        }

    def _key(self, call: CompilerCall, text: UnitText) -> str:
        """Return the name of a unit's object."""
        places = _list_places(call)
        told = (FORMAT, self.files.identify(call), self.seeds.seed(call), call.program.name, call.language)
        options = [f"{name}={call.environ[name]}" for name in OPTIONS if name in call.environ]
        return digest_value([*told, *call.flags, *options, *places, text.digest])

    def _find_unchanged(
        self, unit: str, digest: str, names: FolderNames, store: UnitStore
    ) -> tuple[str, StoredUnit | None]:
        """Return the key and the object of a unit that reads what it read before; None if that is not known."""
        for found in manifests.load_all(unit, store, digest):
            if not manifests.find_change(found, names, self.files):
                return found.key, read_object(found.key, store)
        return "", None


def _list_places(call: CompilerCall) -> tuple[str, str]:
    """Return the paths that get into an object: nvcc hashes its source's into symbols, debug information names one."""
    source = str(call.source.resolve()) if call.is_nvcc and call.language != LINK else ""
    return source, str(call.cwd) if call.has_lines else ""


def read_object(key: str, store: UnitStore) -> StoredUnit | None:
    """Return what the store has for a key; None if there is nothing."""
    packed = store.read(name_object(key))
    return unpack(packed) if packed is not None else None


def _put(stored: StoredUnit, call: CompilerCall, site: str) -> None:
    """Write a stored object, and the list of its headers, where the compiler would."""
    (call.cwd / call.output).unlink(missing_ok=True)
    (call.cwd / call.output).write_bytes(stored.content)
    if call.language == LINK:
        (call.cwd / call.output).chmod(0o755)  # a linker makes programs and libraries so
    if call.dependencies:
        names = {stored.output: call.output, stored.site: site}
        content = stored.dependencies
        for before, now in names.items():
            content = content.replace(os.fsencode(before), os.fsencode(now))
        (call.cwd / call.dependencies).write_bytes(content)
