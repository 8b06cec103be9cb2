"""Headers that sources certainly include and this machine lacks, found before anything is compiled.

This check reports too little rather than too much (`includes` does the opposite): it ignores an include under a
condition, a header that any build requirement could install, and an unknown header. It reports Python's own header,
and those of CUDA's libraries, which a compiler from the package index does not include.
"""

from __future__ import annotations

import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ci_tools.catalog.providers import cuda_parts
from ci_tools.errors import MachineError, Problem
from ci_tools.machine.process import ISOLATED, output
from ci_tools.machine.workplace import scratch
from ci_tools.model.evidence import Evidence
from ci_tools.model.plan import Job
from ci_tools.source.files import Tree
from ci_tools.source.includes import Includes, SourceLine, uncommented

PYTHON = "Python.h"
NATIVE = frozenset({".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hh", ".hpp", ".inl", ".ipp", ".pyx"})
SIGN = "fatwheel_lacks_"  # a word that occurs in no header
HINT = (
    "install its development files (Python's are in python3-dev), or for CUDA's libraries a whole toolkit, which "
    "`toolchain: system` takes"
)
# Libraries for CUDA that are not of its toolkit, by their headers.
OTHER_LIBRARIES = (
    (re.compile(r"cudnn(_[a-z_]+|_frontend)?\.h"), "cuDNN"),
    (re.compile(r"nccl\.h"), "NCCL"),
    (re.compile(r"cusparseLt\.h"), "cuSPARSELt"),
)
CONDITIONAL = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|elifdef|elifndef|else|endif)\b", re.MULTILINE)
DIRECT = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">\n]+)[">]', re.MULTILINE)
# Variables and flags that give a compiler include folders unknown to this check.
SEARCHED = frozenset({"CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH", "CFLAGS", "CXXFLAGS", "NVCC_APPEND_FLAGS"})
FOREIGN = re.compile(r"(-I|-isystem|-idirafter|-iquote)=?(/|<stage>|$)|--sysroot|-isysroot|@")
# C++ of these needs the libstdc++ or glibc of its builder: std::vector GLIBCXX_3.4.29 since GCC 11, std::shared_ptr
# GLIBC_2.32 (libstdc++-v3/config/abi/pre/gnu.ver). The second group brings such C++ in its own headers.
NEWER_SYMBOLS = re.compile(
    r"deque|filesystem|functional|future|iostream|list|map|memory|queue|regex|set|sstream|string|thread|unordered_map"
    r"|unordered_set|vector|((ATen|c10|nanobind|pybind11|torch/(extension|torch|all|types)\b)[./].*|torch/library\.h)"
)
STRINGS = re.compile(r'R"[^()\\\s]{0,16}\(')  # a raw string may hold what looks like an include


def certain_includes(includes: Includes, files: Iterable[str]) -> Iterator[tuple[str, SourceLine]]:
    """Yield every header that compiling `files` certainly includes, and where: outside any `#if` and any comment.

    One of the project's own headers is followed only if exactly one file matches it. Its include guard does not count
    as a condition.
    """
    return ((header, place) for header, place, own in _walk(includes, files) if not own)


def certain_files(includes: Includes, files: Iterable[str]) -> dict[str, SourceLine]:
    """Return the source's own headers that compiling `files` certainly reads, each with where it is included."""
    return {own: place for _, place, own in _walk(includes, files) if own}


def possible_files(includes: Includes, files: Iterable[str]) -> dict[str, SourceLine]:
    """Return the source's own headers that compiling `files` may read, each with a place that includes it.

    An include that may mean one of several files is left out.
    """
    queue, found = [file for file in dict.fromkeys(files) if includes.has(file)], dict[str, SourceLine]()
    for file in queue:  # the loop body appends to it
        for include in includes.of(file):
            own = includes.beside(include) or includes.own(include.header)  # a quoted include looks there first
            if len(own) == 1 and own[0] not in found and own[0] not in queue:
                found[own[0]] = include.place
                queue.append(own[0])
    return found


def _walk(includes: Includes, files: Iterable[str]) -> Iterator[tuple[str, SourceLine, str]]:
    """Yield certain includes, each with the one file of the source that it means; "" if no file matches."""
    queue = [file for file in dict.fromkeys(files) if includes.has(file)]
    seen = set(queue)
    for file in queue:  # the loop body appends to it
        for header, line in _unconditional(uncommented(file, includes.text(file))):
            own = includes.own(header)
            if not own:
                yield header, SourceLine(file, line), ""
            elif len(own) == 1 and own[0] not in seen:
                seen.add(own[0])
                queue.append(own[0])
                yield header, SourceLine(file, line), own[0]


def _unconditional(text: str) -> Iterator[tuple[str, int]]:
    """Yield the includes of a text that no directive can skip; none if it has raw strings or continued lines."""
    if STRINGS.search(text) or "\\\n" in text:
        return
    guard = re.match(r"(?:\s|//[^\n]*\n)*#[ \t]*ifndef[ \t]+(\w+)[^\n]*\n\s*#[ \t]*define[ \t]+\1\b", text)
    depth = 0
    events = [*CONDITIONAL.finditer(text, guard.end() if guard else 0), *DIRECT.finditer(text)]
    for event in sorted(events, key=lambda found: found.start()):
        if event.re is DIRECT:
            if depth == 0:
                yield event[1], text.count("\n", 0, event.start()) + 1
        elif event[1].startswith("if"):
            depth += 1
        elif event[1] == "endif":
            depth -= 1


def compiles_of(job: Job, evidence: Evidence) -> tuple[str, ...]:
    """Return the sources a Linux job was seen to compile; none if its compiler also searches unknown folders."""
    shown = next((one for one in evidence.platforms if one.platform == job.platform), None)
    if shown is None or job.platform is None or not job.platform.value.startswith("linux"):
        return ()
    commands = [one for made in shown.of(job.covers[0]).built for one in made.compiles]
    is_told_more = any(name in SEARCHED for name, _ in job.env)
    is_told_more |= any(FOREIGN.match(flag) for command in commands for flag in command.flags)
    return () if is_told_more else tuple(dict.fromkeys(command.source for command in commands))


def find_newer_symbols(tree: Tree, files: Iterable[str]) -> tuple[str, SourceLine] | None:
    """Return a header by which `files` certainly need symbols of a new C++ library, and its place; None without."""
    found = certain_includes(Includes(tree), files)
    return next(((header, place) for header, place in found if NEWER_SYMBOLS.fullmatch(header)), None)


def folders_of(python: Path) -> tuple[Path, ...]:
    """Return the folders of an interpreter's own headers."""
    if python == Path(sys.executable):
        return tuple(dict.fromkeys(Path(sysconfig.get_path(name)) for name in ("include", "platinclude")))
    command = "import sysconfig; print(sysconfig.get_path('include'), sysconfig.get_path('platinclude'), sep='\\n')"
    return tuple(dict.fromkeys(map(Path, (output([python, ISOLATED, "-c", command]) or "").splitlines())))


def asked_for(tree: Tree, files: Iterable[str], *, cuda: bool) -> dict[str, tuple[str, SourceLine]]:
    """Return the headers of Python and CUDA's libraries that `files` certainly include, each with owner and place."""
    found: dict[str, tuple[str, SourceLine]] = {}
    for header, place in certain_includes(Includes(tree), files):
        whose = "Python" if header == PYTHON else _library(header) if cuda else ""
        if whose:
            found.setdefault(header, (whose, place))
    return found


def _library(header: str) -> str:
    of_toolkit = (part.name for part in cuda_parts() if part.has(header))
    others = (name for pattern, name in OTHER_LIBRARIES if pattern.fullmatch(header))
    return next(of_toolkit, "") or next(others, "")


def all_includes(tree: Tree) -> frozenset[str]:
    """Return every header that a file of the source includes, under whatever condition."""
    texts = (tree.root / name for name in tree.files if Path(name).suffix.lower() in NATIVE)
    found = (DIRECT.findall(path.read_text(encoding="utf-8", errors="replace")) for path in texts if path.is_file())
    return frozenset(header for headers in found for header in headers)


def refuse_missing(
    asked: Mapping[str, tuple[str, SourceLine]], compiler: str, folders: Sequence[Path], environ: Mapping[str, str]
) -> None:
    """Raise MachineError with every header that the compiler finds neither in `folders` nor in its default folders.

    The compiler itself is asked (`__has_include`, C++17, which all current compilers support); if it does not answer,
    no header is reported.
    """
    if not asked:
        return
    with scratch() as folder:
        probe = folder / "probe.cpp"
        lines = (f"#if !__has_include(<{header}>)\n{SIGN}{number}\n#endif\n" for number, header in enumerate(asked))
        probe.write_text("".join(lines), encoding="utf-8")
        places = [part for place in folders for part in ("-isystem", place)]
        said = output([compiler, "-E", "-P", *places, probe], env=environ) or ""
    absent = {int(found) for found in re.findall(rf"{SIGN}(\d+)", said)}
    problems = [
        Problem(str(place), f"includes {header} of {whose}, and the compiler finds none here")
        for number, (header, (whose, place)) in enumerate(asked.items())
        if number in absent
    ]
    if problems:
        raise MachineError("\n".join(map(str, problems)), hint=HINT)
