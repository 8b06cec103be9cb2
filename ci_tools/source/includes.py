"""Finds the headers that compiled sources include, also through the source's own files, and the ABIs they bind to.

It errs on the safe side: an include in a block comment or behind an `#if` counts. One header too many costs a job; one
header too few gives a wrong wheel.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import NamedTuple

from ci_tools.model.evidence import Binding, Compile, PythonApi, TorchAbi
from ci_tools.model.request import Globs
from ci_tools.model.versions import Minor
from ci_tools.source.files import Tree, matching

DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b([^\n]*)", re.MULTILINE)


def is_unconditional(text: str, match: re.Match[str]) -> bool:
    """Whether a definition in a text is outside any `#if`, or only inside its own `#ifndef`."""
    branches: list[bool] = []
    for directive in DIRECTIVE.finditer(text, 0, match.start()):
        if directive[1].startswith("if"):
            branches.append(directive[1] == "ifndef" and _guards(text, directive, match[0]))
        elif branches and directive[1] == "endif":
            branches.pop()
        elif branches:
            branches[-1] = False  # #else or #elif: only one of them is taken
    return all(branches)


def find_unconditional(pattern: str, text: str) -> re.Match[str] | None:
    """Return the first match of a pattern in a text that is outside any `#if`."""
    return next((one for one in re.finditer(pattern, text, re.MULTILINE) if is_unconditional(text, one)), None)


def _guards(text: str, directive: re.Match[str], definition: str) -> bool:
    """Whether an `#ifndef` tests the macro that is defined inside it, or is the include guard of the header."""
    name = directive[2].strip()
    following = text[directive.end() :].lstrip()
    return name in definition.split() or re.match(rf"#[ \t]*define[ \t]+{re.escape(name)}\b", following) is not None


# ---------------------------------------------------------------- includes

ENDINGS = ("c", "cc", "cpp", "cxx", "c++", "cppm", "ccm", "cxxm", "ixx", "cu", "hip", "sycl", "m", "mm", "pyx", "s")
# A build fills in `op.cu.in`, and compilers read `binding.C` as C++.
COMPILED = re.compile(rf"\.(?:{'|'.join(map(re.escape, ENDINGS))})(?:\.[^/]*)?$", re.IGNORECASE)
# The pattern lets a comment end at one place only, within 4000 characters. Otherwise a failed match of the rest
# would try every other end.
SPACE = r"(?:[ \t]|\\\r?\n|/\*(?:[^*]|\*(?!/)){0,4000}\*/)*"
MAX_TARGETS = 10  # definitions of the macro that are examined in one file
BLOCK_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
INCLUDE = re.compile(
    rf"""
    ^(?!{SPACE}//)[^"\n]*? (?: (?:\#|%:) {SPACE} (?:include_next|include|import) | \bextern[ ]+from ) {SPACE}
        (?: ["<] ([^">\n]+) [">] | ['] ([^'\n]+) ['] | (?=[A-Za-z_]\w*) )  # a macro's name: it could be any header
    | ^[ \t]* (?:export[ ]+)? import [ \t]* ["<] ([^">\n]+) [">]
    """,
    re.MULTILINE | re.VERBOSE,
)
NEXT = "include_next"
# Not a file from which a build makes another one, somewhere else: `op.cu.in`, `binding.pyx`.
AT_ITS_PLACE = re.compile(r"\.(?:c|cc|cpp|cxx|cu|h|hh|hpp|hxx|cuh|inl)$")
MENTION = re.compile(r"\b((?:torch|ATen|c10|caffe2)/[\w/.-]*\.(?:h|hpp|cuh))\b")
TORCH_FOLDER = re.compile(r"(^|/)(torch|aten|c10|caffe2|thc?|thh)/", re.IGNORECASE)
STABLE_HEADERS = ("torch/csrc/stable/", "torch/headeronly/", "torch/csrc/inductor/aoti_torch/c/")
HEX = r"0[xX]([0-9a-fA-F]{2})([0-9a-fA-F]{2})[0-9a-fA-F]{12}"
TARGET_FLAG = re.compile(rf"""(?:-D|/D|\b)TORCH_TARGET_VERSION (?: = | ["'],[ ]*["'] ) {HEX}""", re.VERBOSE)
TARGET_DEFINE = re.compile(rf"^[ \t]*#[ \t]*define[ \t]+TORCH_TARGET_VERSION[ \t]+{HEX}", re.MULTILINE)
FORCED = re.compile(r"(?:-include-pch|-include(?!-)|-imacros|--pre-include|--include(?!-)|/FI|-FI)=?(.*)")
CMAKE_IF = re.compile(r"^[ \t]*(end)?if[ \t]*\(", re.MULTILINE | re.IGNORECASE)
CMAKE_COMMENT = re.compile(r"#\[(=*)\[.*?(?:\]\1\]|\Z)", re.DOTALL)
USES_TORCH = re.compile(
    r"find_package\s*\(\s*Torch\b|\bTORCH_LIBRARIES\b|torch\.utils(?:\.| import .{0,200}\b)cpp_extension\b",
    re.IGNORECASE,
)
UNLIMITED_HEADER = re.compile(
    r"^(pybind11/|boost/python|torch/(extension|python)\.h$|torch/csrc/.*(python|pybind|THP))"
)
PYTHON_HEADER = re.compile(rf"^(Python\.h$|nanobind/)|{UNLIMITED_HEADER.pattern}")
BUILD_FILES = frozenset({"CMakeLists.txt", "setup.py", "setup.cfg", "pyproject.toml", "meson.build"})


class SourceLine(NamedTuple):
    """A file of the source and a line in it."""

    file: str
    line: int

    @classmethod
    def at(cls, file: str, text: str, end: int) -> SourceLine:
        """Return the line of a file's text in which its character `end` is."""
        return cls(file, text.count("\n", 0, end) + 1)

    def __str__(self) -> str:
        """Return `file:line`."""
        return f"{self.file}:{self.line}"


class Include(NamedTuple):
    """A header, and where it is included; an empty header could be any."""

    header: str
    place: SourceLine
    is_quoted: bool = False  # in a file that is compiled where it lies

    @property
    def is_torch(self) -> bool:
        """Whether the header belongs to torch."""
        return TORCH_FOLDER.search(self.header) is not None

    @property
    def is_stable(self) -> bool:
        """Whether the header belongs to torch's stable ABI."""
        return self.header.startswith(STABLE_HEADERS)


class TorchTarget(NamedTuple):
    """A torch version that a file sets as its target, and whether it is set only in a branch."""

    version: Minor
    place: SourceLine
    conditional: bool


class Includes:
    """The includes of a tree's files, each file read once."""

    def __init__(self, tree: Tree, generated: Mapping[str, str] | None = None, without: Includes | None = None) -> None:
        self.tree = tree
        self.generated = generated or {}  # the files that a build writes, with their text
        self.without = without  # the includes of the tree without these files
        self.read: dict[str, tuple[Include, ...]] = {}
        self.outer: dict[frozenset[str], tuple[Include, ...]] = {}
        self.built: dict[frozenset[tuple[str, str]], Includes] = {}
        self.named: dict[str, list[str]] = {}
        for file in (*tree.files, *self.generated):
            self.named.setdefault(file.rpartition("/")[2], []).append(file)  # a path each would take milliseconds

    def with_generated(self, generated: Mapping[str, str]) -> Includes:
        """Return the includes of the tree with the files that a build writes; one object for the same files.

        Headers of the tree are read once: a source with CUTLASS in it has thousands of headers.
        """
        if not generated:
            return self
        key = frozenset(generated.items())
        if key not in self.built:
            self.built[key] = Includes(self.tree, generated, without=self)
        return self.built[key]

    def external_includes(self, files: Iterable[str]) -> tuple[Include, ...]:
        """Return every include that a compiler of `files` may reach and that is not one of the source's own files."""
        start = frozenset(files)
        if start not in self.outer:  # it is asked for each Python
            self.outer[start] = tuple(self._reach(start))
        return self.outer[start]

    def _reach(self, files: frozenset[str]) -> Iterator[Include]:
        queue = sorted(files)
        seen = set(queue)
        for file in queue:  # the queue grows in this loop
            for include in self.of(file):
                own = self.beside(include) or self.own(include.header)  # the compiler looks beside the includer first
                if not own or include.is_torch:  # a copy of torch's header in the source is torch's all the same
                    yield include
                queue += [found for found in own if found not in seen]
                seen.update(own)

    def of(self, file: str) -> tuple[Include, ...]:
        """Return a file's own includes."""
        if self.without and file not in self.generated:
            return self.without.of(file)
        if file not in self.read:
            self.read[file] = tuple(_includes(file, self.text(file)))
        return self.read[file]

    def text(self, file: str) -> str:
        """Return a file's text: the generated text if the build writes the file."""
        return self.generated[file] if file in self.generated else self.tree.text(file)

    def has(self, file: str) -> bool:
        """Whether the source has the file, also behind a link, or a build writes it."""
        return bool(self.find(file))

    def find(self, file: str) -> str:
        """Return the file's own name, which is another one behind a link to a folder; "" if there is no such file."""
        if file in self.generated or file in self.tree.names:
            return file
        found = self.tree.resolve(file)
        return found if found in self.tree.names else ""

    def beside(self, include: Include) -> list[str]:
        """Return the file in the includer's folder that every compiler takes for a quoted header, if it is there."""
        place = posixpath.normpath(f"{posixpath.dirname(include.place.file)}/{include.header}").lstrip("/")
        return [place] if include.is_quoted and place in self.tree.names else []

    def own(self, header: str) -> list[str]:
        """Return the source's own files an include may mean: beside the includer, or below any include folder."""
        named = self.named.get(header.rpartition("/")[2])
        tail = "/" + re.sub(r"^(\.{1,2}/)+", "", header) if named else ""
        return [file for file in named or () if f"/{file}".endswith(tail)]


def _includes(file: str, text: str) -> Iterator[Include]:
    if "\0" in text:  # not UTF-8, so it cannot be read here
        yield Include("", SourceLine(file, 1))
    line, done = 1, 0
    for match in INCLUDE.finditer(text):
        line, done = line + text.count("\n", done, match.end()), match.end()
        header = match[1] or match[2] or match[3] or ""
        is_quoted = bool(match[1] and AT_ITS_PLACE.search(file)) and match[0].endswith('"') and NEXT not in match[0]
        yield Include(
            posixpath.normpath(header.replace("\\", "/")) if header else "", SourceLine(file, line), is_quoted
        )


def select_sources(files: Iterable[str], native: Iterable[str], exclude: tuple[str, ...]) -> list[str]:
    """Return every source a compiler may see: the native files, and other compiled-looking files not excluded.

    A project's globs may name its kernels but not the binding that includes torch.
    """
    found = [file for file in files if COMPILED.search(file)]
    return sorted({*native, *matching(found, Globs(("*",), exclude))})


# ---------------------------------------------------------------- the Python API


def find_contradiction(api: PythonApi, includes: Iterable[Include]) -> PythonApi | None:
    """Return the API as UNKNOWN if an included header contradicts the declared API, or None."""
    beyond = {Binding.NONE: PYTHON_HEADER, Binding.STABLE: UNLIMITED_HEADER}.get(api.kind)
    for header, place, _ in includes if beyond else ():
        if beyond and beyond.match(header):
            return PythonApi(Binding.UNKNOWN, f"{place}: includes {header}, against {api.where}")
    return None


# ---------------------------------------------------------------- the torch ABI


def torch_abi(includes: Includes, files: Iterable[str], folder: str) -> TorchAbi:
    """Return the torch ABI that the compiled `files` of the project in `folder` bind to."""
    files = list(files)
    build_files = [name for name in includes.tree.files if _is_build_file(name, folder)]
    reached = (*includes.external_includes(files), *_find_mentions(includes.tree, build_files))
    if beyond := _unstable_abi(reached):
        return beyond
    if not files:
        used = _headless(includes.tree, build_files)
        return used if used.uses_torch else TorchAbi(Binding.UNKNOWN, "the compiled files are not in the source")
    torch = [include for include in reached if include.is_torch]
    if not torch:
        return _headless(includes.tree, build_files)
    return _stable(torch[0], _target(includes.tree, (*build_files, *files)))


def abi_of_commands(includes: Includes, commands: Sequence[Compile]) -> TorchAbi:
    """Return the torch ABI of the sources that an observed build compiled, each with its own flags."""
    missing = [command.source for command in commands if not includes.has(command.source)]
    if missing:
        return TorchAbi(Binding.UNKNOWN, f"{missing[0]} is compiled, and is not in the source")
    by_flags = [include for command in commands for include in list_forced_includes(command, includes)]
    if beyond := _unstable_abi((*includes.external_includes(command.source for command in commands), *by_flags)):
        return beyond
    targets, first = [], None  # None among the targets: a file without one
    for command in commands:
        reached = (*includes.external_includes([command.source]), *list_forced_includes(command, includes))
        torch = [one for one in reached if one.is_torch]
        first = first or next(iter(torch), None)
        targets += [_command_target(command, includes)] if torch else []
    if first is None:
        return TorchAbi(Binding.NONE, "no file that is compiled includes a torch header")
    return _stable(first, None if None in targets else max(filter(None, targets), key=lambda target: target.version))


def _unstable_abi(reached: Iterable[Include]) -> TorchAbi | None:
    """Return FULL for a header outside the stable ABI, UNKNOWN for an unknown header, or None if there is neither."""
    reached = tuple(reached)
    for header, place, _ in (include for include in reached if include.is_torch and not include.is_stable):
        return TorchAbi(Binding.FULL, f"{place}: includes {header}", uses_torch=True)
    for include in reached:
        if not include.header:
            return TorchAbi(Binding.UNKNOWN, f"{include.place}: includes a header whose name only a compiler can tell")
    return None


def list_forced_includes(command: Compile, includes: Includes) -> Iterator[Include]:
    """Yield the headers that a command includes by a flag, and the headers that these include in turn."""
    place = SourceLine(command.source, 1)
    for header in list_forced_headers(command):
        own = includes.own(header)
        yield Include(posixpath.normpath(header) if header else "", place)
        yield from includes.external_includes(own)
    for flag in command.flags:
        yield from (Include(match[1], place) for match in MENTION.finditer(flag))


def list_forced_headers(command: Compile) -> Iterator[str]:
    """Yield the headers that flags force; "" stands for any header, for example with a file of further flags."""
    words = [word for flag in command.flags for word in re.split(r"[,\s]+", flag)]
    for flag, value in pairwise((*words, "")):
        if match := FORCED.fullmatch(flag):
            yield match[1] or (value.partition("=")[2] if value.startswith("-Xcompiler=") else value)
        elif flag.startswith("@") or flag == "--options-file":
            yield ""


def _command_target(command: Compile, includes: Includes) -> TorchTarget | None:
    """Return the target set by a command's flags or its source; of several, the newest, as it serves the fewest."""
    place = SourceLine(command.source, 1)
    if any(flag.startswith(("-UTORCH_TARGET_VERSION", "/UTORCH_TARGET_VERSION")) for flag in command.flags):
        return None
    found = [
        TorchTarget(Minor(int(match[1], 16), int(match[2], 16)), place, conditional=False)
        for flag in command.flags
        if (match := TARGET_FLAG.match(flag))
    ]
    if not found:
        found = list(_targets(command.source, includes.text(command.source)))
    return max(found, key=lambda target: (target.conditional, target.version), default=None)


def _headless(tree: Tree, build_files: Iterable[str]) -> TorchAbi:
    """Return the ABI if no torch header is included: NONE, or UNKNOWN if a build file uses torch."""
    for file in build_files:
        text = uncommented(file, tree.text(file))
        if match := USES_TORCH.search(text):
            where = f"{SourceLine.at(file, text, match.start())}: uses torch, but no file includes one of its headers"
            return TorchAbi(Binding.UNKNOWN, where, uses_torch=True)
    return TorchAbi(Binding.NONE, "no file includes a torch header")


def _stable(first: Include, target: TorchTarget | None) -> TorchAbi:
    if target is None:
        where = f"{first.place}: includes {first.header}, but nothing sets TORCH_TARGET_VERSION"
        return TorchAbi(Binding.UNKNOWN, where, uses_torch=True)
    if target.conditional:
        where = f"{target.place}: sets TORCH_TARGET_VERSION within an if(), so it may not be set"
        return TorchAbi(Binding.UNKNOWN, where, uses_torch=True)
    where = f"{target.place}: TORCH_TARGET_VERSION {target.version}, and only stable headers"
    return TorchAbi(Binding.STABLE, where, target.version, uses_torch=True)


def _is_build_file(name: str, folder: str) -> bool:
    """Whether a file may hold compile flags: it is in, below or above the project's folder."""
    path = PurePosixPath(name)
    near = path.is_relative_to(folder) or PurePosixPath(folder).is_relative_to(path.parent)
    return near and (path.name in BUILD_FILES or path.suffix == ".cmake")


def _find_mentions(tree: Tree, build_files: Iterable[str]) -> Iterator[Include]:
    """Yield the torch headers that build files name, for example to precompile or to force-include them."""
    for file in build_files:
        for number, line in enumerate(uncommented(file, tree.text(file)).splitlines(), 1):
            for match in MENTION.finditer(line):
                yield Include(match[1], SourceLine(file, number))


def _target(tree: Tree, files: Iterable[str]) -> TorchTarget | None:
    """Return the newest torch version that the files set as their target; a conditional one takes precedence."""
    found = [target for file in files for target in _targets(file, tree.text(file))]
    return max(found, key=lambda target: (target.conditional, target.version), default=None)


def _targets(file: str, text: str) -> Iterator[TorchTarget]:
    text = uncommented(file, text)
    yield from (_targets_by_flag if _is_build_file(file, ".") else _targets_by_macro)(file, text)


def _targets_by_flag(file: str, text: str) -> Iterator[TorchTarget]:
    """Yield the targets that a build file sets; those inside a CMake `if()` are conditional."""
    line, depth, done = 1, 0, 0
    for match in TARGET_FLAG.finditer(text):
        line += text.count("\n", done, match.end())
        depth += sum(-1 if found[1] else 1 for found in CMAKE_IF.finditer(text, done, match.start()))
        done = match.end()
        version = Minor(int(match[1], 16), int(match[2], 16))
        yield TorchTarget(version, SourceLine(file, line), conditional=_is_cmake(file) and depth > 0)


def _targets_by_macro(file: str, text: str) -> Iterator[TorchTarget]:
    """Yield the targets that a source defines; one that may be unreached or follows torch's headers is conditional.

    In a file with more than MAX_TARGETS definitions the first is conditional too: such a file is generated, and to
    examine each definition would take minutes.
    """
    found = list(itertools.islice(TARGET_DEFINE.finditer(text), MAX_TARGETS + 1))
    for match in found:
        before = text[: match.end()]  # one of those in it counts in every case
        is_clear = len(found) <= MAX_TARGETS and any(
            is_unconditional(before, one) for one in TARGET_DEFINE.finditer(before)
        )
        place = SourceLine.at(file, text, match.end())
        version = Minor(int(match[1], 16), int(match[2], 16))
        yield TorchTarget(version, place, conditional=not is_clear or "torch/" in text[: match.start()])


def _is_cmake(file: str) -> bool:
    return file.endswith((".cmake", "CMakeLists.txt"))


def uncommented(file: str, text: str) -> str:
    """Return a file's text without its comments; the line numbers stay the same."""
    if not _is_build_file(file, "."):
        return BLOCK_COMMENT.sub(blank, text)
    return re.sub(r"#.*", "", CMAKE_COMMENT.sub(blank, text) if _is_cmake(file) else text)


def blank(comment: re.Match[str]) -> str:
    """Return only the line ends of a comment; an unterminated block is not a comment and stays."""
    if not comment[0].startswith("//") and not comment[0].endswith(("*/", "]")):
        return comment[0]
    return "\n" * comment[0].count("\n")
