"""Reads meson-python's configuration: `[tool.meson-python]`, and the targets in meson.build.

Meson itself cannot answer: its configure step tries the compilers, and its introspection of an unconfigured source does
not know extension modules. So its files are parsed, call by call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import PurePosixPath
from typing import NamedTuple

from ci_tools.model.evidence import Binding, Extensions, PythonApi, TorchAbi
from ci_tools.model.versions import Minor
from ci_tools.source.backends.facts import CellFacts, Forced, Read, oldest, ship
from ci_tools.source.includes import SourceLine
from ci_tools.source.project_file import ProjectFile

EXTENSION = "extension_module"
COMPILED = frozenset(
    {"both_libraries", "build_target", "executable", "library", "shared_library", "shared_module", "static_library"}
)
# Functions that may put a compiled file into a wheel without naming it here.
UNSEEN = frozenset({"add_install_script", "custom_target", "generator", "subproject"})
TOKEN = re.compile(
    r"""
    (?P<text> f?'''.*?(?:'''|\Z) | f?'(?:\\(?:.|\Z)|[^'\\\n])*(?:'|(?=\n)|\Z) )  # to its end, closed or not
    | (?P<comment> \#[^\n]* )
    | (?P<name> [A-Za-z_]\w* )
    | (?P<mark> [()\[\]{},:?] )
    | (?P<sign> [=!<>+]?= )
    """,
    re.VERBOSE | re.DOTALL,
)
LONGEST_VALUE = 40  # tokens that are kept of an argument; the values it is compared with have one token
CONDITIONS = frozenset({"if", "foreach"})  # a call inside one may not run
LITERAL_VERSION = re.compile(r"'(\d\.\d{1,2})'")
FIRST_LIMITED_FREE_THREADED = Minor(3, 15)  # PEP 803


class Token(NamedTuple):
    """A token of a meson.build, and its place."""

    kind: str
    text: str
    place: SourceLine


class Call(NamedTuple):
    """A call of a function or method: its name, its keyword arguments as written, and its place."""

    name: str
    keywords: dict[str, str]
    place: SourceLine


def read(project: ProjectFile, env: Mapping[str, str], cell: CellFacts) -> Read:  # noqa: ARG001 - one signature for all
    """Return the facts about meson-python's build of a cell."""
    files = list(_files(project))
    tokens = [token for file in files for token in file]
    calls = [call for file in files for call in _calls(file)]
    extensions, where = _extensions(project, tokens, calls)
    api = _python_api(project, tokens, calls)
    unsupported = _explain_refusal(project, cell) if extensions is not Extensions.NONE else ""
    unsupported = unsupported or _explain_unlimited(project, tokens, calls)
    return Read(extensions, where, api, _torch(tokens), tuple(_archs(tokens, calls)), unsupported)


# ---------------------------------------------------------------- the language


def _files(project: ProjectFile) -> Iterator[list[Token]]:
    """Yield the tokens of each meson.build that the project's top one reaches."""
    queue = [project.path("meson.build")]
    seen = set(queue)
    for name in queue:  # the queue grows in this loop
        if name in project.tree.names:
            tokens = list(_tokens(name, project.tree.text(name)))
            found = [file for file in dict.fromkeys(_subfolders(project, name, tokens)) if file not in seen]
            queue += found
            seen.update(found)
            yield tokens


def _subfolders(project: ProjectFile, name: str, tokens: list[Token]) -> Iterator[str]:
    """Yield the files that subdir() calls read: the named one, or all files below if the name is computed."""
    folder = PurePosixPath(name).parent
    unknown = False
    for index, token in enumerate(tokens[:-3]):
        if token.text == "subdir" and tokens[index + 1].text == "(":
            named = str(folder / tokens[index + 2].text.strip("'") / "meson.build")
            is_whole = tokens[index + 2].kind == "text" and tokens[index + 3].text in {")", ","}
            if is_whole and named in project.tree.names:
                yield named
            else:
                unknown = True
    yield from _below(project, folder) if unknown else ()


def _below(project: ProjectFile, folder: PurePosixPath) -> Iterator[str]:
    paths = map(PurePosixPath, project.tree.files)
    return (str(path) for path in paths if path.name == "meson.build" and path.is_relative_to(folder))


def _tokens(file: str, text: str) -> Iterator[Token]:
    line, done = 1, 0
    for match in TOKEN.finditer(text):
        line, done = line + text.count("\n", done, match.start()), match.start()
        if match.lastgroup != "comment":
            yield Token(str(match.lastgroup), match[0], SourceLine(file, line))


class Bracket:
    """An open bracket: the keyword arguments of its call, if it belongs to one, and the argument being read."""

    def __init__(self, keywords: dict[str, str]) -> None:
        self.keywords = keywords
        self.key, self.start = "", 0

    def end(self, tokens: list[Token], index: int) -> None:
        """Store the argument that ends before the token at `index`."""
        if self.key:
            value = tokens[self.start : min(index, self.start + LONGEST_VALUE)]
            self.keywords[self.key] = "".join(token.text for token in value)
        self.key = ""


def _calls(tokens: list[Token]) -> list[Call]:
    """Return the calls of a file, in one pass: a file may have thousands of open brackets."""
    calls: list[Call] = []
    brackets = [Bracket({})]
    for index, token in enumerate(tokens):
        if token.text in {"(", "[", "{"}:
            keywords: dict[str, str] = {}
            if token.text == "(" and index and tokens[index - 1].kind == "name":
                calls.append(Call(tokens[index - 1].text, keywords, tokens[index - 1].place))
            brackets.append(Bracket(keywords))
        elif token.text in {")", "]", "}"} and len(brackets) > 1:
            brackets.pop().end(tokens, index)
        elif token.text == ",":
            brackets[-1].end(tokens, index)
        elif index and _is_key(tokens, index):
            brackets[-1].key, brackets[-1].start = token.text, index + 2
    return calls


def _is_key(tokens: list[Token], index: int) -> bool:
    """Whether a token names an argument: it starts one, and is not part of `condition ? one : other`."""
    before, after = tokens[index - 1].text, tokens[index + 1 : index + 2]
    return tokens[index].kind == "name" and before in {"(", ","} and bool(after) and after[0].text == ":"


# ---------------------------------------------------------------- what is compiled


def _extensions(project: ProjectFile, tokens: list[Token], calls: list[Call]) -> tuple[Extensions, str]:
    for call in calls:
        if call.name == EXTENSION or call.name in COMPILED:
            return Extensions.SOME, f"{call.place}: {call.name}()"
    if not calls:
        return Extensions.UNKNOWN, f"{project.path('meson.build')}:1: there is no such file to read"
    for place, why in (*_unseen(tokens, calls), *_run(calls)):
        return Extensions.UNKNOWN, f"{place}: {why}"
    return ship(project, f"{calls[0].place}: no meson.build compiles anything")


def _unseen(tokens: list[Token], calls: list[Call]) -> Iterator[tuple[SourceLine, str]]:
    """Yield the places that may compile, or make the wheel platform-specific, without a target of their own."""
    for call in calls:
        if call.name in UNSEEN:
            yield call.place, f"what {call.name}() makes is not known"
        if call.keywords.get("pure", "true") != "true":  # of py.install_sources()
            yield call.place, f"pure: {call.keywords['pure']}, so the wheel is tagged for its machine"
    for token in tokens:
        if "platlib" in token.text or "moduledir" in token.text:
            yield token.place, "installs for one machine"


def _run(calls: list[Call]) -> Iterator[tuple[SourceLine, str]]:
    """Yield the places that run a command: it may write a file that is then installed."""
    for call in calls:
        if call.name == "run_command" or "command" in call.keywords:
            yield call.place, f"what {call.name}() runs is not known"


# ---------------------------------------------------------------- against which Python


def _python_api(project: ProjectFile, tokens: list[Token], calls: list[Call]) -> PythonApi:
    modules = [call for call in calls if call.name == EXTENSION]
    if not modules:
        return _api_without_modules(project, tokens, calls)
    where = f"{project.place('tool', 'meson-python', 'limited-api')}: limited-api"
    if not _is_limited(project):
        return PythonApi(Binding.FULL, str(modules[0].place))
    versions: list[Minor] = []
    for call in modules:
        found = LITERAL_VERSION.findall(_resolve(call.keywords.get("limited_api", ""), tokens))
        if not found:
            return PythonApi(Binding.UNKNOWN, f"{call.place}: its limited_api is not known, against {where}")
        versions += map(Minor.parse, found)
    # The wheel's tag is that of the Python that builds it, so the oldest Python builds for all.
    needed = max(versions)
    free_threaded = oldest(project, max(needed, FIRST_LIMITED_FREE_THREADED), free_threaded=True)
    return PythonApi(Binding.STABLE, where, oldest(project, needed) or needed, free_threaded, built_by_lowest=True)


def _resolve(value: str, tokens: list[Token]) -> str:
    """Return a value as written, with what the file assigns to it if it is a name.

    Of `condition ? '3.9' : ''` each version counts: meson-python makes no limited wheel but of limited modules.
    """
    assigned = (one for one, after in pairwise(tokens) if one.text == value and after.text in {"=", "+="})
    lines = {token.place for token in assigned}
    return value + "".join(token.text for token in tokens if token.place in lines)


def _api_without_modules(project: ProjectFile, tokens: list[Token], calls: list[Call]) -> PythonApi:
    """Return NONE, tagged py3-none, if no compiled file is installed among the packages, or FULL if one may be."""
    for call in calls:
        if call.name in COMPILED and "install_dir" in call.keywords:
            return PythonApi(Binding.FULL, str(call.place))
    for place, _ in _unseen(tokens, calls):
        return PythonApi(Binding.FULL, str(place))
    return PythonApi(Binding.NONE, f"{project.path('meson.build')}:1: no extension module")


def _is_limited(project: ProjectFile) -> bool:
    """Whether the wheel gets a limited API tag: the project asks for it, and does not switch it off in Meson."""
    setup = [str(argument) for argument in project.list("tool", "meson-python", "args", "setup")]
    off = any(re.fullmatch(r"-D\s*python\.allow_limited_api=false", argument) for argument in setup)
    return project.value("tool", "meson-python", "limited-api") is True and not off


def _explain_refusal(project: ProjectFile, cell: CellFacts) -> str:
    """Return why meson-python refuses: limited API with a free-threaded Python that lacks it; "" if it builds."""
    if not _is_limited(project) or not cell.python.free_threaded:
        return ""
    if cell.python.version >= FIRST_LIMITED_FREE_THREADED:
        return ""
    place = project.place("tool", "meson-python", "limited-api")
    return f"{place}: limited-api, which free-threaded Python has from {FIRST_LIMITED_FREE_THREADED} on"


def _explain_unlimited(project: ProjectFile, tokens: list[Token], calls: list[Call]) -> str:
    """Return why meson-python refuses: an extension module of one Python in a limited wheel; "" if it may build."""
    if not _is_limited(project) or any(token.text in CONDITIONS for token in tokens):
        return ""
    modules = (call for call in calls if call.name == EXTENSION and call.keywords.get("install") == "true")
    bare = (call.place for call in modules if {"limited_api", "kwargs"}.isdisjoint(call.keywords))
    place = project.place("tool", "meson-python", "limited-api")
    return next((f"{at}: extension_module() without limited_api, against {place}: limited-api" for at in bare), "")


# ---------------------------------------------------------------- torch and GPUs


def _torch(tokens: list[Token]) -> TorchAbi | None:
    for token in tokens:
        if re.search(r"(?<![a-z])torch(?![a-z])", token.text):
            return TorchAbi(Binding.UNKNOWN, f"{token.place}: names torch", uses_torch=True)
    return None


def _archs(tokens: list[Token], calls: list[Call]) -> Iterator[Forced]:
    """Yield the GPU architectures that are written in flags."""
    for token in tokens:
        if token.kind == "text" and re.search(r"-gencode|--generate-code|-arch=sm_", token.text):
            yield Forced(token.text.strip("'"), str(token.place))
    for call in calls:
        if call.name == "nvcc_arch_flags":
            yield Forced("by Meson's nvcc_arch_flags()", str(call.place))
