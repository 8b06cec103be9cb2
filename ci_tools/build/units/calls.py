"""Reads one call of a compiler: what it compiles, to what, and what its object depends on besides the text.

A compile unit is a call that compiles one source to one object. A call that is not understood, or that reads or writes
more than its text and its object, is compiled as it is: `plain` says why.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


def _list(text: str) -> frozenset[str]:
    return frozenset(text.split())


NVCC = "nvcc"
CPP, CUDA = (".cc", ".cp", ".cpp", ".cxx", ".c++", ".C", ".CPP"), (".cu",)
LANGUAGES = {".c": "c", **dict.fromkeys(CPP, "c++"), **dict.fromkeys(CUDA, "cu")}
OTHER_SOURCES = (".i", ".ii", ".s", ".S", ".sx", ".m", ".mm", ".f", ".f90", ".F90", ".hip", ".ptx", ".gpu", ".cubin")
# Options whose value is the next word (gcc(1), `nvcc --help`). One that is missing here leaves a word that is taken for
# a source, or for nothing that is known: such a call is compiled as it is.
HOST_VALUES = _list(
    "-A -B -D -I -L -MF -MQ -MT -T -U -Xassembler -Xclang -Xlinker -Xpreprocessor -arch -aux-info -e -idirafter "
    "-imacros -include -iprefix -iquote -isysroot -isystem -iwithprefix -iwithprefixbefore -l -o --param -target -u "
    "-wrapper -x -z"
)
NVCC_VALUES = _list(
    "-D -I -L -MF -MT -O -Ofc -U -Werror -Xarchive -Xcompiler -Xcudafe -Xlinker -Xnvlink -Xptxas -arbin -arch -ccbin "
    "-code -compress-mode -cudadevrt -cudart -ddp -default-stream -device-entity-has-hidden-visibility "
    "-device-stack-protector -diag-error -diag-suppress -diag-warn -dopt -dp -e -fdevice-time-trace -fmad "
    "-frandom-seed -ftemplate-backtrace-limit -ftemplate-depth -ftz -gencode -hls -idp -include -isystem -jtd "
    "-keep-dir -l -ldir -m -maxrregcount -o -odir -opt-info -optf -prec-div -prec-sqrt -rdc -run-args -sanitize "
    "-split-compile -split-compile-extended -static-global-template-stub -std -t -target-dir -time -x -brief-diag"
)
LONG = dict(
    pair.split("=")
    for pair in _list(
        "--output-file=-o --pre-include=-include --define-macro=-D --undefine-macro=-U --include-path=-I "
        "--system-include=-isystem --library=-l --library-path=-L --compile=-c --device-c=-dc --device-w=-dw --x=-x "
        "--threads=-t --compiler-options=-Xcompiler --compiler-bindir=-ccbin --options-file=-optf "
        "--linker-options=-Xlinker --archive-options=-Xarchive --ptxas-options=-Xptxas --nvlink-options=-Xnvlink "
        "--gpu-architecture=-arch --gpu-code=-code --optimize=-O --generate-code=-gencode "
        "--relocatable-device-code=-rdc --output-directory=-odir --dependency-output=-MF --dependency-target-name=-MT "
        "--generate-dependency-targets=-MP --generate-dependencies-with-compile=-MD "
        "--generate-nonsystem-dependencies-with-compile=-MMD --debug=-g --device-debug=-G "
        "--generate-line-info=-lineinfo --source-in-ptx=-src-in-ptx --preprocess=-E --generate-dependencies=-M "
        "--generate-nonsystem-dependencies=-MM --dlink-time-opt=-dlto --device-link=-dlink --machine=-m --entries=-e "
    )
)
JOINED = ("-idirafter", "-imacros", "-include", "-iquote", "-isystem", "-D", "-I", "-U", "-x")
FOLDERS = frozenset({"-I", "-idirafter", "-iquote", "-isystem"})
MACROS = frozenset({"-D", "-U"})
NO_FILE = re.compile(r"-$|/dev/(?!shm/)")  # /dev/shm is a disk in memory
COMPILES = frozenset({"-c", "-dc", "-dw"})
# The object depends on none of these: where dependencies are written, how many threads work, and what is linked.
INDIFFERENT = _list("-L -MD -MF -MMD -MP -MQ -MT -c -l -o -pipe -split-compile -t -x")
# Links, questions and texts: no object is made.
NO_UNIT = re.compile(r"-E|-S|-M|-MM|-###|-V|-dlink|-link|-lib|-dryrun|-fsyntax-only|-{1,2}(dryrun|help|version|dump.*)")
# Options that make more than an object, or that read more than the text: profiles, plug-ins, the processor of this
# machine, text for the assembler, macros (-g3) or the whole command in the object.
STRANGE = re.compile(
    r"-(ptx|cubin|fatbin|optix-ir|ltoir|dlto|lto|gen-opt-lto|run|keep.*|save-temps.*|odir|clean|time|ldir|qpp-config)"
    r"|-{1,2}(fatbin|cubin|ptx|optix-ir|ltoir|lto|keep|save-temps|run|gen-opt-lto|libdevice-directory|time|clean.*)(=.*)?"
    r"|-{1,2}fdevice-time-trace.*|(code=\[?)?lto_\d+.*|.*=?native|-aug-hls|-hls|--host-linker-script.*"
    r"|-da|-{1,2}f(profile|auto-profile|plugin|dump|modules?|pch|stack-usage|callgraph|time-report|test-coverage|branch-"
    r"probabilities|opt-info|save-optimization|diagnostics-add-output|embed-bitcode|cs-profile|crash).*"
    r"|-{1,2}coverage|-gsplit-dwarf|-g(gdb|dwarf.*)?3|-frecord-.*|-specs.*|--specs.*|-wrapper|-B.*|-aux-info|-MJ.*|-M.+|-Wa|-Xassembler|-X(clang|arch.*)"
    r"|-emit-.*|-include-pch|-bundle|-opt-info|-load|-print-.*|-ftime-trace.*|-target-dir|-idp|-ddp|-dp"
)
WITH_LINES = re.compile(r"-g(?!0$|encode).*|-G|-lineinfo|-src-in-ptx|-flto.*|-fsanitize.*|-sanitize|-pg|-p")
# Links that make more than a file, or another one each time, and those of a linker that is not the compiler's own.
STRANGE_LINK = re.compile(
    r"-f(lto|use-ld|use-linker-plugin).*|-{1,2}plugin.*|-{1,2}(Map|out-implib|reproduce)(=.*)?|-{1,2}dependency-file"
    r"|--build-id=(uuid|0x.*)"
)
LINK, LINKED = "link", (".o", ".a", ".so", ".lo")
LINKING = frozenset({"-dlink", "-link"})  # of NO_UNIT, what nvcc links by
PROBES = re.compile(r"CMakeScratch|CMakeTmp|\bcmTC_|CMake\w+CompilerId|meson-private|\bconftest\b")


class CompilerCall(NamedTuple):
    """One call of a compiler. With `plain`, all that is known of it is that it compiles `sources`."""

    program: Path
    words: tuple[str, ...]
    cwd: Path
    environ: Mapping[str, str]
    sources: tuple[str, ...] = ()
    language: str = ""
    output: str = ""
    dependencies: str = ""  # the file that gets the list of headers
    folders: tuple[str, ...] = ()  # where headers are looked for, each with its option
    macros: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()  # everything else that the object may depend on
    has_lines: bool = False  # whether the object names files and lines: debug information
    plain: str = ""  # why it is not a unit

    @property
    def is_nvcc(self) -> bool:
        """Whether nvcc is called, which calls a compiler for the host."""
        return self.program.name == NVCC

    @property
    def source(self) -> Path:
        """The only source of a unit."""
        return self.cwd / self.sources[0]


def read_call(program: Path, words: Sequence[str], cwd: Path, environ: Mapping[str, str]) -> CompilerCall | None:
    """Return a call that compiles; None for a question, a link, or a probe of the build system, which is not one."""
    call = CompilerCall(program, tuple(words), cwd, environ)
    try:
        options = _read_options(call)
    except (OSError, ValueError):
        return call._replace(plain="a response file that cannot be read")
    names = {name for name, _ in options}
    known = (*LANGUAGES, *OTHER_SOURCES)
    sources = [value for name, value in options if not name and ("-x" in names or Path(value).suffix in known)]
    if not sources or "-" in sources or any(NO_UNIT.fullmatch(name) for name in names):  # "-": its input
        return None
    if PROBES.search(f"{cwd} {sources[0]} {dict(options).get('-o')}"):
        return None
    return _describe(call._replace(sources=tuple(sources)), options)


def read_link(call: CompilerCall) -> CompilerCall | None:
    """Return the call of a compiler that links objects to one file, for devices only too; None for anything else.

    Every word counts as one that the file depends on. What else it depends on is what the linker reads.
    """
    try:
        options = _read_options(call)
    except (OSError, ValueError):
        return None
    words = [word for pair in options for word in pair if word]
    output = dict(options).get("-o", "")
    inputs = [value for name, value in options if not name and Path(value).suffix in LINKED]
    asks = any(NO_UNIT.fullmatch(name) for name, _ in options if name not in LINKING or not call.is_nvcc)
    if asks or PROBES.search(f"{call.cwd} {words}") or not inputs or not output or NO_FILE.match(output):
        return None
    parts = [part for word in words for part in word.split(",")]  # the linker's have one before them, -Wl or -Xlinker
    of_compiler = [part for word in words if not word.startswith("-Wl,") for part in word.split(",")]
    strange = [*filter(STRANGE.fullmatch, of_compiler), *filter(STRANGE_LINK.fullmatch, parts), ""][0]
    named = next((part.partition("=")[2] for part in parts if part.startswith("--dependency-file=")), "")  # of CMake
    has_lines = call.is_nvcc and any(map(WITH_LINES.fullmatch, of_compiler))  # it compiles what it generated
    told = call._replace(sources=(inputs[0],), language=LINK, output=output, dependencies=named, has_lines=has_lines)
    return told._replace(flags=tuple(words), plain=strange)


def _read_options(call: CompilerCall) -> list[tuple[str, str]]:
    """Return each option of a call with its value (see `_list_options`), with those that nvcc's variables add."""
    around = [call.environ.get(f"NVCC_{one}_FLAGS", "") if call.is_nvcc else "" for one in ("PREPEND", "APPEND")]
    given = [*shlex.split(around[0]), *call.words, *shlex.split(around[1])]
    return [*_list_options(expand_words(given, call), NVCC_VALUES if call.is_nvcc else HOST_VALUES)]


def _describe(call: CompilerCall, options: Sequence[tuple[str, str]]) -> CompilerCall:
    """Return the call with what its options say, and why it is not a unit; "" if it is one."""
    given, suffix = dict(options), Path(call.sources[0]).suffix
    output, language = given.get("-o", ""), given.get("-x") or LANGUAGES.get(suffix, suffix)
    is_cpp = language == "c" and call.program.name.endswith("++") and "-x" not in given  # g++ compiles a .c file as C++
    flags = [(name, value) for name, value in options if name and name not in {*FOLDERS, *MACROS, *INDIFFERENT}]
    words = [word for pair in flags for word in pair if word]
    parts = [part for word in words if not word.startswith("-Wl,") for part in word.split(",")]
    writes = "-MD" in given or "-MMD" in given
    return call._replace(
        language="c++" if is_cpp else language,
        output=output,
        dependencies=(given.get("-MF") or str(Path(output).with_suffix(".d"))) if writes else "",
        folders=tuple(word for name, value in options if name in FOLDERS for word in (name, value)),
        macros=tuple(f"{name}{value}" for name, value in options if name in MACROS),
        flags=tuple(words),
        has_lines=any(map(WITH_LINES.fullmatch, parts)),
        plain=_explain(call, language, given, parts),
    )


def _explain(call: CompilerCall, language: str, given: Mapping[str, str], parts: Iterable[str]) -> str:
    """Return why a call is not a unit; "" if it is one."""
    understood = {"c", "c++", "cu"} if call.is_nvcc else {"c", "c++"}
    names_list = not call.is_nvcc or "-MF" in given or not {"-MD", "-MMD"} & given.keys()
    reasons = {
        "compiled and linked in one step": not COMPILES & given.keys(),
        "several sources in one call": len(call.sources) > 1,
        f"a source of the language {language}": language not in understood,
        "no file for the object": bool(NO_FILE.match(given.get("-o", "-"))),  # /dev/null: a probe
        "no name for the list of headers": not names_list,
        "DEPENDENCIES_OUTPUT": bool({"DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES"} & call.environ.keys()),
    }
    strange = next((part for part in parts if STRANGE.fullmatch(part)), "")
    return next((why for why, holds in reasons.items() if holds), strange)


def expand_words(words: Iterable[str], call: CompilerCall) -> Iterator[str]:
    """Yield the words, with those of response files in their place; raise OSError or ValueError for a bad one."""
    words = iter(words)
    for word in words:
        name, equals, value = word.partition("=")
        if call.is_nvcc and LONG.get(name, name) == "-optf":
            for file in (value if equals else next(words, "")).split(","):
                yield from expand_words(_read_words(call.cwd / file), call)  # a response file may name others
        elif word.startswith("@") and (call.cwd / word[1:]).is_file():  # gcc takes the word as it is without a file
            yield from expand_words(_read_words(call.cwd / word[1:]), call)
        else:
            yield word


def _read_words(file: Path) -> list[str]:
    return shlex.split(file.read_text(encoding="utf-8", errors="surrogateescape"))


def _list_options(words: Iterable[str], takes: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield each option with its value, by nvcc's short names; sources have the name ""."""
    words, is_nvcc = iter(words), takes is NVCC_VALUES
    for word in words:
        name, equals, value = word.partition("=") if is_nvcc else (word, "", "")
        name = LONG.get(name, name)
        if is_nvcc and name.startswith("--") and name[1:] in takes:
            name = name[1:]  # --std, --maxrregcount
        if not word.startswith("-") or word == "-":
            yield "", word
        elif name in takes:
            yield name, value if equals else next(words, "")
        elif joined := next((option for option in JOINED if word.startswith(option)), ""):
            yield joined, word[len(joined) :]
        else:
            yield name if not equals else word, ""
