"""Finds the files of a package's folder that no wheel has: data that the installed package would look for in vain.

Builds go well without them, and so does the import: the first call that reads one fails at a user's.
"""

from __future__ import annotations

import ast
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import InputError
from ci_tools.formats.path_patterns import is_pattern, matcher_of
from ci_tools.formats.toml import parse_toml
from ci_tools.machine.context import Outside
from ci_tools.model.plan import JobKind
from ci_tools.source.syntax import parse_module

if TYPE_CHECKING:
    from ci_tools.plan.make import Planned
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


MAX_NAMED = 4  # files that a sentence names
# Sources for a compiler: data only where the package reads them.
COMPILED = (
    r"\.(?:c|cc|cpp|cxx|cu|cuh|h|hh|hpp|hxx|hip|inl|inc|ipp|tpp|m|mm|s|asm|f|f90|for|ptx|sycl|pyx|pxd|pxi|rs|go|zig|i|def|ld"
    r"|map|cl|proto|y|l)"
)
NAMED = re.compile(rf"""([\w-]+|[}}*])({COMPILED})["']""")  # in a module: "a.cuh", f"{{name}}.cuh", "*.cuh"
# For the people and tools that work on the source, not for who runs it.
FOR_WORK = re.compile(
    r"(^|/)(\.[^/]*|__pycache__|tests?|testing|docs?|examples?|benchmarks?|ci|cmake|build|third_?party|vendor|externals?"
    r"|submodules?)/"
    r"|(^|/)(\.[^/]*|conftest\.py|test_[^/]*|[^/]*_test\.py|setup(_package)?\.(py|cfg)|CMakeLists\.txt|Makefile[^/]*"
    r"|meson\.build"
    r"|meson_options\.txt|meson\.options|BUILD(\.bazel)?|Cargo\.(toml|lock)|pyproject\.toml|MANIFEST\.in|SConscript"
    r"|(README|LICEN[SC]E|COPYING|NOTICE|CHANGELOG|CHANGES|AUTHORS|CONTRIBUTING|TODO|HISTORY|OWNERS)[^/]*"
    r"|[^/]*\.(md|rst|in|cmake|orig|rej|patch|bat|build))$",
    re.IGNORECASE,
)


class PackageFolder(NamedTuple):
    """A folder of the source, and the folder of wheels that has its modules."""

    source: str
    installed: str


class Packed(NamedTuple):
    """What some wheels have: the names of their members, the contents, and the sources that their modules name."""

    names: frozenset[str]
    contents: frozenset[tuple[int, int]]  # size and CRC-32
    reads: frozenset[str]  # such as a.cuh and *.cuh


def warn_left_out(planned: Planned, wheels: Iterable[Path], outside: Outside) -> None:
    """Say which files of the source's packages none of the wheels has."""
    compiles = any(job.kind is JobKind.NATIVE for job in planned.plan.jobs)
    for sentence in find_left_out(planned.tree, planned.plan.request.subdirectory, wheels, compiles=compiles):
        outside.reporter.say(f"warning: {sentence}")


def find_left_out(tree: Tree, folder: str, wheels: Iterable[Path], *, compiles: bool) -> Iterator[str]:
    """Yield a sentence for each package that has files which none of the wheels of the project in `folder` has."""
    packed, by_rule = read_packed(wheels), left_out_by_rule(tree, folder)
    for package in find_package_folders(tree, packed):
        start = len(package.source) + 1
        names = (name for name in files_left_out(tree, package, packed) if not by_rule(name, name[start:]))
        missing = sorted(name[start:] for name in names if not compiles or not _is_compiled(name[start:], packed))
        if missing:
            yield f"{package.source} has {_named(missing)}"


def _named(missing: list[str]) -> str:
    more = f" and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED else ""
    one = len(missing) == 1
    shown = f"{', '.join(missing[:MAX_NAMED])}{more}"
    advice = f"name {'it' if one else 'them'} as package data, or leave {'it' if one else 'them'} out by a rule"
    return f"{'a file' if one else f'{len(missing)} files'} that no wheel built here has: {shown}; {advice}"


def read_packed(wheels: Iterable[Path]) -> Packed:
    """Read the members of wheels that were audited."""
    names, contents, reads = set(), set(), set()
    for path in wheels:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                name = re.sub(r"^[^/]+\.data/(?:purelib|platlib|data)/", "", member.filename)
                names.add(name)
                contents.add((member.file_size, member.CRC))  # which the archive itself states
                if name.endswith(".py") and not FOR_WORK.search(name):  # a test's files are not the package's
                    named = NAMED.findall(archive.read(member).decode(errors="replace"))
                    reads |= {f"{'*' if stem == '}' else stem}{suffix}" for stem, suffix in named}
    return Packed(frozenset(names), frozenset(contents), frozenset(reads))


def find_package_folders(tree: Tree, packed: Packed) -> Iterator[PackageFolder]:
    """Yield the folders of the top-level packages of wheels: where most of its modules lie under the same names.

    A project whose root is its package has none: everything of it is there.
    """
    counted: dict[str, dict[str, int]] = {}
    for name in (name for name in tree.files if name.endswith(".py")):
        parts = name.split("/")
        inner = next((at for at in range(len(parts) - 1) if "/".join(parts[at:]) in packed.names), None)
        if inner is not None:
            found = counted.setdefault(parts[inner], {})
            source = "/".join(parts[: inner + 1])
            found[source] = found.get(source, 0) + 1
    for installed, found in sorted(counted.items()):
        yield PackageFolder(max(sorted(found), key=found.__getitem__), installed)


def files_left_out(tree: Tree, package: PackageFolder, packed: Packed) -> Iterator[str]:
    """Yield the files of a package's folder that are in no wheel, under no name, and not for work on the source."""
    for name in tree.files:
        inner = name.removeprefix(f"{package.source}/")
        if inner == name or f"{package.installed}/{inner}" in packed.names or FOR_WORK.search(inner):
            continue
        if not (tree.root / name).is_file():
            continue
        content = (tree.root / name).read_bytes()
        if not content and not name.endswith("py.typed"):  # PEP 561: it is empty, and means something
            continue
        if not content or (len(content), zlib.crc32(content)) not in packed.contents:
            yield name


def _is_compiled(name: str, packed: Packed) -> bool:
    """Whether a file of a package is for a compiler, and no module names it; a folder `src` has no other files."""
    path = PurePosixPath(name)
    is_source = re.fullmatch(COMPILED, path.suffix) or "src" in path.parts
    return bool(is_source) and packed.reads.isdisjoint({path.name, f"*{path.suffix}"})
