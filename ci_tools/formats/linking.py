"""The system libraries that an ELF file needs, and how the loader finds and maps them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ci_tools.formats.elf import Extent, read_elf

if TYPE_CHECKING:
    from typing import BinaryIO

    from ci_tools.formats.elf import Elf

NEEDED, NAME, RPATH, RUNPATH, TEXTREL, FLAGS = 1, 14, 15, 29, 22, 30  # DT_NEEDED, DT_SONAME, …
TEXTREL_FLAG = 4  # DF_TEXTREL
STACK = 0x6474E551  # PT_GNU_STACK
EXECUTABLE = 1  # PF_X
DEBUG = (".debug_", ".zdebug_", ".gnu.debuglto_")


class Linking(NamedTuple):
    """The libraries an ELF file needs at run time, and the folders it searches."""

    name: str | None  # DT_SONAME, the name by which other files need it
    needed: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]  # a library and a version of its symbols, libc.so.6 and GLIBC_2.17
    run_paths: tuple[str, ...]  # RPATH and RUNPATH, unchanged
    executable_stack: bool
    text_relocations: bool = False  # whether the loader has to modify its code
    debug_bytes: int = 0  # the size of all debug sections


def linking(library: BinaryIO) -> Linking:
    """Return the facts in the dynamic segment of an ELF file; raise Rejected if the file is malformed."""
    elf = read_elf(Extent.whole(library))
    return Linking(
        name=next(iter(elf.dynamic_texts(NAME)), None),
        needed=elf.dynamic_texts(NEEDED),
        versions=tuple((one.library, one.name) for one in elf.needed_versions()),
        run_paths=elf.dynamic_texts(RPATH, RUNPATH),
        executable_stack=any(part.kind == STACK and part.flags & EXECUTABLE for part in elf.segments),
        text_relocations=_relocates_text(elf),
        debug_bytes=sum(part.size for part in elf.sections if part.name.startswith(DEBUG)),
    )


def _relocates_text(elf: Elf) -> bool:
    """Whether the dynamic segment announces text relocations: by DT_TEXTREL, or by its flag in DT_FLAGS."""
    return any(tag == TEXTREL or (tag == FLAGS and value & TEXTREL_FLAG) for tag, value in elf.dynamic())
