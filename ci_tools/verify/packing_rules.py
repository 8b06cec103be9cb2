"""Reads what a project says that its distributions leave out, in the files of every build backend.

Patterns are read generously: one that might mean a file counts, as it shows that somebody thought of it.
"""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from ci_tools.errors import InputError
from ci_tools.formats.path_patterns import is_pattern, matcher_of
from ci_tools.formats.toml.text import parse_toml
from ci_tools.source.syntax import parse_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ci_tools.source.files import Tree

LEAVES_OUT = "exclude"  # part of the key in every backend: wheel-exclude, exclude-package-data, excludes
# https://setuptools.pypa.io/en/latest/userguide/miscellaneous.html: of `recursive-exclude`, the first word is a folder.
MANIFEST = {"exclude": "/{}", "global-exclude": "{}", "prune": "/{}/"}
INI = re.compile(r"^\[options\.(?:exclude_package_data|packages\.find)\]\n((?:(?!\[).*\n?)*)", re.MULTILINE)
CALLS = (  # of Meson: install_subdir(…, exclude_files: ['a']); of CMake: install(DIRECTORY … PATTERN "a" EXCLUDE)
    ("meson.build", re.compile(r"exclude_(?:files|directories)\s*:\s*(\[[^\]]*\]|'[^']*')"), re.compile(r"'([^']+)'")),
    ("CMakeLists.txt", re.compile(r"PATTERN\s+\S+\s+EXCLUDE"), re.compile(r'PATTERN\s+"?([^"\s]+)"?')),
)


def left_out_by_rule(tree: Tree, folder: str) -> Callable[[str, str], bool]:
    """Return what says whether a rule of the project in `folder` leaves out a file, and how its package knows it.

    It takes the file's path in the tree and its path in the package.
    """
    start = f"{folder}/" if folder not in {"", "."} else ""
    matches = matcher_of(tuple(dict.fromkeys(filter(is_pattern, map(_clean, _rules(tree, start))))))
    return lambda name, inner: any(map(matches, (name, name.removeprefix(start), inner)))


def _clean(pattern: str) -> str:
    """Return a pattern in gitignore's words; a package of `find` such as `demo.tests*` becomes its folder."""
    looks_dotted = re.fullmatch(r"[\w*]+(\.[\w*]+)+", pattern) and not re.search(r"\*\.\w+$|^\w+\.\w{1,4}$", pattern)
    return pattern.replace(".", "/") if looks_dotted else pattern.removeprefix("./")


def _rules(tree: Tree, start: str) -> Iterator[str]:
    yield from _of_manifest(tree.text(f"{start}MANIFEST.in"))
    yield from _of_attributes(tree.text(f"{start}.gitattributes"))
    for name, keys in (("pyproject.toml", ("tool",)), ("hatch.toml", ())):
        yield from _of_toml(tree.text(f"{start}{name}"), name, keys)
    for section in INI.finditer(tree.text(f"{start}setup.cfg")):
        yield from re.split(r"[\s,]+", re.sub(r"^\s*\S+\s*=", " ", section[1], flags=re.MULTILINE))
    yield from _of_setup(tree.text(f"{start}setup.py"))
    for file, call, pattern in CALLS:
        for name in (name for name in tree.files if name.startswith(start) and name.endswith(file)):
            yield from (found for said in call.finditer(tree.text(name)) for found in pattern.findall(said[0]))


def _of_manifest(text: str) -> Iterator[str]:
    for line in text.replace("\\\n", " ").splitlines():
        action, *words = line.split("#")[0].split() or [""]
        if action in MANIFEST:
            yield from map(MANIFEST[action].format, (word.strip("/") for word in words))
        elif action == "recursive-exclude" and words:
            yield from (f"/{words[0].strip('/')}/**/{word}" for word in words[1:])


def _of_attributes(text: str) -> Iterator[str]:
    """Yield what `git archive` leaves out (gitattributes(5)): sdists of setuptools-scm and scikit-build-core do so."""
    for pattern, *attributes in filter(None, map(str.split, text.splitlines())):
        if "export-ignore" in attributes:
            yield pattern


def _of_toml(text: str, name: str, keys: Iterable[str]) -> Iterator[str]:
    try:
        content = parse_toml(text, name)
    except InputError:  # the build has read it: it is another backend's to complain
        return
    for key in keys:
        content = content.get(key, {})
    yield from _texts_left_out(content, told=False)


def _texts_left_out(value: object, *, told: bool) -> Iterator[str]:
    """Yield every text below a key that leaves something out."""
    if isinstance(value, str) and told:
        yield value
    for each in value if isinstance(value, (list, tuple)) else ():
        yield from _texts_left_out(each, told=told)
    for key, each in value.items() if isinstance(value, dict) else ():
        yield from _texts_left_out(each, told=told or LEAVES_OUT in key)


def _of_setup(text: str) -> Iterator[str]:
    """Yield the texts of arguments such as `exclude_package_data={"demo": ["*.cu"]}`."""
    module = parse_module(text) or ast.Module([], [])  # a setup.py may be of another Python's
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call)]
    for value in (word.value for call in calls for word in call.keywords if LEAVES_OUT in (word.arg or "")):
        with suppress(ValueError):  # it is computed: what it leaves out is not known
            yield from _texts_left_out(ast.literal_eval(value), told=True)
