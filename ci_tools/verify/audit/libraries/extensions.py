"""Rules about extension modules: their suffix, the function that a Python calls, and what the loader must find."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ci_tools.catalog.symbols import is_in_every_process, is_torch_symbol, missing_in
from ci_tools.formats.binaries.elf import Linking
from ci_tools.model.files import Level
from ci_tools.model.versions import Minor
from ci_tools.verify.audit.subject import DATA, Flaw, Member, Subject, abbreviate

# The suffixes of importlib.machinery.EXTENSION_SUFFIXES on any system, and those of PyPy and GraalPy.
SUFFIX = re.compile(
    r"(?:cpython-\d+[a-z]*(?:-[\w-]+)?\.so|cp\d+t?-win(?:32|_\w+)\.pyd|abi3t?\.(?:so|pyd)|(?:pypy|graalpy)\d[\w-]*\.so|so|pyd)"
)
TAG = re.compile(r"(?:cp3(?P<minor>\d+)|py3\d*)-(?P<abi>\w+)-(?P<platform>\w+)")
SYSTEM = re.compile(
    r"(?P<libc>many|musl)?(?:linux|win|macosx)\w*?_?(?P<machine>x86_64|i686|aarch64|armv7l|ppc64le|s390x|riscv64|loongarch64|amd64|arm64|32)$"
)
# The machine as configure names it in PLATFORM_TRIPLET, where it is not the tag's own name for it.
TRIPLETS = {"i686": "i386", "armv7l": "arm", "ppc64le": "powerpc64le"}
HARD_FLOAT = {"armv7l": "eabihf"}
SYSTEMS = {"ELF": "linux", "PE": "win", "Mach-O": "macosx", "Mach-O universal": "macosx"}
FIRST_WITH_MUSL = 10  # CPython 3.10 is the first that names musl (bpo-43112), older ones call themselves gnu
STALE = (
    "no Python but its own can import it, and that one takes it in place of the new one: an earlier build has left it"
)
INIT = re.compile(r"PyInitU?_|PyModExport_")  # PEP 489, PEP 793
OF_ONE_PYTHON = re.compile(r"cp3(?P<minor>\d+)-cp3\d+(?P<flags>[a-z]*)-")
PYTHON = re.compile(r"_?Py[A-Z_]")
# Libraries whose symbols all have versions, and the loader: what has none comes from elsewhere.
VERSIONED = re.compile(
    r"(?:libc|libm|libdl|libpthread|librt|libutil|libresolv|libgcc_s|libstdc\+\+)\.so\.\d+|ld(?:64)?-[\w.-]+"
)
# Python itself is linked with these, so that an extension takes their symbols without naming them.
OF_EVERY_PYTHON = re.compile(r"(?:libc|libm|libdl|libpthread|librt|libutil)\.so\.\d+|ld(?:64)?-[\w.-]+")
ORIGIN = re.compile(r"\$(?:ORIGIN|\{ORIGIN\})")


class NamedExtension(NamedTuple):
    """A file that Python may import: the member, the module's path, and what follows its name."""

    member: Member
    module: str  # demo/_c
    suffix: str  # cpython-311-x86_64-linux-gnu.so
    exports: frozenset[str]

    @property
    def is_module(self) -> bool:
        """Whether it has an init function of any name."""
        return any(map(INIT.match, self.exports))


def find_extensions(subject: Subject) -> tuple[NamedExtension, ...]:
    """Return the files that a Python may import, by their names; a plain `.so` only if it has an init function."""
    found = []
    for member in subject.members:
        folder, _, base = member.name.rpartition("/")
        name, _, ending = base.partition(".")
        if member.format and not member.is_grafted and SUFFIX.fullmatch(ending) and "/scripts/" not in member.name:
            one = NamedExtension(member, f"{folder}/{name}".lstrip("/"), ending, subject.exports(member))
            found += [one] if ending != "so" or one.is_module else []  # a plain .so may be loaded by its path
    return tuple(found)


def suffix(subject: Subject) -> Iterator[Flaw]:
    """Each extension module has a suffix that every Python of the tags looks for, and none is of another Python.

    A file that has no init function is not judged if the package loads libraries by their paths. A module of another
    Python beside the right one is left over from an earlier build: an error in a wheel of a plan, else a warning.
    """
    modules: dict[str, list[NamedExtension]] = {}
    for one in () if subject.is_pure else find_extensions(subject):
        if one.is_module or not subject.loads_by_path:
            modules.setdefault(one.module, []).append(one)
    for module, files in modules.items():
        fitting = {tag: found for tag in sorted(subject.tags) if (found := _list_suffixes(tag)) is not None}
        for tag, suffixes in fitting.items():
            if not any(one.suffix in suffixes for one in files):
                expected = f"{module.rpartition('/')[2]}.{suffixes[0]}"
                what = f"{abbreviate(one.member.name for one in files)} is not found by the Python of {tag}"
                effect = f"`import {module.replace('/', '.')}` fails on {tag}"
                yield Flaw(what, files[0].member.base, expected, effect=effect)
                break
        else:
            of_none = [one for one in files if fitting and not any(one.suffix in each for each in fitting.values())]
            for one in of_none:
                message = f"{one.member.name} is for another Python than {abbreviate(subject.tags)}"
                level = Level.ERROR if subject.job else Level.WARNING
                yield Flaw(message, one.suffix, "no such file in the source", level, effect=STALE)


def _list_suffixes(tag: str) -> tuple[str, ...] | None:
    """Return the suffixes by which the oldest Python of a tag finds a module, the best first; None if not known."""
    match = TAG.match(tag)
    system = SYSTEM.match(match["platform"]) if match else None
    if match is None or system is None:
        return None
    minor, abi = match["minor"], match["abi"]
    if match["platform"].startswith("win"):
        windows = "win32" if system["machine"] == "32" else f"win_{system['machine']}"
        # Windows' Pythons look for no `.abi3`
        return ("pyd",) if abi in {"abi3", "none"} else (f"{abi}-{windows}.pyd", "pyd")
    is_free = abi.endswith("t")
    general = ("abi3t.so", "so") if is_free else ("abi3.so", "so")
    if not minor or abi in {"abi3", "abi3t"} or not abi.startswith(("cp", "none")):
        return general
    flags = abi.removeprefix(f"cp3{minor}") if abi.startswith("cp") else ""
    return (
        *(f"cpython-3{minor}{flags}-{end}.so" for end in _list_triplets(match["platform"], system, int(minor))),
        *general,
    )


def _list_triplets(platform: str, system: re.Match[str], minor: int) -> tuple[str, ...]:
    if platform.startswith("macosx"):
        return ("darwin",)
    machine = TRIPLETS.get(system["machine"], system["machine"])
    ends = {"musl": ("musl",) if minor >= FIRST_WITH_MUSL else ("musl", "gnu"), "many": ("gnu",)}
    return tuple(
        f"{machine}-linux-{libc}{HARD_FLOAT.get(system['machine'], '')}"
        for libc in ends.get(system["libc"], ("gnu", "musl"))
    )


def init(subject: Subject) -> Iterator[Flaw]:
    """Each extension module has the init function of its name, `PyInit_NAME`.

    Without any init function, a library is not judged if the package loads libraries by their paths, as
    `torch.ops.load_library` does, and with another one not if its code then has that name, for
    `spec_from_file_location`.
    """
    for one in () if subject.is_pure else find_extensions(subject):
        expected = _name_init(one.module)
        is_of_system = any(SYSTEMS.get(one.member.format, "any") in tag for tag in subject.platforms)
        readable = (subject.readable_linkings, subject.readable_imports, subject.readable_machos)
        is_readable = is_of_system and any(one.member.name in each for each in readable)
        if not is_readable or expected & one.exports or (subject.loads_by_path and not one.is_module):
            continue
        if subject.loads_by_path and any(_is_said(subject, name) for name in filter(INIT.match, one.exports)):
            continue
        found = abbreviate(filter(INIT.match, one.exports))
        effect = f"`import {one.module.replace('/', '.')}` fails: it does not define its module export function"
        yield Flaw(f"{one.member.name} has no init function of its name", found, min(expected), effect=effect)


def _is_said(subject: Subject, function: str) -> bool:
    """Whether the Python code of the wheel has the name of an init function's module as a string."""
    name = re.compile(rf"""["']{re.escape(INIT.sub("", function))}["']""".encode())
    return any(name.search(member.read()) for member in subject.members if member.base.endswith(".py"))


def _name_init(module: str) -> frozenset[str]:
    """Return the functions that Python calls for a module: that of its name, or of its folder's for an `__init__`."""
    folder, _, name = module.rpartition("/")
    name = folder.rpartition("/")[2] if name == "__init__" else name
    if name.isascii():
        return frozenset({f"PyInit_{name}", f"PyModExport_{name}"})
    encoded = name.encode("punycode").decode().replace("-", "_")  # PEP 489, Export Hook Name
    return frozenset({f"PyInitU_{encoded}", f"PyModExportU_{encoded}"})


def python_versions(subject: Subject) -> Iterator[Flaw]:
    """Libraries for one Python take no symbol that it lacks: newer, removed, or of the other build of it.

    The tables are of Linux; a symbol that they know of no Python is judged by the rule for undefined symbols.
    """
    for tag in sorted(subject.tags):
        match = OF_ONE_PYTHON.match(tag)
        if match is None:
            continue
        python, is_free = Minor(3, int(match["minor"])), "t" in match["flags"]
        asked = {name: frozenset(found.required) for name, found in subject.symbols.items()}
        asked |= {
            name: frozenset().union(*(each.symbols for each in found))
            for name, found in subject.readable_imports.items()
        }
        asked |= {
            name: frozenset().union(*(each.required for each in found))
            for name, found in subject.readable_machos.items()
        }
        for name, symbols in asked.items():
            lacking = missing_in(python, filter(PYTHON.match, symbols - subject.defined), is_free=is_free)
            if lacking:
                build = f"{python}t" if is_free else str(python)
                effect = f"the import fails on Python {build}: undefined symbol"
                yield Flaw(
                    f"{name} asks for symbols that Python {build} lacks",
                    abbreviate(lacking),
                    "its own API",
                    effect=effect,
                )
        return


def undefined(subject: Subject) -> Iterator[Flaw]:
    """Every symbol that a library takes from others is defined by one of them, and each version's library is needed.

    Judged where all libraries that it needs are known: those of the wheel, and those of glibc and gcc, whose symbols
    have versions. An error for an extension module, whose symbols Python looks up at once; a warning for other
    libraries, and if another package may define the symbol.
    """
    if subject.is_pure:
        return
    names = subject.own_names
    modules = {one.member.name for one in find_extensions(subject) if one.is_module}
    for name, found in subject.symbols.items():
        linked = subject.readable_linkings[name]
        owners = {owner for owner in found.required.values() if owner and not OF_EVERY_PYTHON.fullmatch(owner)}
        lost = owners - _closure(subject, linked, names)
        if lost:
            effect = "the loader ends the process, or refuses the library"
            yield Flaw(
                f"{name} asks for versions of libraries that it does not need",
                abbreviate(lost),
                "DT_NEEDED",
                effect=effect,
            )
        if all(VERSIONED.fullmatch(one) or one in names for one in linked.needed):
            unowned = {one for one, owner in found.required.items() if not owner}
            unknown = unowned - subject.defined
            lacking = {one for one in unknown if not (is_in_every_process(one) or is_torch_symbol(one))}
            if lacking:
                level = Level.ERROR if name in modules and not subject.may_rely_on_others else Level.WARNING
                effect = "the import fails: undefined symbol"
                yield Flaw(
                    f"{name} takes symbols that nothing defines",
                    abbreviate(lacking),
                    "a library that it needs",
                    level,
                    effect,
                )


def _closure(subject: Subject, linked: Linking, names: frozenset[str]) -> frozenset[str]:
    """Return the libraries that are loaded with one: those it needs, and those that the wheel's own among them need."""
    # A loader goes by the soname, where a library has one.
    by_name = {one.name or name.rpartition("/")[2]: one for name, one in subject.readable_linkings.items()}
    found, left = set(), [*linked.needed]
    while left:
        library = left.pop()
        if library not in found:
            found.add(library)
            left += by_name[library].needed if library in names and library in by_name else ()
    return frozenset(found)


def needed(subject: Subject) -> Iterator[Flaw]:
    """Run paths lead to each library of the wheel that an extension module needs.

    A warning if the package loads libraries itself, which may be the needed ones. A path in place of a library's name
    is an error: it is one of the build machine.
    """
    for name, one in subject.readable_linkings.items():
        paths = [library for library in one.needed if "/" in library]
        if paths:
            effect = "the import fails wherever that file is not"
            yield Flaw(f"{name} needs a library by its path", abbreviate(paths), "a name: ld -soname", effect=effect)
    installed = {DATA.sub("", name): found for name, found in subject.readable_linkings.items()}
    for module in () if subject.is_pure else find_extensions(subject):
        if module.is_module and module.member.name in subject.readable_linkings:
            lost = _unreached(DATA.sub("", module.member.name), installed)
            if lost:
                level = Level.WARNING if subject.loads_by_path else Level.ERROR
                effect = f"`import {module.module.replace('/', '.')}` fails: cannot open shared object file"
                message = f"{module.member.name} does not reach a library of the wheel that it needs"
                yield Flaw(message, abbreviate(lost), "a run path such as $ORIGIN", level, effect)


def _unreached(root: str, linkings: Mapping[str, Linking]) -> frozenset[str]:
    """Return the libraries of the wheel that the loader does not find for one, in its order: breadth first."""
    by_base: dict[str, set[str]] = {}
    for name, one in linkings.items():
        for each in {name.rpartition("/")[2], one.name or ""} - {""}:
            by_base.setdefault(each, set()).add(name)
    lost: set[str] = set()
    known = {linkings[root].name or ""}  # a library that is loaded is found again by its soname
    queue: list[tuple[str, tuple[str, ...]]] = [(root, ())]
    while queue:
        file, inherited = queue.pop(0)
        one = linkings[file]
        # ld.so(8): DT_RPATH holds for the libraries of a library, too, and DT_RUNPATH only for its own needs.
        inherited = (*_folders(file, one.inherited_paths), *inherited)
        for library in one.needed:
            if library in known or library not in by_base:
                continue
            known.add(library)
            places = (posixpath.normpath(f"{each}/{library}") for each in (*_folders(file, one.run_paths), *inherited))
            found = next((place for place in places if place in linkings), None)
            if found is None:
                lost.add(library)
            else:
                known.add(linkings[found].name or "")
                queue.append((found, inherited))
    return frozenset(lost)


def _folders(file: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders of a library's run paths."""
    origin = posixpath.dirname(file) or "."
    return tuple(ORIGIN.sub(origin, part) for text in paths for part in text.split(":"))
