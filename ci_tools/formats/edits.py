"""Small edits of build files, from text to text: each changes only what it must, or returns None if it cannot.

Places in Python files are found by the syntax tree, places in other files by patterns. The text around them is kept.
"""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from ci_tools.model.versions import Minor, read_version

TORCH_EXTENSIONS = frozenset({"CppExtension", "CUDAExtension", "SyclExtension"})
EXTENSIONS = TORCH_EXTENSIONS | {"Extension"}
MAX_POSITIONAL = 3  # name, sources and include folders; the macros come next
SWITCH = "LIMITED_API"
SWITCHED = f'{SWITCH} = not sysconfig.get_config_var("Py_GIL_DISABLED")  # free-threaded Python has no limited API'


class TextEdit(NamedTuple):
    """A replacement for some bytes of a text."""

    start: int
    end: int
    text: str


class Argument(NamedTuple):
    """A keyword argument to set in a call; if its value is a list or dictionary already, `element` is added to that."""

    name: str
    value: str
    element: str = ""


# ---------------------------------------------------------------- setup.py


def extension_lines(text: str) -> tuple[int, ...]:
    """Return the line numbers of a setup.py on which an extension is created without `py_limited_api`."""
    module = _parse_module(text)
    calls = _calls(module, EXTENSIONS) if module else ()
    return tuple(call.lineno for call in calls if not any(one.arg == "py_limited_api" for one in call.keywords))


def declare_limited_api(text: str, lowest: Minor, *, free_threaded: bool) -> str | None:
    """Return a setup.py whose extensions and wheel declare the limited API (PEP 384) from `lowest` on.

    With `free_threaded`, it declares the limited API only if a Python with the GIL builds it.
    """
    module = _parse_module(text)
    if module is None or (free_threaded and SWITCH in text):
        return None
    version = f'"0x{lowest.major:02X}{lowest.minor:02X}0000"'
    tag = f'"bdist_wheel": {{"py_limited_api": "cp{lowest.digits}"}}'
    if_limited = f" if {SWITCH} else " if free_threaded else ""
    declared = Argument("py_limited_api", SWITCH if free_threaded else "True")
    macro = _argument_of("define_macros", f'[("Py_LIMITED_API", {version})]', if_limited)
    options = _argument_of("options", f"{{{tag}}}", if_limited)
    wanted = [(call, (declared,) if _name(call) in TORCH_EXTENSIONS else (declared, macro))
              for call in _calls(module, EXTENSIONS)]  # fmt: skip
    setups = [(call, (options,)) for call in _calls(module, {"setup"})]
    if not wanted or not setups:
        return None
    return _set_arguments(text, [*wanted, *setups], _switch(text, module) if free_threaded else [])


def set_target(text: str, target: Minor) -> str | None:
    """Return a setup.py whose extensions are compiled for torch's stable ABI from `target` on."""
    module = _parse_module(text)
    macro = _argument_of("define_macros", f'[("TORCH_TARGET_VERSION", "{_torch_hex(target)}")]')
    calls = list(_calls(module, EXTENSIONS)) if module else []
    return _set_arguments(text, [(call, (macro,)) for call in calls], []) if calls else None


def let_variable_ask(text: str) -> str | None:
    """Return a Python file that takes FORCE_CUDA=1 for a GPU wherever it asks for one; None if it never does."""
    module = _parse_module(text)
    editor = _Editor(text)
    functions = {getattr(node, "name", "") for node in ast.walk(module) if _tells_gpu(node)} if module else set()
    changes = [TextEdit(*editor.span(node), new) for node, new in _answer_by_variable(module, text, functions)]
    if module is None or not changes:
        return None
    edited = _apply_changes(text, [*_import_os(text, module), *changes])
    return edited if _parse_module(edited) else None


def _answer_by_variable(node: ast.AST | None, text: str, functions: Container[str]) -> Iterator[tuple[ast.expr, str]]:
    """Yield the outermost expressions that tell of a GPU, each with one that lets FORCE_CUDA tell of it as well."""
    variable = 'os.environ.get("FORCE_CUDA") == "1"'
    if isinstance(node, ast.expr) and _asks_gpu(node, functions):
        yield node, f"({ast.get_source_segment(text, node)} or {variable})"
        return
    if isinstance(node, ast.Try) and _names_smi(node.body):  # it ends in a handler where there is no GPU
        assigned = (one.value for handler in node.handlers for one in handler.body if isinstance(one, ast.Assign))
        yield from ((one, variable) for one in assigned if isinstance(one, ast.Constant) and one.value is False)
    for child in ast.iter_child_nodes(node) if node and not _tells_gpu(node) else ():
        yield from _answer_by_variable(child, text, functions)


def _asks_gpu(node: ast.expr, functions: Container[str]) -> bool:
    """Whether an expression is `torch.cuda.is_available()` or the like, or calls a function that tells of a GPU."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Gt, ast.GtE, ast.NotEq)):
        return ast.unparse(node.left) == "torch.cuda.device_count()"
    if isinstance(node, ast.Compare):  # an exit status that must be 0, or a path that must be there
        wanted = {ast.Eq: "0", ast.IsNot: "None"}.get(type(node.ops[0]))
        return ast.unparse(node.comparators[0]) == wanted and _names_smi([node.left])
    called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    is_found = called in {"shutil.which", "which"} and _names_smi([node])
    return called == "torch.cuda.is_available" or is_found or called in functions


def _tells_gpu(node: ast.AST) -> bool:
    """Whether a node is a function that asks nvidia-smi, and returns nothing but whether there is a GPU."""
    if not isinstance(node, ast.FunctionDef) or not _names_smi(node.body):
        return False
    told = [one.value for one in ast.walk(node) if isinstance(one, ast.Return)]
    sure = (ast.Compare, ast.BoolOp)
    return bool(told) and all(isinstance(getattr(one, "value", None), bool) or isinstance(one, sure) for one in told)


def _names_smi(nodes: Sequence[ast.AST]) -> bool:
    texts = (one.value for node in nodes for one in ast.walk(node) if isinstance(one, ast.Constant))
    return any(isinstance(one, str) and "nvidia-smi" in one for one in texts)


def _import_os(text: str, module: ast.Module) -> list[TextEdit]:
    """Return the change that imports os before the first other import; none if the file imports it."""
    imports = [node for node in module.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    plain = (alias for node in imports if isinstance(node, ast.Import) for alias in node.names)
    if any(alias.name == "os" and not alias.asname for alias in plain):
        return []
    others = [node for node in imports if not (isinstance(node, ast.ImportFrom) and node.module == "__future__")]
    at = _offsets(text)[others[0].lineno - 1] if others else 0
    return [TextEdit(at, at, "import os\n")]


def replace_once(text: str, old: str, new: str) -> str | None:
    """Return a text with another word in the place of one that it has exactly once; None if it has not."""
    edited, count = re.subn(rf"(?<![\w.]){re.escape(old)}(?!\w)", new, text)
    return edited if count == 1 else None


def _torch_hex(version: Minor) -> str:
    """Return a version in the format of TORCH_TARGET_VERSION: one byte each for major and minor, six zero bytes."""
    return f"0x{version.major:02x}{version.minor:02x}{0:012x}"


def _argument_of(name: str, value: str, condition: str = "") -> Argument:
    """Return an argument with a list or dictionary of one element, which is empty unless a condition holds."""
    if not condition:
        return Argument(name, value, value[1:-1])
    whole = f"{value}{condition}{value[0]}{value[-1]}"
    return Argument(name, whole, f"{'*' if value[0] == '[' else '**'}({whole})")


def _switch(text: str, module: ast.Module) -> list[TextEdit]:
    """Return the change that defines the switch after the last top-level import."""
    imports = [node for node in module.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    has_it = any(alias.name == "sysconfig" for node in imports for alias in node.names)
    at = _offsets(text)[imports[-1].end_lineno or 0] if imports else 0
    return [TextEdit(at, at, f"{'' if has_it else 'import sysconfig' + chr(10)}\n{SWITCHED}\n")]


def _parse_module(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _calls(module: ast.Module, names: frozenset[str] | set[str]) -> Iterator[ast.Call]:
    found = (node for node in ast.walk(module) if isinstance(node, ast.Call) and _name(node) in names)
    yield from sorted(found, key=lambda call: (call.lineno, call.col_offset))


def _set_arguments(
    text: str, wanted: Iterable[tuple[ast.Call, tuple[Argument, ...]]], changes: list[TextEdit]
) -> str | None:
    """Return a text whose calls have the wanted arguments; None if a call's present arguments are unclear (`**`)."""
    editor = _Editor(text)
    for call, arguments in wanted:
        if len(call.args) > MAX_POSITIONAL or any(keyword.arg is None for keyword in call.keywords):
            return None
        old = {keyword.arg: keyword.value for keyword in call.keywords}
        changed = [editor.changed(old[one.name], one) for one in arguments if one.name in old]
        if None in changed:
            return None
        missing = [f"{one.name}={one.value}" for one in arguments if one.name not in old]
        changes = [*changes, *filter(None, changed), *([editor.append_arguments(call, missing)] if missing else [])]
    edited = _apply_changes(text, changes)
    return edited if changes and _parse_module(edited) else None


class _Editor:
    """A Python source text, and the offset of each of its lines."""

    def __init__(self, text: str) -> None:
        self.data = text.encode()
        self.offsets = _offsets(text)

    def span(self, node: ast.expr) -> tuple[int, int]:
        """Return the byte offsets at which a node starts and ends."""
        end = self.offsets[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        return self.offsets[node.lineno - 1] + node.col_offset, end

    def changed(self, old: ast.expr, argument: Argument) -> TextEdit | None:
        """Return the change from a call's present value to the wanted one; None if a person has to decide it."""
        start, end = self.span(old)
        if isinstance(old, ast.Constant) and old.value in {None, False, True}:
            return TextEdit(start, end, argument.value)
        if isinstance(old, (ast.List, ast.Dict)) and argument.element:
            return self.grown(old, argument.element)
        if argument.name == "define_macros" and isinstance(old, (ast.Name, ast.Attribute)):
            return TextEdit(start, end, f"[*{ast.unparse(old)}, {argument.element}]")
        return None

    def grown(self, node: ast.List | ast.Dict, element: str) -> TextEdit | None:
        """Return the change that adds an element to a list or dictionary literal."""
        values = node.elts if isinstance(node, ast.List) else node.values
        if isinstance(node, ast.Dict) and any(getattr(key, "value", None) == "bdist_wheel" for key in node.keys):
            return None
        if values:
            return self.after(values[-1], [element], values[-1])
        start, _ = self.span(node)
        return TextEdit(start + 1, start + 1, element)

    def append_arguments(self, call: ast.Call, arguments: list[str]) -> TextEdit:
        """Return the change that adds arguments to a call, after its last one."""
        values = {keyword.value: keyword for keyword in call.keywords}
        nodes = [*call.args, *values]
        if nodes:
            last = max(nodes, key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0))
            return self.after(last, arguments, values.get(last, last))
        _, end = self.span(call)
        return TextEdit(end - 1, end - 1, ", ".join(arguments))

    def after(self, node: ast.expr, added: list[str], first: ast.expr | ast.keyword) -> TextEdit:
        """Return the change that adds text after a node; on separate lines if `first` starts a line of its own."""
        _, end = self.span(node)
        before = self.data[self.offsets[first.lineno - 1] :][: first.col_offset].decode()
        if before.strip():
            return TextEdit(end, end, "".join(f", {one}" for one in added))
        tail = re.match(rb"(,?)([ \t]*(?:#[^\n]*)?\n)", self.data[end:])
        if tail is None:
            return TextEdit(end, end, "".join(f",\n{before}{one}" for one in added))
        lines = f",\n{before}".join(added)
        return TextEdit(end, end + len(tail[0]), f",{tail[2].decode()}{before}{lines}{tail[1].decode()}\n")


# ---------------------------------------------------------------- offsets


def _offsets(text: str) -> list[int]:
    """Return the offset of each line, and of the end, in UTF-8 bytes: the syntax tree counts columns in bytes."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _apply_changes(text: str, changes: Iterable[TextEdit]) -> str:
    """Return the text with all changes applied; changes at the same place are joined in their order."""
    data = text.encode()
    ordered = sorted(changes, key=lambda change: (change.start, change.end))
    for (start, end), group in reversed([(key, list(found)) for key, found in groupby(ordered, lambda one: one[:2])]):
        data = data[:start] + "".join(change.text for change in group).encode() + data[end:]
    return data.decode()


# ---------------------------------------------------------------- meson.build

MESON_TOKEN = re.compile(r"f?'''.*?'''|f?'(?:\\.|[^'\\\n])*'|#[^\n]*|[()]", re.DOTALL)


def declare_meson_limited_api(text: str, lowest: Minor) -> str | None:
    """Return a meson.build whose extension modules use the limited API from `lowest` on."""
    starts = [match.end() for match in re.finditer(r"\bextension_module\s*\(", text)]
    if not starts or "limited_api" in text:
        return None
    for start in reversed(starts):
        end = _closing(text, start)
        inside = text[start:end].rstrip() if end else ""
        last = inside.rpartition("\n")[2]
        if end is None or "#" in last:
            return None
        indent = re.match(r"\s*", last)[0] if "\n" in inside else ""  # type: ignore[index]  # it matches everything
        separator = f"{'' if inside.endswith(',') else ','}{chr(10) if indent else ' '}{indent}"
        tail = text[start + len(inside) : end]
        text = f"{text[:start]}{inside}{separator}limited_api: '{lowest}'{tail and ',' + tail}{text[end:]}"
    return text


def _closing(text: str, start: int) -> int | None:
    """Return the offset of the parenthesis that closes the call whose arguments start at `start`."""
    depth = 1
    for token in MESON_TOKEN.finditer(text, start):
        depth += (token[0] == "(") - (token[0] == ")")
        if depth == 0:
            return token.start()
    return None


# ---------------------------------------------------------------- CMakeLists.txt

ADD_LIBRARY = re.compile(r"(\bPython3?_add_library\s*\(\s*\S+\s+MODULE)\b([^)]*)", re.IGNORECASE)
ADD_NANOBIND = re.compile(r"(\bnanobind_add_module\s*\(\s*\S+)(\s+)(?!.*\bSTABLE_ABI\b)", re.IGNORECASE)
DEVELOPMENT = re.compile(r"\bDevelopment(?:\.Module)?(?![.\w])")
PROJECT = re.compile(r"^project\s*\([^)]*\)[^\n]*\n", re.MULTILINE | re.IGNORECASE)
DEFINITIONS = re.compile(r"^add_(?:compile_)?definitions\s*\([^)]*\)[^\n]*\n", re.MULTILINE | re.IGNORECASE)


def declare_cmake_limited_api(text: str) -> str | None:
    """Return a CMakeLists.txt whose Python modules use the limited API if scikit-build-core requests it."""
    if not DEVELOPMENT.search(text) or "SABI" in text or not (ADD_LIBRARY.search(text) or ADD_NANOBIND.search(text)):
        return None
    edited = ADD_LIBRARY.sub(_limit_module, text)
    edited = ADD_NANOBIND.sub(r"\1 STABLE_ABI\2", edited)
    return DEVELOPMENT.sub(r"\g<0> ${SKBUILD_SABI_COMPONENT}", edited)


def _limit_module(call: re.Match[str]) -> str:
    """Return a call with USE_SABI; after its version, which may be empty, must come a keyword and not a source file."""
    others = re.sub(r"\s+WITH_SOABI\b", "", call[2])
    return f"{call[1]} USE_SABI ${{SKBUILD_SABI_VERSION}} WITH_SOABI{others}"


def set_cmake_target(text: str, target: Minor) -> str | None:
    """Return a CMakeLists.txt that defines TORCH_TARGET_VERSION for everything it compiles."""
    found = [*DEFINITIONS.finditer(text)] or [*PROJECT.finditer(text)]
    if not found or "TORCH_TARGET_VERSION" in text:
        return None
    at = found[-1].end()
    return f"{text[:at]}add_compile_definitions(TORCH_TARGET_VERSION={_torch_hex(target)})\n{text[at:]}"


# ---------------------------------------------------------------- a project's version

TOML_VERSION = re.compile(
    r"""^[ \t]*\[[ \t]*(?:project|tool\.poetry)[ \t]*\][^\n]*\n  # the table
        (?:(?![ \t]*\[)[^\n]*\n)*?  # other keys of it
        [ \t]*version[ \t]*=[ \t]*(?P<quote>["'])(?P<version>[^"'\n]*)(?P=quote)""",
    re.MULTILINE | re.VERBOSE,
)
INI_VERSION = re.compile(
    r"^\[metadata\][^\n]*\n(?:(?!\[)[^\n]*\n)*?version[ \t]*[=:][ \t]*(?P<version>[^\s#;]+)", re.MULTILINE
)
QUOTED_VERSION = re.compile(r"""(?<![\w"'])(?P<quote>["'])(?P<version>v?\d[^"'\s]{0,63})(?P=quote)""")
NAMED_VERSION = re.compile(r"\s*(?:#\s*define\s+)?\w*version\w*\b", re.IGNORECASE)  # start of a line with it


def set_toml_version(text: str, version: str) -> str | None:
    """Return a pyproject.toml with another version in `[project]` and `[tool.poetry]`; None if neither has one."""
    spans = [found.span("version") for found in TOML_VERSION.finditer(text)]
    for span in reversed(spans):
        text = _replace_span(text, span, version)
    return text if spans else None


def set_ini_version(text: str, version: str) -> str | None:
    """Return a setup.cfg with another project version."""
    found = INI_VERSION.search(text)
    edited = _replace_span(text, found.span("version"), version) if found else text
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(edited)
    return edited if parser.get("metadata", "version", fallback="") == version else None


def set_version(text: str, version: str) -> str | None:
    """Return a file with another version of the same release, if it holds one in quotes or consists of one.

    None if the version is not certain: the file has none, or several of which not exactly one has a telling name.
    """
    whole = re.fullmatch(r"\s*(?P<version>\S{1,64})\s*", text)
    found = [one for one in ([whole] if whole else QUOTED_VERSION.finditer(text)) if _is_of(one["version"], version)]
    named = [one for one in found if NAMED_VERSION.match(text, text.rfind("\n", 0, one.start()) + 1, one.start() + 1)]
    sure = named if len(found) > 1 else found
    return _replace_span(text, sure[0].span("version"), version) if len(sure) == 1 else None


def _is_of(text: str, version: str) -> bool:
    """Whether a text is a version of the same release, a pre-release included."""
    found, wanted = read_version(text), read_version(version)
    return found is not None and wanted is not None and found.base_version == wanted.base_version


def _replace_span(text: str, span: tuple[int, int], new: str) -> str:
    return f"{text[: span[0]]}{new}{text[span[1] :]}"
