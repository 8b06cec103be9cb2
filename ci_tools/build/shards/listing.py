"""Lists the units of a build without compiling them: each becomes an empty object, so that the build runs through.

A shard's own units are compiled, and the others are empty. A stand-in also takes the place of a link of empty objects:
an empty library, or a program that records that it was run, as such a build cannot be listed.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.build.units.calls import COMPILES, CUDA, LANGUAGES, LINKING, NO_UNIT, PROBES, CompilerCall, expand_words
from ci_tools.build.units.manifests import find_host_compiler
from ci_tools.machine.process import output

if TYPE_CHECKING:
    from ci_tools.build.units.seeds import Seeds

OF_THE_BUILD = ("<source>", "<here>")  # the source of a probe is elsewhere
OBJECT, LIBRARY, ARCHIVES = ("-c",), ("-shared",), (".a", ".lib")
LINKED = (".o", ".obj", ".lo", ".so", *ARCHIVES)
DEVICE_LINK = {"-dlink", "--device-link", "-r"}
PROGRAM = """\
#!/bin/sh
echo {name} >> {ran}
echo {name} is a program of the build itself, and not compiled yet >&2
exit 96
"""
INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)


class ListedUnit(NamedTuple):
    """A unit of a build: its seed tells it from the others, and its cost is kept by its name."""

    seed: str
    name: str
    source: str  # its path in the source, or in the folder that it is compiled in
    text: int  # bytes of its source and of the project's headers that it includes
    is_device: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedBuild:
    """The units of one build so far; `own` has the seeds of those that it compiles."""

    own: frozenset[str] = frozenset()
    units: dict[str, ListedUnit] = field(default_factory=dict)
    done: dict[str, str] = field(default_factory=dict)  # of its own units: the names of their objects in the store
    others: set[str] = field(default_factory=set)  # sources that are compiled as they are, which the link does
    ran: list[str] = field(default_factory=list)  # programs of the build itself that it ran
    _stand_ins: set[str] = field(default_factory=set)
    _empty: dict[tuple[Path, tuple[str, ...]], bytes] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _texts: dict[str, tuple[int, list[str]]] = field(default_factory=dict)

    def stand_in(self, asked: CompilerCall, call: CompilerCall | None, seeds: Seeds, folder: Path) -> bool:
        """Put a stand-in for what a program would make, and return True; False if the program has to run.

        `asked` has only the words of the program, and `call` is what they mean if it compiles. `folder` is for files
        of this listing.
        """
        if call and COMPILES & {*call.words}:
            return self._compile(call, seeds, folder)
        return self._link(asked, seeds, folder)

    def read_ran(self, folder: Path) -> None:
        """Take over which programs of the build itself were run."""
        if (record := folder / "ran").is_file():
            self.ran.extend(dict.fromkeys(record.read_text(encoding="utf-8").splitlines()))

    def _compile(self, call: CompilerCall, seeds: Seeds, folder: Path) -> bool:
        source = seeds.names_of(call).shorten(os.path.normpath(call.source))
        if not call.output or len(call.sources) != 1 or not source.startswith(OF_THE_BUILD):
            return False
        path, seed = source.partition("/")[2], seeds.seed(call)
        if call.plain:  # the link compiles it, whatever reads it
            self.others.add(path)
        elif seed not in self.units:
            text = self._measure(str(call.source), [*map(str, _list_folders(call, seeds))])
            self.units[seed] = ListedUnit(seed, seeds.name(call), path, text, call.source.suffix in CUDA)
        made = os.path.normpath(call.cwd / call.output)
        if not call.plain and seed in self.own:
            self._stand_ins.discard(made)
            return False
        if call.dependencies:  # make and ninja look for the list
            (call.cwd / call.dependencies).write_text(f"{call.output}: {call.sources[0]}\n", encoding="utf-8")
        return self._put(made, OBJECT, call, folder)

    def _link(self, asked: CompilerCall, seeds: Seeds, folder: Path) -> bool:
        words = [*expand_words(asked.words, asked)]
        at = words.index("-o") + 1 if "-o" in words else len(words)
        asks = {word for word in words if NO_UNIT.fullmatch(word)} - LINKING
        if at >= len(words) or asks or PROBES.search(f"{asked.cwd} {' '.join(words)}"):
            return False
        inputs = [os.path.normpath(asked.cwd / word) for word in words if Path(word).suffix in (*LINKED, *LANGUAGES)]
        if not any(self._is_empty(path, asked, seeds) for path in inputs):  # of real objects only, it is a real link
            return False
        made = os.path.normpath(asked.cwd / words[at])
        if {"-shared", "--shared"} & {*words}:
            return self._put(made, LIBRARY, asked, folder)
        if DEVICE_LINK & {*words}:
            return self._put(made, OBJECT, asked, folder)
        name = seeds.names_of(asked).shorten(made).partition("/")[2] or made  # it may be outside of the source
        self._write(made, PROGRAM.format(name=shlex.quote(name), ran=shlex.quote(str(folder / "ran"))).encode())
        Path(made).chmod(0o755)
        return True

    def _is_empty(self, path: str, asked: CompilerCall, seeds: Seeds) -> bool:
        """Whether a file that is linked is a stand-in, has one inside, or is a source of the build."""
        is_ours = seeds.names_of(asked).shorten(path).startswith(OF_THE_BUILD)
        if Path(path).suffix in LANGUAGES:
            return is_ours
        if Path(path).suffix in ARCHIVES and is_ours and Path(path).is_file():
            content = Path(path).read_bytes()
            return any(empty in content for empty in self._empty.values())
        return path in self._stand_ins

    def _put(self, made: str, kind: tuple[str, ...], call: CompilerCall, folder: Path) -> bool:
        """Write an empty object or library of the compiler's; return False if it cannot make one."""
        program = find_host_compiler(call) if call.is_nvcc else call.program
        with self._lock:  # many launchers ask at a time
            if (program, kind) not in self._empty:
                place = folder / f"empty-{len(self._empty)}"
                words: list[str | Path] = [program, *kind, "-x", "c", os.devnull, "-o", place]  # an empty text of C
                if output(words, env=call.environ) is None:
                    return False
                self._empty[program, kind] = place.read_bytes()
        self._write(made, self._empty[program, kind])
        return True

    def _write(self, made: str, content: bytes) -> None:
        Path(made).unlink(missing_ok=True)  # it may be a link
        Path(made).write_bytes(content)
        self._stand_ins.add(made)

    def _measure(self, source: str, folders: Sequence[str]) -> int:
        """Return the bytes of a source and of what it includes of the project."""
        seen, left = {source}, [source]
        while left:  # headers may include each other
            path = left.pop()
            for name in self._read(path)[1]:
                places = (os.path.normpath(f"{place}/{name}") for place in (Path(path).parent, *folders))
                found = next(filter(os.path.isfile, places), source)
                left += [found] if found not in seen else []
                seen.add(found)
        return sum(self._read(path)[0] for path in seen)

    def _read(self, path: str) -> tuple[int, list[str]]:
        if path not in self._texts:
            content = Path(path).read_bytes() if Path(path).is_file() else b""
            self._texts[path] = len(content), [*map(os.fsdecode, INCLUDE.findall(content))]
        return self._texts[path]


def _list_folders(call: CompilerCall, seeds: Seeds) -> Iterator[Path]:
    """Yield the folders of the project in which a call looks for headers."""
    names = seeds.names_of(call)
    places = (call.cwd / word for word in call.folders[1::2])
    yield from (place for place in places if names.shorten(os.path.normpath(place)).startswith(OF_THE_BUILD))
