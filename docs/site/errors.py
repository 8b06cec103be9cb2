"""A page for each error that names a page of the documentation: what it says, its exit status, and what helps.

The sentences are read from the calls in ci_tools, with `…` for what a run fills in. What helps is the section that the
error names, so that a search for the words of a message leads to it.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Relink = Callable[[str, Path, str], str]

FOLDER = "errors"
FILLED = "…"  # stands for what is known only at run time
# The titles of errors that list what was found, one line for each.
LISTS: Mapping[str, str] = {
    "how-to/adopt-an-index.md": "An installer would take another file after the adoption",
    "how-to/choose-a-toolchain.md#an-older-glibc-than-this-machines": "A wheel needs a newer glibc than its tag says",
    "how-to/install-from-pypi.md#release-it": "A smart sdist needs a place where its wheels are",
    "how-to/install-from-the-index.md#changing-what-is-published": "The index has this file with other bytes",
    "how-to/serve-a-platform.md#native-code": "A platform contradicts its source",
    "how-to/understand-a-skipped-or-native-cell.md#hollow-wheels": "Every wheel of a platform would lack a source",
    "reference/audit-rules.md": "The audit rejects a file",
    "reference/build-failures.md#lfs-pointer": "A source is a pointer of Git LFS",
    "reference/config.md": "fatwheel.yml has mistakes",
}
STATUSES: Mapping[int, str] = {
    1: "the work was done and judged bad",
    2: "the input is wrong",
    3: "the machine or the network failed, and trying again may help",
}
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Hinted:
    """An error of the code that names a page: its sentence and hint, as far as the code says them."""

    message: str
    hint: str
    page: str
    status: int

    @property
    def title(self) -> str:
        """What the error says in one line; raise KeyError for a list of problems that has no title here."""
        first = re.sub(f"{FILLED}+", FILLED, self.message.partition("\n")[0]).removesuffix(f": {FILLED}").rstrip(":")
        if first == FILLED:
            return LISTS[self.page]
        return first[:1].upper() + first[1:] if first.split()[0].isalpha() else first

    @property
    def name(self) -> str:
        """The name of its page."""
        words = re.findall(r"[a-z0-9]+", self.title.lower())
        return "-".join(words[:8])


def error_pages(root: Path, relink: Relink) -> Iterator[tuple[str, str]]:
    """Yield the path on the site and the text of each page, and of the page that lists them.

    `relink` returns a text of one page with the links that it needs on another.
    """
    found = sorted({one.name: one for one in find_hinted(root / "ci_tools")}.items())
    for name, hinted in found:
        place = f"{FOLDER}/{name}.md"
        title, section = _section(root / errors.DOCUMENTATION, hinted.page)
        source = Path(errors.DOCUMENTATION) / hinted.page.partition("#")[0]
        yield place, _page(hinted, title, relink(section, source, place))
    links = "\n".join(f"- [](../{FOLDER}/{name}.md)" for name, _ in found)
    names = "\n".join(name for name, _ in found)
    intro = "Errors that are met often, each with what helps. An error ends with the page of the documentation to read."
    yield f"{FOLDER}/index.md", f"# Errors\n\n{intro}\n\n{links}\n\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"


def find_hinted(package: Path) -> Iterator[Hinted]:
    """Yield each error of the package's modules that is given a `page`."""
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if lines := [number for number, line in enumerate(text.split("\n"), 1) if "page=" in line]:
            yield from _find_in(ast.parse(text), lines)


def _find_in(module: ast.Module, lines: list[int]) -> Iterator[Hinted]:
    """Yield the errors of a module that has `page=` in some lines: a function without one makes none."""
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    for function in functions:
        if any(function.lineno <= line <= (function.end_lineno or 0) for line in lines):
            nodes = list(ast.walk(function))
            names = _assigned(module.body) | _assigned(nodes)
            yield from (
                _hinted(node, names) for node in nodes if isinstance(node, ast.Call) and _names_a_page(node, names)
            )


def _names_a_page(call: ast.Call, names: Mapping[str, list[ast.Assign]]) -> bool:
    word = next((word for word in call.keywords if word.arg == "page"), None) if call.args else None
    text = _text(word.value, names, call.lineno) if word else ""
    return re.fullmatch(r"[\w-]+/[\w-]+\.md(#[\w-]+)?", text) is not None


def _hinted(node: ast.Call, names: Mapping[str, list[ast.Assign]]) -> Hinted:
    given = {word.arg: _text(word.value, names, node.lineno) for word in node.keywords}
    kind = getattr(errors, _called(node), errors.InputError)
    return Hinted(_text(node.args[0], names, node.lineno), given.get("hint", ""), given["page"], kind.status)


def _called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _assigned(nodes: list[ast.AST] | list[ast.stmt]) -> dict[str, list[ast.Assign]]:
    """Return the assignments to each name."""
    found: dict[str, list[ast.Assign]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node)
    return found


def _text(node: ast.expr, names: Mapping[str, list[ast.Assign]], line: int) -> str:
    """Return what an expression says, as far as the code shows it."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, names, line) for part in node.values)
    if isinstance(node, ast.IfExp):
        return _text(node.body, names, line) or _text(node.orelse, names, line)
    if isinstance(node, ast.Name):
        before = [assign for assign in names.get(node.id, []) if assign.lineno < line]
        latest = max(before, key=lambda assign: assign.lineno, default=None)
        return _text(latest.value, names, latest.lineno) if latest else FILLED
    return FILLED


def _page(hinted: Hinted, title: str, section: str) -> str:
    message = f"fatwheel: {hinted.message}".replace("\n", "\n  ")
    hint = f"\n  hint: {hinted.hint}" if hinted.hint.strip(FILLED) else ""
    shown = f"```text\n{message}{hint}\n  {errors.SEE}{hinted.page}\n```"
    status = f"Exit status {hinted.status}: {STATUSES[hinted.status]}. A `{FILLED}` stands for what a run fills in."
    helps = f"From [{title}](../{hinted.page}):\n\n{section}"
    return f"# {hinted.title}\n\n{shown}\n\n{status}\n\n## What helps\n\n{helps}\n"


def _section(docs: Path, page: str) -> tuple[str, str]:
    """Return the title and text of the section that an anchor names; without an anchor, a page's first paragraph."""
    path, _, anchor = page.partition("#")
    text = (docs / path).read_text(encoding="utf-8")
    code = [match.span() for match in FENCE.finditer(text)]
    headings = [match for match in HEADING.finditer(text) if not any(a < match.start() < b for a, b in code)]
    place = next(place for place, match in enumerate(headings) if not anchor or _slug(match[2]) == anchor)
    level = len(headings[place][1])
    after = (match for match in headings[place + 1 :] if not anchor or len(match[1]) <= level)
    end = next((match.start() for match in after), len(text))
    body = text[headings[place].end() : end].strip()
    own = (body if anchor else body.partition("\n\n")[0]).replace("](#", f"]({Path(path).name}#")
    return headings[place][2], own


def _slug(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
