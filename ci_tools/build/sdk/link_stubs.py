"""Makes the libraries that a linker is shown in place of the real ones: their names, their symbols, and no code.

A linker takes two things of a shared library: its soname, which goes into DT_NEEDED, and which undefined symbols it
defines. With `--as-needed`, Ubuntu's default, a library that defines none of them is left out of DT_NEEDED: so a stub
without symbols would be left out of every wheel, and the wheel would not load.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.errors import MachineError
from ci_tools.formats.elf import Extent, read_elf
from ci_tools.machine.process import complaint, run

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["exports_of", "make_stub"]

SYMBOL = re.compile(r"[A-Za-z_.$][\w.$]*")  # what an assembler takes without quotes


def exports_of(library: Path) -> frozenset[str]:
    """Return the names of the symbols that a library defines for others."""
    with library.open("rb") as file:
        found = read_elf(Extent.whole(file)).symbols(".dynsym")
        return frozenset(symbol.name for symbol in found if symbol.section and symbol.is_visible)


def make_stub(library: Path, symbols: Collection[str], log: Path) -> None:
    """Write a shared library of that file name, soname and these symbols; raise MachineError if it cannot be linked."""
    library.parent.mkdir(parents=True, exist_ok=True)
    source = library.with_name(f"{library.name}.s")
    names = sorted(name for name in symbols if SYMBOL.fullmatch(name))
    lines = [f".globl {name}\n.type {name},@function\n{name}:\n" for name in names]
    source.write_text(f'.text\n{"".join(lines)}.section .note.GNU-stack,"",@progbits\n', encoding="utf-8")
    options = ["-shared", "-nostdlib", "-Wl,--build-id=none", f"-Wl,-soname,{library.name}", "-x", "assembler"]
    ended = run(["c++", *options, source, "-o", library], log=log)
    source.unlink()
    if ended.status:
        msg = f"the stand-in for {library.name} cannot be linked: {complaint(ended)}"
        raise MachineError(msg, hint=f"log: {log}")
