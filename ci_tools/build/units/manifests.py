"""Manifests: what a unit read and looked for in vain when its text was last made, so that it need not be made again.

Paths are written relative to named folders, as another Python has its packages elsewhere. If each file that was read
has the same content, and what was absent is absent, preprocessing would give the same text. A compiler is known by the
content of its programs, and of the libraries that they load.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.build.units.calls import LINK, CompilerCall
from ci_tools.machine.process import output

if TYPE_CHECKING:
    from ci_tools.build.units.passes import Lookups
    from ci_tools.build.units.store import UnitStore

MANIFESTS, LINES = "manifests", "lines"
MOST = 8  # of one unit with the same options: one for each torch, or state of its source
LAG = 10_000_000  # nanoseconds that a file's time may be behind the clock: a tick of the kernel
SPECIAL, ABSENT = "special", "absent"  # in place of a digest
CLOCK = re.compile(rb"__(TIMESTAMP|DATE|TIME)__")
PROGRAMS = ("cc1", "cc1plus", "as")  # that gcc calls to make an object; clang does it all itself
LINKERS = ("collect2", "ld")
OF_LINKS = (*LINKERS, "lto-wrapper", "lto1")  # the last two compile what an object has of gcc's own code
SEARCHED = ("COMPILER_PATH", "GCC_EXEC_PREFIX", "LD_LIBRARY_PATH", "PATH")  # where a compiler's programs are found
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
        more = OF_LINKS if call.language == LINK else ()
        programs = [*self._list_programs(call.program, call.environ, more)]
        if call.is_nvcc:
            host = find_host_compiler(call)
            of_cpp = (host.with_name(host.name.replace("gcc", "g++")), Path("g++")) if more else ()  # nvcc links by it
            programs += (one for name in (host, *of_cpp) for one in self._list_programs(name, call.environ, more))
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
    """Yield a compiler, the programs that it calls, the shared libraries of all of them, and its default options."""
    asked = () if program.name == "nvcc" else (*PROGRAMS, *more)
    specs = output([program, "-print-file-name=specs"], env=environ) if asked else ""  # a path if there is a file
    yield from [specs] if specs and Path(specs).is_absolute() else []
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


class TextManifest(NamedTuple):
    """The files that a text depended on, by named paths, and the key of its object."""

    key: str
    call: str  # a digest of `told`
    read: Mapping[str, str]  # the content's digest of each file
    absent: tuple[str, ...]
    told: Mapping[str, str]  # everything that decided the compiler's work, in words


class FolderNames(NamedTuple):
    """Names for the folders of a build, the innermost first."""

    folders: tuple[tuple[str, str], ...]  # path and name

    def add(self, name: str, folder: str) -> FolderNames:
        """Return these names and one more; a folder that has a name keeps it."""
        if any(folder == known for known, _ in self.folders):
            return self
        return FolderNames(tuple(sorted((*self.folders, (folder, name)), key=lambda one: -len(one[0]))))

    def shorten(self, path: str) -> str:
        """Return a path with the name of its folder in place of the folder."""
        for folder, name in self.folders:
            if path == folder or path.startswith(f"{folder}/"):
                return f"<{name}>{path[len(folder) :]}"
        return path

    def expand(self, path: str) -> str:
        """Return the path of a named one."""
        for folder, name in self.folders:
            if path.startswith(f"<{name}>"):
                return f"{folder}{path[len(name) + 2 :]}"
        return path


def name_folders(folders: Mapping[str, Path]) -> FolderNames:
    """Return these names of folders."""
    found = ((str(path), name) for name, path in folders.items())
    return FolderNames(tuple(sorted(found, key=lambda one: -len(one[0]))))


def record(
    key: str, call: str, told: Mapping[str, str], lookups: Lookups, names: FolderNames, files: Digests
) -> TextManifest:
    """Return the manifest of a text that was just made."""
    read = {names.shorten(path): files.digest(path) for path in sorted(lookups.read)}
    return TextManifest(key, call, read, tuple(sorted(map(names.shorten, lookups.absent))), told)


def is_reliable(lookups: Lookups, call: CompilerCall, files: Digests, began: int) -> bool:
    """Whether a manifest says all: it was traced, no file changed meanwhile, and none asks for the time."""
    fixed = {b"DATE", b"TIME"} if call.environ.get("SOURCE_DATE_EPOCH") else set()
    is_traced = str(call.source) in lookups.read
    return is_traced and all(files.clock(path) <= fixed and files.changed(path) < began for path in lookups.read)


def find_change(manifest: TextManifest, names: FolderNames, files: Digests) -> str:
    """Return the first file that is not as it was, as a named path; "" if none is."""
    for path, digest in manifest.read.items():
        if files.digest(names.expand(path)) != digest:
            return path
    return next((path for path in manifest.absent if os.path.exists(names.expand(path))), "")  # noqa: PTH110 - ten thousand a unit


def explain(
    manifest: TextManifest, told: Mapping[str, str], names: FolderNames, files: Digests, store: UnitStore
) -> str:
    """Return in words what is not as it was: an option, or the first file that differs, with its line."""
    for what, now in told.items():
        if (before := manifest.told.get(what, "")) != now:
            old, new = (set(words.split()) for words in (before, now))
            gone, come = sorted(old - new), sorted(new - old)
            differing = [*(f"without {word}" for word in gone), *(f"with {word}" for word in come)]
            is_shown = what not in {"compiler", "seed"}
            return f"{what}: {', '.join(differing) or 'in another order'}" if is_shown else f"another {what}"
    return name_place(manifest, find_change(manifest, names, files), names, store)


def name_place(manifest: TextManifest, changed: str, names: FolderNames, store: UnitStore) -> str:
    """Return a file that has changed since a text was made, with the first line that differs if that is known."""
    known = store.read(f"{LINES}/{manifest.read[changed]}") if changed in manifest.read else None
    line = _first_other(known, _number_lines(Path(names.expand(changed)))) if known is not None else 0
    return f"{changed}:{line}" if line else changed


def _number_lines(path: Path) -> bytes:
    """Return four bytes for each line of a file, the same for equal lines."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return b""
    return b"".join(zlib.crc32(line).to_bytes(4, "big") for line in lines)


def _first_other(before: bytes, now: bytes) -> int:
    """Return the number of the first line that differs."""
    size = max(len(before), len(now))
    return next((at // 4 + 1 for at in range(0, size, 4) if before[at : at + 4] != now[at : at + 4]), 0)


def save(manifest: TextManifest, unit: str, names: FolderNames, store: UnitStore) -> None:
    """Write a unit's manifest, and remove the oldest of those with the same options."""
    for path, digest in manifest.read.items():  # not the system's and the toolkit's, which have a version
        if path.startswith(("<environment>", "<site>", "<source>")) and not store.has(f"{LINES}/{digest}"):
            store.write(f"{LINES}/{digest}", _number_lines(Path(names.expand(path))))
    content = zlib.compress(json.dumps(manifest._asdict()).encode(), 1)
    name = hashlib.sha256(content).hexdigest()[:16]
    store.write(f"{MANIFESTS}/{unit}/{manifest.call}-{name}", content)
    for old in [one for one in store.list_names(f"{MANIFESTS}/{unit}") if f"/{manifest.call}-" in one][MOST:]:
        store.remove(old)


def load_all(unit: str, store: UnitStore, call: str = "") -> Iterator[TextManifest]:
    """Yield the manifests of a unit, the youngest first; with `call`, those in which that is the same."""
    names = (name for name in store.list_names(f"{MANIFESTS}/{unit}") if f"/{unit}/{call}" in name)
    yield from filter(None, (load(name, store) for name in names))


def load(name: str, store: UnitStore) -> TextManifest | None:
    """Return a manifest of the store; None if it was removed, is damaged, or is another version's."""
    content = store.read(name)
    if content is None:
        return None
    try:
        found = json.loads(zlib.decompress(content))
        return TextManifest(**{**found, "absent": tuple(found["absent"])})
    except (KeyError, TypeError, ValueError, zlib.error):
        return None
