"""Libraries with device images as DPC++ embeds them, the descriptors laid out by gcc and relocated by its linker."""

from __future__ import annotations

import struct
from typing import NamedTuple

from tests.builders.compiled import compiled

SPIRV = struct.pack("<5I", 0x07230203, 0x00010400, 0, 1, 0)  # the header of a module without instructions
PLAIN, PACKED = 0, 4
DESCRIPTOR = """\
struct image_{number} {{
  unsigned short version; unsigned char kind, form;
  const char *target, *options, *link;
  {manifest}
  const unsigned char *start, *end;
  struct kernel *first, *last;
  void *properties, *properties_end;
}} image_{number} = {{ {version}, 4, {form}, "{target}", "", "", {nothing} code_{number}, code_{number} + {size},
  {kernels}, {kernels} + {count}, 0, 0 }};
"""


class Embedded(NamedTuple):
    """An image: its target, its bytes, the names of its kernels; packed where `unpacked` is its size before."""

    target: str = "spir64"
    content: bytes = SPIRV
    kernels: tuple[str, ...] = ()
    unpacked: int = 0
    version: int = 3  # of the descriptor: 2 from compilers of 2025, 3 from those of 2026


def sycl_library(*images: Embedded, rest: str = "") -> bytes:
    """Return a shared library with those images; `rest` is more C."""
    return compiled(_write(images) + rest, ("-nostdlib", "-x", "c", "-"))


def machine_code(product: int, machine: int = 205) -> bytes:
    """Return an ELF file of machine code whose note names the GPU with the number of that product."""
    names = b"\0.note.intelgt.compat\0.shstrtab\0"
    note = struct.pack("<III8sI", 8, 4, 6, b"IntelGT\0", product)
    start = 64 + len(note) + len(names)
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 1, machine, 1, 0, 0, start, 0, 64, 0, 0, 64, 3, 2)
    rows = [(0,) * 10, (1, 7, 0, 0, 64, len(note), 0, 0, 4, 0), (22, 3, 0, 0, 64 + len(note), len(names), 0, 0, 1, 0)]
    return head + note + names + b"".join(struct.pack("<IIQQQQIIQQ", *row) for row in rows)


def archive(**members: bytes) -> bytes:
    """Return an archive with those members, `_` in their names standing for a dot."""
    rows = (
        f"{name.removeprefix('x').replace('_', '.') + '/':<48}{len(content):<10}`\n".encode()
        + content
        + b"\n" * (len(content) % 2)
        for name, content in members.items()
    )
    return b"!<arch>\n" + b"".join(rows)


def _write(images: tuple[Embedded, ...]) -> str:
    listed = "".join(
        f"  {{ (unsigned long)code_{number}, {one.unpacked or len(one.content)} }},\n"
        for number, one in enumerate(images)
    )
    return (
        "struct kernel { void *address; const char *name; unsigned long size; int flags, reserved; };\n"
        + "".join(_write_image(number, one) for number, one in enumerate(images))
        + '__attribute__((section(".tgtimg"))) struct { unsigned long address, size; } listed[] = {\n'
        + listed
        + "};\n"
    )


def _write_image(number: int, one: Embedded) -> str:
    numbers = ",".join(map(str, one.content))
    kernels = "".join(f'{{ 0, "{name}", 0, 0, 0 }},' for name in one.kernels)
    has_manifest = one.version < 3
    return (
        f'__attribute__((section("__CLANG_OFFLOAD_BUNDLE__sycl-{one.target}"), used))\n'
        f"static const unsigned char code_{number}[] = {{ {numbers} }};\n"
        + (f"static struct kernel kernels_{number}[] = {{ {kernels} }};\n" if kernels else "")
        + DESCRIPTOR.format(
            number=number,
            version=one.version,
            form=PACKED if one.unpacked else PLAIN,
            target=one.target,
            manifest="const void *manifest, *manifest_end;" if has_manifest else "",
            nothing="0, 0," if has_manifest else "",
            size=len(one.content),
            kernels=f"kernels_{number}" if kernels else "(struct kernel *)0",
            count=len(one.kernels),
        )
    )
