"""What is read of Windows libraries, made byte by byte, and of one that MinGW links."""

from __future__ import annotations

import io
import shutil
import struct
import subprocess
import time
from pathlib import Path

import pefile  # type: ignore[import-untyped]  # it has no types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci_tools.errors import Rejected
from ci_tools.formats.binaries.elf import Extent
from ci_tools.formats.binaries.fatbinary import images
from ci_tools.formats.binaries.pe import Import, Pe, read_pe
from tests.builders.wheels import PTX, SASS, entry, unit
from tests.builders.windows import FIRST, WIN32, dll, link

IMPORTS = {"python312.dll": ("PyInit_", "_Py_NoneStruct"), "WS2_32.dll": (7, "socket")}
DELAYED = {"nvcuda.dll": ("cuInit",)}
GOOD = dll(IMPORTS, delayed=DELAYED, exports=("PyInit_c", "a"), sections={".nv_fatb": unit(entry(SASS, 90))})


def read(content: bytes) -> Pe:
    return read_pe(Extent.whole(io.BytesIO(content)))


@pytest.mark.parametrize("machine", [0x8664, WIN32])
def test_imports_are_read_by_name_and_by_number(machine: int) -> None:
    library = read(dll(IMPORTS, delayed=DELAYED, machine=machine))
    assert library.imports() == (
        Import("python312.dll", ("PyInit_", "_Py_NoneStruct")),
        Import("WS2_32.dll", ("#7", "socket")),
        Import("nvcuda.dll", ("cuInit",), is_delayed=True),
    )


def test_exports_and_sections_are_read() -> None:
    library = read(GOOD)
    assert library.exports() == ("PyInit_c", "a")
    assert [section.name for section in library.sections] == [".rdata", ".nv_fatb"]
    assert read(dll(IMPORTS)).exports() == ()


def test_another_reader_finds_the_same() -> None:
    other = pefile.PE(data=GOOD)
    assert [each.dll.decode() for each in other.DIRECTORY_ENTRY_IMPORT] == list(IMPORTS)
    assert [each.dll.decode() for each in other.DIRECTORY_ENTRY_DELAY_IMPORT] == list(DELAYED)
    assert [each.name.decode() for each in other.DIRECTORY_ENTRY_EXPORT.symbols] == ["PyInit_c", "a"]


def test_a_long_name_of_cpp_is_read_whole() -> None:
    name = "?f@@" + "x" * 4000
    assert read(dll({"c10.dll": (name,)})).imports() == (Import("c10.dll", (name,)),)


def test_device_code_is_found_under_the_names_that_linkers_cut() -> None:
    made = dll(sections={".nv_fatbin": unit(entry(SASS, 90)), "__nv_relfatbin": unit(entry(PTX, 100))})
    assert {str(image) for image in images(io.BytesIO(made))} == {"sm_90", "compute_100"}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param(b"MZ", "it ends at byte 2", id="two-bytes"),
        pytest.param(GOOD[:100], "it ends at byte 100", id="cut"),
        pytest.param(GOOD.replace(b"PE\0\0", b"NE\0\0"), "its header starts with b'NE", id="older-format"),
        pytest.param(GOOD.replace(b"\x0b\x02", b"\x07\x01", 1), "of kind 0x107", id="rom-image"),
        pytest.param(link({".rdata": bytes(9)}, [(0, 0), (0xFFFFF000, 20)]), "nothing is at", id="nowhere"),
        pytest.param(link({".rdata": b"\1" * 600}, [(0, 0), (FIRST, 20)]), "nothing is at", id="garbage"),
        pytest.param(link({f".{n}": b"" for n in range(97)}, []), "it has 97 sections", id="sections"),
    ],
)
def test_a_damaged_library_is_rejected(content: bytes, sentence: str) -> None:
    with pytest.raises(Rejected, match=f"not a whole Windows library: .*{sentence}"):
        read(content).imports()


def test_a_table_that_leads_in_a_circle_ends_soon() -> None:
    """Every library of the table takes the same long list of symbols."""
    names = struct.pack("<Q", 1 << 63 | 1) * 100_000 + bytes(8)
    rows = struct.pack("<IIIII", FIRST, 0, 0, FIRST + len(names), FIRST) * 4_000
    content = link({".rdata": names + b"a.dll\0\0\0" + rows}, [(0, 0), (FIRST + len(names) + 8, 20)])
    began = time.monotonic()
    with pytest.raises(Rejected, match="more than 262,144 symbols"):
        read(content).imports()
    assert time.monotonic() - began < 10


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=8))
def test_any_damage_is_rejected_or_read(edits: list[tuple[int, int]]) -> None:
    content = bytearray(GOOD)
    for place, value in edits:
        content[place] = value
    try:
        library = read(bytes(content))
        library.imports()
        library.exports()
    except Rejected as error:
        assert error.message.startswith("this is not a whole Windows library")  # noqa: PT017 - both are right


MINGW = shutil.which("x86_64-w64-mingw32-gcc")


@pytest.mark.slow
@pytest.mark.skipif(not MINGW, reason="needs x86_64-w64-mingw32-gcc (Debian: gcc-mingw-w64-x86-64)")
def test_a_library_that_mingw_links_is_read(tmp_path: Path) -> None:
    numbers = ",".join(map(str, unit(entry(SASS, 90), entry(PTX, 100))))
    source = tmp_path / "c.c"
    source.write_text(
        f'__attribute__((section(".nv_fatb"))) const unsigned char code[] = {{{numbers}}};\n'
        "#include <stdlib.h>\n__declspec(dllexport) void *ours(void) { return malloc(code[0]); }\n"
    )
    subprocess.run([str(MINGW), "-g", "-shared", "-o", tmp_path / "c.dll", source], check=True)
    content = (tmp_path / "c.dll").read_bytes()
    found = {each.library: each.symbols for each in read(content).imports()}
    assert "malloc" in found["msvcrt.dll"]
    assert read(content).exports() == ("ours",)
    assert {str(image) for image in images(io.BytesIO(content))} == {"sm_90", "compute_100"}
    assert ".debug_info" in {section.name for section in read(content).sections}  # a name of more than eight bytes
