from __future__ import annotations

import io
import struct

import pytest
from elftools.elf.elffile import ELFFile

from ci_tools.errors import Rejected
from ci_tools.formats.binaries.elf import Extent, Symbol, read_elf
from tests.builders.wheels import library, linked, with_section

SOURCE = """
extern int theirs(void);
extern __attribute__((weak)) int perhaps(void);
__attribute__((visibility("hidden"))) int inside(void) { return 3; }
static int own(void) { return 1; }
int ours(void) { return theirs() + perhaps() + own() + inside(); }
"""
SAYS = '#include <stdio.h>\nint say(void) { return puts(""); }'

NAMES, STRINGS = b"\0.dynsym\0.dynstr\0", b"\0one\0two\0"
HEADER = {32: "HHIIIIIHHHHHH", 64: "HHIQQQIHHHHHH"}
SECTION = {32: "IIIIIIIIII", 64: "IIQQQQIIQQ"}
ONE_AND_TWO = {  # a function of section 7, and a weak one of another file that is hidden
    32: ("IIIBBH", (0,) * 6, (1, 0, 0, 0x12, 0, 7), (5, 0, 0, 0x20, 2, 0)),
    64: ("IBBHQQ", (0,) * 6, (1, 0x12, 0, 7, 0, 0), (5, 0x20, 2, 0, 0, 0)),
}


def made(bits: int, byte_order: str) -> bytes:
    """Return an ELF file of that class and byte order with two dynamic symbols, and nothing else."""
    layout, *values = ONE_AND_TWO[bits]
    table = b"".join(struct.pack(byte_order + layout, *one) for one in values)
    contents = [(0, 0, b"", 0), (0, 3, NAMES, 0), (1, 11, table, 3), (9, 3, STRINGS, 0)]
    start = 16 + struct.calcsize(byte_order + HEADER[bits])
    body, rows = b"", b""
    for name, kind, content, link in contents:
        where = (start + len(body), len(content), link, 0, 1, struct.calcsize(byte_order + layout))
        rows += struct.pack(byte_order + SECTION[bits], name, kind, 0, 0, *where)
        body += content
    said = (start + len(body), 5, 0, 0, 0, len(rows) // len(contents), len(contents), 1)
    head = struct.pack(byte_order + HEADER[bits], 3, 21, 1, 0, 0, *said)
    return b"\x7fELF" + bytes([bits // 32, "<>".index(byte_order) + 1, 1]) + bytes(9) + head + body + rows


def symbols(content: bytes) -> list[Symbol]:
    return list(read_elf(Extent.whole(io.BytesIO(content))).symbols(".dynsym"))


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("byte_order", ["<", ">"])
def test_either_class_and_byte_order_is_read(bits: int, byte_order: str) -> None:
    content = made(bits, byte_order)
    theirs = [one.name for one in ELFFile(io.BytesIO(content)).get_section_by_name(".dynsym").iter_symbols()]
    one, two = symbols(content)
    assert [one.name, two.name] == theirs[1:] == ["one", "two"]
    assert (one.section, one.is_weak, one.is_visible) == (7, False, True)
    assert (two.section, two.is_weak, two.is_visible) == (0, True, False)


def test_a_librarys_symbols_are_those_pyelftools_reads() -> None:
    content = library(SOURCE)
    table = ELFFile(io.BytesIO(content)).get_section_by_name(".symtab")
    ours = list(read_elf(Extent.whole(io.BytesIO(content))).symbols(".symtab"))
    assert [one.name for one in ours] == [one.name for one in table.iter_symbols()][1:]
    visible = {one.name for one in ours if one.section and one.is_visible}
    assert visible & {"ours", "own", "inside", "theirs"} == {"ours"}
    assert {one.name for one in ours if one.is_weak} >= {"perhaps"}


def test_sections_are_named_and_their_bytes_found() -> None:
    elf = read_elf(Extent.whole(io.BytesIO(with_section(".mine", b"content!"))))
    (mine,) = elf.named(".mine")
    assert (elf.bits, elf.machine, elf.content(mine).read()) == (64, 62, b"content!")


def test_a_library_without_a_table_has_no_symbols() -> None:
    elf = read_elf(Extent.whole(io.BytesIO(made(64, "<"))))
    assert list(elf.symbols(".symtab")) == []


def test_a_part_of_a_stream_is_read_as_a_file() -> None:
    content = b"before" + made(64, "<") + b"after"
    elf = read_elf(Extent(io.BytesIO(content), 6, len(content) - 11))
    assert [one.name for one in elf.symbols(".dynsym")] == ["one", "two"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"MZ".ljust(99, b"\0"), id="another-format"),
        pytest.param(made(64, "<")[:50], id="cut-in-its-header"),
        pytest.param(made(64, "<")[:-1], id="cut-in-its-table"),
        pytest.param(made(64, "<").replace(b"\0one\0two\0", b"\0one\0two!"), id="a-name-without-end"),
        pytest.param(made(64, "<")[:4] + b"\3" + made(64, "<")[5:], id="an-unknown-class"),
    ],
)
def test_what_is_not_whole_is_rejected(content: bytes) -> None:
    with pytest.raises(Rejected, match="not a whole ELF file"):
        symbols(content)


def test_the_dynamic_segment_and_the_versions_are_those_pyelftools_reads() -> None:
    content = linked(SAYS, "-Wl,-soname,mine.so", "-Wl,-rpath,/a:$ORIGIN")
    theirs = ELFFile(io.BytesIO(content))
    ours = read_elf(Extent.whole(io.BytesIO(content)))
    assert [one.kind for one in ours.segments][:1] == [1]
    assert len(ours.segments) == theirs.num_segments()
    tags = list(theirs.get_section_by_name(".dynamic").iter_tags())
    assert ours.dynamic_texts(1) == tuple(tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED") != ()
    assert (ours.dynamic_texts(14), ours.dynamic_texts(15, 29)) == (("mine.so",), ("/a:$ORIGIN",))
    needs = theirs.get_section_by_name(".gnu.version_r").iter_versions()
    expected = [(file.name, one.name, one["vna_other"]) for file, versions in needs for one in versions]
    assert list(map(tuple, ours.needed_versions())) == expected != []
    numbers = [one["ndx"] for one in theirs.get_section_by_name(".gnu.version").iter_symbols()][1:]
    found = {symbol.name: number for symbol, number in ours.versioned_symbols()}
    assert found["puts"] == numbers[[symbol.name for symbol, _ in ours.versioned_symbols()].index("puts")]
    assert found["puts"] in {number for _, _, number in expected}


def test_a_table_of_needed_versions_that_leads_in_a_circle_is_rejected() -> None:
    content = linked(SAYS)
    elf = read_elf(Extent.whole(io.BytesIO(content)))
    (needs,) = elf.named(".gnu.version_r")
    spoilt = bytearray(content)
    struct.pack_into("<HHIII", spoilt, needs.offset, 1, 0xFFFF, 0, 0, 16)  # its versions begin at itself, without end
    with pytest.raises(Rejected, match="not a whole ELF file"):
        read_elf(Extent.whole(io.BytesIO(bytes(spoilt)))).needed_versions()
