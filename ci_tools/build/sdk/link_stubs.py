"""Makes the libraries that a linker is shown in place of the real ones: their names, their symbols, and no code.

A linker takes two things of a shared library: its soname, which goes into DT_NEEDED, and which undefined symbols it
defines. With `--as-needed`, Ubuntu's default, a library that defines none of them is left out of DT_NEEDED: so a stub
without symbols would be left out of every wheel, and the wheel would not load.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ci_tools.errors import MachineError
from ci_tools.formats.binaries.elf import Extent, read_elf
from ci_tools.machine.process import complaint, run

TRIPLE = "aarch64-linux-gnu"  # of the cross compiler, and of what it makes
SYMBOL = re.compile(r"[A-Za-z_.$][\w.$]*")  # a name that an assembler takes without quotes
OBJECT = re.compile(r"_ZT[VTIS]|_ZGV")  # tables, type descriptions and guards (Itanium C++ ABI, 5.1.4)
OF_LINKER = frozenset({"_edata", "_end", "__bss_start"})  # each library has its own; they have no type
OF_START = frozenset({"_init", "_fini"})  # of each library as well, and none uses another's
DATA = 1  # STT_OBJECT


def exports_of(library: Path) -> dict[str, bool]:
    """Return the names of the symbols that a library defines for others, and whether each is data."""
    with library.open("rb") as file:
        found = read_elf(Extent.whole(file)).symbols(".dynsym")
        defined = [symbol for symbol in found if symbol.section and symbol.is_visible]  # 0: it is undefined
        return {symbol.name: symbol.kind == DATA for symbol in defined if symbol.name not in OF_START}


def is_data(symbol: str) -> bool:
    """Whether a C++ name is certainly one of data; a variable's name can look like a function's."""
    return bool(OBJECT.match(symbol))


def make_stub(library: Path, symbols: Mapping[str, bool], log: Path, compiler: str = "c++") -> None:
    """Write a shared library of that file name, soname and these symbols; raise MachineError if it cannot be linked."""
    library.parent.mkdir(parents=True, exist_ok=True)
    source = library.with_name(f"{library.name}.s")
    lines = {True: [".data\n"], False: [".text\n"]}
    for name, data in sorted(symbols.items()):
        if SYMBOL.fullmatch(name):
            kind = "" if name in OF_LINKER else f".type {name},@{'object' if data else 'function'}\n"
            lines[data].append(f".globl {name}\n{kind}{name}:\n")
    text = "".join((*lines[False], *lines[True], '.section .note.GNU-stack,"",@progbits\n'))
    source.write_text(text, encoding="utf-8")
    options = ["-shared", "-nostdlib", "-Wl,--build-id=none", f"-Wl,-soname,{library.name}", "-x", "assembler"]
    ended = run([compiler, *options, source, "-o", library], log=log)
    source.unlink()
    if ended.status:
        raise MachineError(f"the stand-in for {library.name} cannot be linked: {complaint(ended)}", hint=f"log: {log}")
