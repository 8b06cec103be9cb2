"""Digests of what a compiler reads: source files, headers and the programs that a compiler consists of."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.build.units.calls import LINK
from ci_tools.machine.process import output

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from ci_tools.build.units.calls import CompilerCall

SPECIAL, ABSENT = "special", "absent"  # in place of a digest
CLOCK = re.compile(rb"__(TIMESTAMP|DATE|TIME)__")
PROGRAMS = ("cc1", "cc1plus", "as")  # that gcc calls to make an object; clang does it all itself
LINKERS = ("collect2", "ld")
OF_LINKS = (*LINKERS, "lto-wrapper", "lto1")  # the last two compile what an object has of gcc's own code
SEARCHED = ("COMPILER_PATH", "GCC_EXEC_PREFIX", "PATH")  # where a compiler looks for its programs
OF_TOOLKIT = ("bin/*", "nvvm/bin/*", "nvvm/lib64/*", "nvvm/libdevice/*")
LIBRARY = re.compile(r"(/\S+) \(0x")  # in what ldd prints


class _Known(NamedTuple):
    stamp: tuple[int, ...]
    digest: str
    clock: frozenset[bytes] = frozenset()  # the macros of time that it names


class Digests:
    """The digests of files, each read again only if its status has changed; those of compilers are kept in a store."""

    def __init__(self, dumped: bytes | None = None) -> None:
        known = json.loads(dumped) if dumped else {}
        self._known = {path: _Known(tuple(stamp), digest) for path, (stamp, digest) in known.items()}
        self._compilers = {*self._known}
        self._programs: dict[tuple[str, ...], tuple[str, ...]] = {}

    def dump(self) -> bytes:
        """Return what is known of compilers."""
        known = ((path, self._known[path]) for path in sorted(self._compilers) if path in self._known)
        return json.dumps({path: (found.stamp, found.digest) for path, found in known}).encode()

    def digest(self, path: str) -> str:
        """Return a file's sha256; `SPECIAL` for a folder or a device, `ABSENT` for what cannot be read."""
        return self._look(path).digest

    def clock(self, path: str) -> frozenset[bytes]:
        """Return the macros of time that a file names."""
        return self._look(path).clock

    def changed(self, path: str) -> int:
        """Return when a file was last changed, in nanoseconds since 1970; 0 for what is not a file."""
        return max((0, *self._look(path).stamp[2:]))

    @staticmethod
    def exists(path: str) -> bool:
        """Whether there is something at a path."""
        return os.path.exists(path)  # noqa: PTH110 - ten thousand a unit

    def _look(self, path: str) -> _Known:
        try:
            status = os.stat(path)  # noqa: PTH116 - thousands of headers a unit
            stamp = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            known = self._known.get(path)
            if known and known.stamp == stamp:
                return known
            if not stat.S_ISREG(status.st_mode):
                return _Known((), SPECIAL)
            content = Path(path).read_bytes()
        except OSError:
            return _Known((), ABSENT)
        clock = frozenset(CLOCK.findall(content)) if b"__TIME" in content or b"__DATE__" in content else frozenset()
        known = self._known[path] = _Known(stamp, hashlib.sha256(content).hexdigest(), clock)
        return known

    def identify(self, call: CompilerCall) -> str:
        """Return a digest of the compilers of a call, and of the libraries that they load."""
        programs = [*self._list_programs(call.program, call.environ, OF_LINKS if call.language == LINK else ())]
        if call.is_nvcc:
            host = find_host_compiler(call)
            programs += self._list_programs(host, call.environ)
            programs += _list_toolkit(call.program)
        return self._hash(programs)

    def identify_program(self, program: Path, environ: Mapping[str, str]) -> str:
        """Return a digest of a host compiler with its linker, or of the whole toolkit of an nvcc."""
        is_nvcc = program.name == "nvcc"
        return self._hash(_list_toolkit(program) if is_nvcc else self._list_programs(program, environ, LINKERS))

    def _hash(self, programs: Collection[str]) -> str:
        self._compilers.update(programs)
        return hashlib.sha256("\n".join(map(self.digest, programs)).encode()).hexdigest()

    def _list_programs(self, program: Path, environ: Mapping[str, str], more: Sequence[str] = ()) -> tuple[str, ...]:
        key = (str(program), *more, *(environ.get(name, "") for name in SEARCHED))
        if key not in self._programs:
            self._programs[key] = tuple(dict.fromkeys(_find_programs(program, environ, more)))
        return self._programs[key]


def _list_toolkit(nvcc: Path) -> list[str]:
    """Return the programs of the toolkit that an nvcc is of, and the libraries that they load."""
    home = nvcc.resolve().parents[1]
    return [str(path) for one in OF_TOOLKIT for path in sorted(home.glob(one)) if path.is_file()]


def _find_programs(program: Path, environ: Mapping[str, str], more: Sequence[str]) -> Iterator[str]:
    """Yield a compiler, the programs that it calls, and the shared libraries of all of them."""
    asked = () if program.name == "nvcc" else (*PROGRAMS, *more)
    said = (output([program, f"-print-prog-name={name}"], env=environ) or "" for name in asked)
    for found in (str(program), *said):
        place = shutil.which(found, path=environ.get("PATH")) if found else None
        if place:
            yield place
            yield from LIBRARY.findall(output(["ldd", place], env=environ) or "")


def find_host_compiler(call: CompilerCall) -> Path:
    """Return the compiler that nvcc calls for the host (`nvcc --help`, --compiler-bindir)."""
    flags = dict(zip(call.flags, call.flags[1:], strict=False))
    named = flags.get("-ccbin") or call.environ.get("NVCC_CCBIN") or "gcc"
    place = call.cwd / named
    if place.is_dir():
        return place / "gcc"
    return Path(shutil.which(named, path=call.environ.get("PATH")) or place)
