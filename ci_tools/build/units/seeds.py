"""What every compiler call gets beside its own words, so that it makes the same bytes each time.

nvcc and gcc put random numbers into names of symbols, and nvcc its process number; `-frandom-seed` and `--keep-dir`
replace them. A seed is the unit's own: with one for all, a source that is compiled twice for one library, with other
macros, would register the same names twice (`nvcc -rdc=true`).

Where a config names shims, device code gets these headers in place of torch's, and each library what they declare. What
reads no other header of torch that changes has the same text for several torches. Links and host code stay one torch's.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from ci_tools import catalog
from ci_tools.build.units.calls import COMPILES, FOLDERS, LINK, CompilerCall
from ci_tools.build.units.manifests import FolderNames, find_host_compiler
from ci_tools.errors import Rejected
from ci_tools.machine.process import output, run

# Parts of the names of objects that say which Python a build is for, or are random.
PASSING = re.compile(r"(?:cpython|pypy|python|cp|py)-?3\.?\d+t?|\btmp[a-z0-9_]{8}\b|\.mesonpy-\w{8}")
# Macros that torch's BuildExtension adds, as its release was built: the text says what they change.
OF_TORCH = re.compile(r"-D(_GLIBCXX_USE_CXX11_ABI|PYBIND11_(COMPILER_TYPE|STDLIB|BUILD_ABI))=.*")
MAPS = 8  # the first gcc with -ffile-prefix-map
FOLDER, HOST = Path(catalog.__file__).with_name("shims"), "host.cpp"
FLAGS = ("-O2", "-fPIC", "-frandom-seed=fatwheel-shims")
SHARED = frozenset({"-shared", "--shared"})
NAMES_FILES = re.compile(r"-keep|-save-temps|-odir")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeds:
    """The names and seeds of one build's units.

    `site` is the folder of its installed packages; `moved` names it and Python's headers in objects, wherever they are.
    """

    project: str
    names: FolderNames
    site: str
    moved: Mapping[str, str]
    _known: dict[tuple[Path, str], str] = field(default_factory=dict)

    def names_of(self, call: CompilerCall) -> FolderNames:
        """Return the names of folders for a call: its own folder outside the source, such as CMake's, may be random."""
        is_inside = self.names.shorten(str(call.cwd)).startswith("<source>")
        return self.names if is_inside else self.names.add("here", str(call.cwd))

    def name(self, call: CompilerCall) -> str:
        """Return the name of a unit: its project, source and object, whatever its options and Python are."""
        names = self.names_of(call)
        paths = [names.shorten(os.path.normpath(call.cwd / one)) for one in (*call.sources, call.output)]
        return digest_value([self.project, [PASSING.sub("", path) for path in paths]])[:24]

    def seed(self, call: CompilerCall) -> str:
        """Return the seed of a unit, which is another one for other options."""
        macros = [macro for macro in call.macros if not OF_TORCH.fullmatch(macro)]
        return f"fatwheel-{digest_value([self.name(call), call.flags, macros])[:16]}"

    def list_words(self, call: CompilerCall, kept: Path) -> Iterator[str]:
        """Yield the words with which a call makes the same bytes each time; `kept` is for nvcc's own files."""
        stems = {Path(source).stem for source in call.sources}
        if call.is_nvcc and not NAMES_FILES.search(" ".join(call.flags)) and len(stems) == len(call.sources):
            kept.mkdir(parents=True, exist_ok=True)
            yield from ("--keep", "--keep-dir", str(kept))
        if call.language == LINK:
            return
        host = find_host_compiler(call) if call.is_nvcc else call.program
        gcc, is_seeded = self._read_gcc(host, call.environ), "-frandom-seed" in " ".join(call.flags)
        seed = [] if is_seeded else [f"-frandom-seed={self.seed(call)}"]
        maps = [f"-ffile-prefix-map={folder}={name}" for folder, name in self.moved.items() if gcc >= MAPS]
        if not call.is_nvcc:
            yield from (*(seed if gcc else []), *maps)
            return
        own = seed if "frandom-seed" in self._ask(call.program, "--help", call.environ) else []  # gcc gets it, too
        yield from own
        yield from (word for one in (*maps, *([] if own or not gcc else seed)) for word in ("-Xcompiler", one))

    def _read_gcc(self, program: Path, environ: Mapping[str, str]) -> int:
        """Return the major version of gcc; 0 for another compiler."""
        is_gcc = "Free Software Foundation" in self._ask(program, "--version", environ)
        found = re.match(r"\d+", self._ask(program, "-dumpversion", environ)) if is_gcc else None
        return int(found[0]) if found else 0

    def _ask(self, program: Path, option: str, environ: Mapping[str, str]) -> str:
        if (program, option) not in self._known:
            self._known[program, option] = output([program, option], env=environ) or ""
        return self._known[program, option]


def digest_value(value: object) -> str:
    """Return the sha256 of a value that JSON can say."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


@dataclass(slots=True)
class Shims:
    """The shims of one build; `folder` is for them and what is made of them, at the same path every time.

    It is not below the launchers' own folder: what is read there is not recorded, and this counts.
    """

    folder: Path
    log: Path
    names: Sequence[str] = ()
    _used_by: CompilerCall | None = None
    _lock: Lock = field(default_factory=Lock)

    def put(self, names: Sequence[str]) -> None:
        """Put the shims of these names into the build."""
        for name in names:
            shutil.copytree(FOLDER / name, self.folder / name)
        self.names = names

    def add_to(self, call: CompilerCall | None, words: list[str]) -> list[str]:
        """Return a call's words with the headers before all others for device code, and for a link the library.

        Raises Rejected if the library cannot be compiled with this torch.
        """
        if self.names and call and call.is_nvcc and call.language == "cu":
            with self._lock:  # the same one in every build, whichever is asked for first
                self._used_by = min(self._used_by or call, call, key=lambda one: one.words)
            words = [*(f"-I{self.folder / name / 'include'}" for name in self.names), *words]
        if self._used_by and SHARED & {*words} and not COMPILES & {*words}:  # a source may be compiled in the same step
            return [*words, str(self._make_library(self._used_by))]
        return words

    def _make_library(self, call: CompilerCall) -> Path:
        """Compile what the headers declare, as the device code that includes them is compiled for the host."""
        library, options = self.folder / "libshims.a", dict(zip(call.flags, call.flags[1:], strict=False))
        standard = [f"-std={options['-std']}"] if "-std" in options else []
        folders = (word if word in FOLDERS else str(call.cwd / word) for word in call.folders)
        places = [*folders, *call.macros, f"-isystem{call.program.resolve().parents[1]}/include"]
        with self._lock:
            for host in [] if library.exists() else [*self.folder.glob(f"*/{HOST}")]:
                made, compiler = host.with_suffix(".o"), find_host_compiler(call)
                compiled: tuple[str | Path, ...] = (compiler, *FLAGS, *standard, *places, "-c", host, "-o", made)
                for words in (compiled, ("ar", "rcD", library, made)):
                    if run(words, log=self.log, env=call.environ).status:
                        what = f"the shim {host.parent.name} cannot be compiled with the torch of this build"
                        raise Rejected(what, hint=self.log.read_text(encoding="utf-8", errors="replace"))
        return library
