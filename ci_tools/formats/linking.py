"""The system libraries that an ELF file needs, and how the loader finds and maps them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ci_tools.formats.elf import DYNAMIC_SEGMENT, Extent, read_elf

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

    from ci_tools.formats.elf import Elf


NEEDED, NAME, RPATH, RUNPATH, TEXTREL, FLAGS = 1, 14, 15, 29, 22, 30  # DT_NEEDED, DT_SONAME, …
FLAGS_1, NO_OPEN = 0x6FFFFFFB, 0x40  # DT_FLAGS_1, DF_1_NOOPEN
TEXTREL_FLAG = 4  # DF_TEXTREL
STACK = 0x6474E551  # PT_GNU_STACK
EXECUTABLE = 1  # PF_X
HIDDEN_VERSION = 0x8000  # a flag of a version's number
LIBRARY = 3  # ET_DYN
KINDS = {1: "an object file, which is not linked", 2: "a program", 4: "a core dump"}
CURRENT, SYSTEMS = 1, (0, 3)  # EV_CURRENT; ELFOSABI_NONE and ELFOSABI_GNU
DEBUG = (".debug_", ".zdebug_", ".gnu.debuglto_")


class Linking(NamedTuple):
    """The libraries an ELF file needs at run time, and the folders it searches."""

    name: str | None  # DT_SONAME, the name by which other files need it
    needed: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]  # a library and a version of its symbols, libc.so.6 and GLIBC_2.17
    run_paths: tuple[str, ...]  # RPATH and RUNPATH, unchanged
    inherited_paths: tuple[str, ...]  # those of them that its needed libraries are searched by as well: RPATH
    executable_stack: bool
    text_relocations: bool = False  # whether the loader has to modify its code: DT_TEXTREL, or its flag in DT_FLAGS
    debug_bytes: int = 0  # the size of all debug sections
    refusal: str = ""  # why the loader takes no such file; empty: it does


class Bindings(NamedTuple):
    """The symbols that an ELF file defines for others, and those it takes from others."""

    defined: frozenset[str]
    required: Mapping[str, str]  # with the library that must define it, by its version; "" if it has none
    weak: frozenset[str]  # taken from others, and may stay undefined


def symbols(library: BinaryIO) -> Bindings:
    """Return the dynamic symbols of an ELF file; raise Rejected if the file is malformed."""
    elf = read_elf(Extent.whole(library))
    owners = {one.number: one.library for one in elf.needed_versions()}
    versioned = elf.versioned_symbols() or tuple((symbol, 0) for symbol in elf.symbols(".dynsym"))
    taken = [(one, number) for one, number in versioned if not one.section and one.name]
    return Bindings(
        frozenset(one.name for one, _ in versioned if one.section and one.is_visible),
        {one.name: owners.get(number & ~HIDDEN_VERSION, "") for one, number in taken if not one.is_weak},
        frozenset(one.name for one, _ in taken if one.is_weak),
    )


def linking(library: BinaryIO) -> Linking:
    """Return the facts in the dynamic segment of an ELF file; raise Rejected if the file is malformed."""
    elf = read_elf(Extent.whole(library))
    return Linking(
        name=next(iter(elf.dynamic_texts(NAME)), None),
        needed=elf.dynamic_texts(NEEDED),
        versions=tuple((one.library, one.name) for one in elf.needed_versions()),
        run_paths=elf.dynamic_texts(RPATH, RUNPATH),
        inherited_paths=() if elf.dynamic_texts(RUNPATH) else elf.dynamic_texts(RPATH),  # ld.so(8): RUNPATH replaces it
        executable_stack=any(part.kind == STACK and part.flags & EXECUTABLE for part in elf.segments),
        text_relocations=any(tag == TEXTREL or (tag == FLAGS and value & TEXTREL_FLAG) for tag, value in elf.dynamic()),
        debug_bytes=sum(part.size for part in elf.sections if part.name.startswith(DEBUG)),
        refusal=_refusal(elf),
    )


def _refusal(elf: Elf) -> str:
    """Return why dlopen takes no such file; by glibc's `open_verify` and `_dl_map_object`."""
    version, system = elf.extent.read(6, 1)[0], elf.extent.read(7, 1)[0]
    if elf.kind != LIBRARY:
        return KINDS.get(elf.kind, f"a file of type {elf.kind}")
    if version != CURRENT:
        return f"ELF version {version}"
    if system not in SYSTEMS:
        return f"OS ABI {system}"
    if any(tag == FLAGS_1 and value & NO_OPEN for tag, value in elf.dynamic()):
        return "a library that may not be loaded with dlopen"
    return "" if any(part.kind == DYNAMIC_SEGMENT for part in elf.segments) else "no dynamic segment"
