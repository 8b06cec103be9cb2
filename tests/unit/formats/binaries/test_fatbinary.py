from __future__ import annotations

import io
import random
import re
import struct
import subprocess
import zlib
from collections import Counter
from pathlib import Path

import lz4.block
import pytest

from ci_tools.errors import Rejected
from ci_tools.formats.binaries.fatbinary import Code, Image, images, read_undefined_symbols, units
from ci_tools.formats.binaries.offload import zstd
from tests.builders.compilers import fetch_cuda_program, run_nvcc
from tests.builders.wheels import LTO, PTX, SASS, entry, library, unit, with_section

A, F, LZ4_PACKED, ZSTD_PACKED = 0x100000, 0x200000, 0x2000, 0x8000


def read(content: bytes, section: str = ".nv_fatbin") -> set[str]:
    return listed(with_section(section, content))


def listed(content: bytes) -> set[str]:
    return set(map(str, images(io.BytesIO(content))))


def kernels(content: bytes) -> list[dict[str, list[str] | None]]:
    """Return, for each unit, the kernels of each image by name."""
    found = units(io.BytesIO(content))
    return [{str(code.image): code.kernels and sorted(code.kernels) for code in unit.codes} for unit in found]


# ---------------------------------------------------------------- real bytes, without nvcc

SOURCE = b"""//
// Written by hand
//
.version 9.0
.target sm_90a
.address_size 64
.visible .entry scale(.param .u64 scale_param_0) { ret; }
.func (.param .b32 result) twice(.param .b32 x) { ret; }
\t.weak .entry shift( .param .u64 p ) { ret; } // .entry in a comment
"""
ENTRY = struct.Struct("<HHIQI8xI8xQ8xQ")  # kind, -, header size, stored size, packed size, arch, flags, unpacked size


def packed(method: int, body: bytes, *, size: int, kind: int = PTX) -> bytes:
    """Return a compressed image that claims to unpack to `size` bytes, padded as nvcc pads it."""
    padding = bytes(-len(body) % 8)
    return ENTRY.pack(kind, 0x101, 64, len(body + padding), len(body), 90, method | A, size) + body + padding


def by_lz4(content: bytes) -> bytes:
    return packed(LZ4_PACKED, lz4.block.compress(content, store_size=False), size=len(content))


def by_zstd(content: bytes) -> bytes:
    return packed(ZSTD_PACKED, zstd.compress(content), size=len(content))


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param(b"", set(), id="empty"),
        pytest.param(bytes(64), set(), id="padding"),
        pytest.param(unit(), set(), id="no-entry"),
        pytest.param(unit(entry(SASS, 90)), {"sm_90"}, id="sass"),
        pytest.param(unit(entry(PTX, 100), entry(SASS, 100)), {"compute_100", "sm_100"}, id="ptx-and-sass"),
        pytest.param(unit(entry(SASS, 90, A), entry(PTX, 100, F)), {"sm_90a", "compute_100f"}, id="variants"),
        pytest.param(unit(by_zstd(SOURCE)), {"compute_90a"}, id="compressed"),
        pytest.param(unit(entry(LTO, 90)), {"lto_90"}, id="link-time-optimised"),
        pytest.param(unit(entry(77, 90)), {"kind77_90"}, id="unknown-kind"),
        pytest.param(unit(entry(SASS, 90), header=24), {"sm_90"}, id="longer-header"),
        pytest.param(unit(entry(SASS, 90)) + unit(entry(SASS, 100)), {"sm_90", "sm_100"}, id="two-units"),
        pytest.param(unit(entry(SASS, 90, size=3)) + bytes(13) + unit(entry(SASS, 80)), {"sm_90", "sm_80"}, id="gap"),
    ],
)
def test_device_images_are_read(content: bytes, found: set[str]) -> None:
    assert read(content) == found


@pytest.mark.parametrize("zeros", [8, 65_528, 65_536, 200_008])
def test_padding_of_any_length_is_passed_by(zeros: int) -> None:
    content = unit(entry(SASS, 90)) + bytes(zeros) + unit(entry(SASS, 80)) + bytes(zeros)
    assert listed(content) == {"sm_90", "sm_80"}


def test_relocatable_device_code_counts() -> None:
    assert read(unit(entry(PTX, 90)), "__nv_relfatbin") == {"compute_90"}


def test_a_library_without_device_code_has_no_images() -> None:
    assert images(io.BytesIO(library("int x;"))) == frozenset()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param(unit(entry(SASS, 90), magic=0xBA55ED51), "the magic number 0xba55ed51 at byte 0", id="magic"),
        pytest.param(unit(entry(SASS, 90), header=16)[:12], "ends at byte 12, in the middle", id="cut-in-header"),
        pytest.param(unit(entry(SASS, 90))[:-1], "in the middle of an entry that goes to 104", id="cut-in-payload"),
        pytest.param(unit(entry(SASS, 90)[:30]), "ends at byte 30", id="cut-in-entry"),
        pytest.param(unit(entry(SASS, 90), more=1), "ends at byte 104", id="claims-more"),
        pytest.param(unit(entry(SASS, 90, header=0)), "a header of 0 bytes", id="entry-without-header"),
        pytest.param(struct.pack("<IHHQ", 0xBA55ED50, 1, 0, 0) * 9, "magic number", id="unit-without-header"),
        pytest.param(unit() + b"trailing", "ends at byte 24", id="trailing-bytes"),
    ],
)
def test_a_malformed_fatbinary_is_rejected(content: bytes, sentence: str) -> None:
    with pytest.raises(Rejected, match=re.escape(sentence)):
        read(content)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\x7fELF", id="magic-alone"),
        pytest.param(b"#!/bin/sh\n", id="script"),
        pytest.param(library("int x;")[:500], id="truncated"),
    ],
)
def test_what_is_no_elf_file_is_rejected(content: bytes) -> None:
    for reader in (images, read_undefined_symbols):
        with pytest.raises(Rejected, match="not a whole ELF file"):
            reader(io.BytesIO(content))


@pytest.mark.parametrize("entry_size", [0, 64])
def test_a_claim_of_endless_sections_is_rejected_at_once(entry_size: int) -> None:
    content = bytearray(library("int x;"))
    table = struct.unpack_from("<Q", content, 40)[0]
    struct.pack_into("<HH", content, 58, entry_size, 0)  # no number: it is in the first section's size
    struct.pack_into("<Q", content, table + 32, 1 << 40)
    with pytest.raises(Rejected, match="not a whole ELF file"):
        images(io.BytesIO(content))


def damaged(good: bytes, dice: random.Random) -> bytes:
    """Cut a library off, or change a few bytes of its header, its section table, or anywhere."""
    if dice.random() < 0.2:
        return good[: dice.randrange(len(good))]
    table = struct.unpack_from("<Q", good, 40)[0]
    start, end = dice.choice([(0, 64), (table, len(good)), (0, len(good))])
    content = bytearray(good)
    for _ in range(dice.randrange(1, 4)):
        content[dice.randrange(start, end)] = dice.randrange(256)
    return bytes(content)


def was_rejected(content: bytes) -> bool:
    try:
        return not [*units(io.BytesIO(content)), *read_undefined_symbols(io.BytesIO(content))]
    except Rejected:
        return True


def test_a_damaged_library_is_read_or_rejected() -> None:
    dice = random.Random(2)  # noqa: S311 - the same damage every time
    good = with_section(".nv_fatbin", unit(entry(SASS, 90), by_zstd(SOURCE), by_lz4(SOURCE)) * 3)
    rejected = sum(was_rejected(damaged(good, dice)) for _ in range(600))
    assert 100 < rejected < 500


# ---------------------------------------------------------------- kernels


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(SOURCE, id="a-file-of-ptx"),
        pytest.param(unit(by_zstd(SOURCE)), id="zstd"),
        pytest.param(unit(by_lz4(SOURCE)), id="lz4"),
    ],
)
def test_kernels_of_ptx_are_named(content: bytes) -> None:
    assert kernels(content) == [{"compute_90a": ["scale", "shift"]}]


def test_code_for_the_link_time_optimiser_names_no_kernels() -> None:
    assert kernels(unit(entry(LTO, 90))) == [{"lto_90": None}]


@pytest.mark.parametrize(
    ("image", "sentence"),
    [
        pytest.param(packed(ZSTD_PACKED, b"no zstd", size=9), "an image cannot be unpacked", id="zstd"),
        pytest.param(packed(LZ4_PACKED, b"\xff" * 9, size=9), "an image cannot be unpacked", id="lz4"),
        pytest.param(packed(ZSTD_PACKED, zstd.compress(b"1234"), size=5), "4 bytes or more, it claims 5", id="less"),
        pytest.param(packed(ZSTD_PACKED, zstd.compress(b"1234"), size=3), "4 bytes or more, it claims 3", id="more"),
        pytest.param(packed(ZSTD_PACKED, zstd.compress(bytes(1 << 20))[:-4], size=1 << 20), "it claims", id="cut"),
        pytest.param(packed(LZ4_PACKED, b"1", size=1 << 40), "claims to unpack to 1,099,511,627,776", id="a-bomb"),
        pytest.param(entry(SASS, 90), "not a whole ELF file", id="machine-code-that-is-none"),
    ],
)
def test_an_image_that_cannot_be_unpacked_is_rejected(image: bytes, sentence: str) -> None:
    if sentence.endswith("ELF file"):
        image = image.replace(b"\2" * 24, b"\x7fELF".ljust(24, b"\2"))
    with pytest.raises(Rejected, match=re.escape(sentence)):
        kernels(unit(image))


# ---------------------------------------------------------------- AMD's bundles, Windows, archives

HOST = ("host-x86_64-unknown-linux-gnu-", b"")


def bundle(*entries: tuple[str, bytes]) -> bytes:
    """Return what clang-offload-bundler writes: a table of names, then the code objects."""
    table = 32 + sum(24 + len(name) for name, _ in entries)
    rows, contents = b"", b""
    for name, content in entries:
        rows += struct.pack("<QQQ", table + len(contents), len(content), len(name)) + name.encode()
        contents += content
    return b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries)) + rows + contents


def for_amd(*targets: str) -> bytes:
    code = b"\x7fELF no more"
    return bundle(HOST, *((f"hipv4-amdgcn-amd-amdhsa--{target}", code) for target in targets))


def compressed(content: bytes, version: int, *, by_zlib: bool = False) -> bytes:
    """Return a bundle as `--offload-compress` packs it."""
    body = zlib.compress(content) if by_zlib else zstd.compress(content)
    sizes = {1: "<I", 2: "<II", 3: "<QQ"}[version]
    total = 8 + struct.calcsize(sizes) + 8 + len(body)
    said = (total, len(content)) if version > 1 else (len(content),)
    return b"CCOB" + struct.pack("<HH", version, not by_zlib) + struct.pack(sizes, *said) + bytes(8) + body


TWO_TARGETS = for_amd("gfx90a:xnack-", "gfx942")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param(TWO_TARGETS, {"gfx90a:xnack-", "gfx942"}, id="two-targets"),
        pytest.param(bundle(HOST), set(), id="host-alone"),
        pytest.param(bundle(("hip-amdgcn-amd-amdhsa-unknown-gfx1100", b"")), {"gfx1100"}, id="long-triple"),
        pytest.param(bundle(("hip-amdgcn-amd-amdhsa--gfx9-4-generic", b"")), {"gfx9-4-generic"}, id="generic"),
        pytest.param(bundle(("hip-spirv64-amd-amdhsa--amdgcnspirv", b"")), {"amdgcnspirv"}, id="spirv"),
        pytest.param(
            TWO_TARGETS.ljust(4096, b"\0") + for_amd("gfx1100"), {"gfx90a:xnack-", "gfx942", "gfx1100"}, id="two"
        ),
        *(
            pytest.param(
                compressed(TWO_TARGETS, version).ljust(4096, b"\0") + compressed(for_amd("gfx1100"), version),
                {"gfx90a:xnack-", "gfx942", "gfx1100"},
                id=f"compressed-{version}",
            )
            for version in (2, 3)
        ),
        pytest.param(compressed(TWO_TARGETS, 1), {"gfx90a:xnack-", "gfx942"}, id="compressed-1"),
        pytest.param(compressed(TWO_TARGETS, 2, by_zlib=True), {"gfx90a:xnack-", "gfx942"}, id="compressed-by-zlib"),
    ],
)
def test_the_targets_of_an_offload_bundle_are_read(content: bytes, found: set[str]) -> None:
    assert read(content, ".hip_fatbin") == found
    assert listed(content) == found


def amd_code_object() -> bytes:
    """Return a library with two kernels' descriptors, as an AMD code object names them."""
    return library(
        'const char scale[64] __asm__("scale.kd") = "s"; const char shift[64] __asm__("shift.kd") = "s"; int x;'
    )


def test_kernels_of_an_amd_code_object_are_named() -> None:
    content = bundle(HOST, ("hipv4-amdgcn-amd-amdhsa--gfx942", amd_code_object()))
    assert kernels(content) == [{"gfx942": ["scale", "shift"]}]


def windows_library(section: bytes, content: bytes) -> bytes:
    """Return the headers of a DLL, and one section."""
    head = b"MZ".ljust(60, b"\0") + struct.pack("<I", 64) + b"PE\0\0" + struct.pack("<HH12xHH", 0x8664, 1, 0, 0x2022)
    table = section.ljust(8, b"\0") + struct.pack("<IIII16x", len(content), 0, len(content) + 99, 512)
    return (head + table).ljust(512, b"\0") + content + bytes(99)


def test_a_windows_library_is_read() -> None:
    assert listed(windows_library(b".nv_fatb", unit(entry(SASS, 90)))) == {"sm_90"}
    assert listed(windows_library(b".hip_fat", TWO_TARGETS)) == {"gfx90a:xnack-", "gfx942"}
    assert listed(windows_library(b".text", unit(entry(SASS, 90)))) == set()


def archive(*members: bytes) -> bytes:
    """Return a static library."""
    rows = (b"name/".ljust(48) + str(len(member)).encode().ljust(10) + b"`\n" + member for member in members)
    return b"!<arch>\n" + b"".join(row + b"\n" * (len(row) % 2) for row in rows)


def test_the_members_of_a_static_library_are_read() -> None:
    one, other = (with_section(".nv_fatbin", unit(entry(SASS, arch))) for arch in (90, 100))
    assert listed(archive(b"symbols", one, b"no object", other)) == {"sm_90", "sm_100"}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param(TWO_TARGETS[:-1], "the offload bundle ends at byte", id="a-bundle-that-is-cut"),
        pytest.param(bundle(HOST)[:30], "the offload bundle ends at byte 30", id="cut-in-its-count"),
        pytest.param(compressed(TWO_TARGETS, 2)[:-3], "the offload bundle ends at byte", id="compressed-and-cut"),
        pytest.param(compressed(TWO_TARGETS, 1)[:-3], "it claims", id="the-first-version-and-cut"),
        pytest.param(b"CCOB\4\0" + bytes(40), "has version 4, expected 1, 2, 3", id="later-version"),
        pytest.param(compressed(b"no bundle", 2), "the offload bundle", id="no-bundle-inside"),
        pytest.param(
            windows_library(b".nv_fatb", unit(entry(SASS, 90)))[:520], "not a whole Windows library", id="dll"
        ),
        pytest.param(archive(b"x")[:-3], "the static library ends at byte", id="a-static-library-that-is-cut"),
        pytest.param(archive(b"x").replace(b"`", b"'"), "no member header at byte 8", id="no-header"),
        pytest.param(archive(b"\x7fELF"), "not a whole ELF file", id="no-object"),
    ],
)
def test_a_malformed_bundle_or_library_is_rejected(content: bytes, sentence: str) -> None:
    with pytest.raises(Rejected, match=re.escape(sentence)):
        listed(content)


# ---------------------------------------------------------------- symbols


def test_undefined_symbols_are_those_of_others() -> None:
    source = "extern int theirs(void); extern __attribute__((weak)) int perhaps(void); static int own(void) {return 1;}"
    content = library(f"{source} int ours(void) {{ return theirs() + perhaps() + own(); }}")
    found = read_undefined_symbols(io.BytesIO(content))
    assert found & {"theirs", "perhaps", "ours", "own"} == {"theirs", "perhaps"}


# ---------------------------------------------------------------- nvcc and cuobjdump

KERNELS = """
__global__ void scale(float* x) { *x *= 2; }
template <typename T> __global__ void shift(T* x) { *x += 1; }
static __global__ void hidden(float* x) { *x = 3; }
namespace { __global__ void nameless(float* x) { *x = 4; } }
void go(float* x, int* y) {
  scale<<<1, 1>>>(x); shift<<<1, 1>>>(x); shift<<<1, 1>>>(y); hidden<<<1, 1>>>(x); nameless<<<1, 1>>>(x);
}
"""
SECOND = "__global__ void other(float* x) { *x = 5; } void go_on(float* x) { other<<<1, 1>>>(x); }"
DEVICE = "__device__ float twice(float x) { return 2 * x; }"
CALLER = "__device__ float twice(float); __global__ void k(float* x) { *x = twice(*x); } void go() { k<<<1, 1>>>(0); }"
UNEVEN = """
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int width = 1;
#else
constexpr int width = 8;
#endif
template <int size> __global__ void fill(float* x) { for (int i = 0; i < size; ++i) x[i] = 1; }
void go(float* x) { fill<width><<<1, 1>>>(x); }
"""
EVERY_KIND = ("compute_90:[sm_90,compute_90]", "compute_90a:sm_90a", "compute_100f:sm_100f", "compute_120a:sm_120a")
EVERY_IMAGE = {"sm_90", "compute_90", "sm_90a", "sm_100f", "sm_120a"}


@pytest.fixture(scope="module")
def nvcc(cuda_home: Path) -> Path:
    return cuda_home / "bin" / "nvcc"


@pytest.fixture(scope="module")
def cuobjdump() -> Path:
    return fetch_cuda_program("cuobjdump", ">=13.2")


def compiled(nvcc: Path, out: Path, source: str, *options: str) -> Path:
    """Run nvcc on one source file, and return what it wrote."""
    file = out.with_suffix(".cu")
    file.write_text(source)
    return linked(nvcc, out, [file], *options)


def linked(nvcc: Path, out: Path, files: list[Path], *options: str) -> Path:
    run_nvcc(nvcc, out, files, "-Xcompiler", "-fPIC", *options)
    return out


def gencode(*pairs: str) -> list[str]:
    return [f"-gencode=arch={virtual},code={real}" for virtual, _, real in (pair.partition(":") for pair in pairs)]


def ours(file: Path) -> Counter[Code]:
    """Every image we read, with its kernels."""
    with file.open("rb") as stream:
        return Counter(code for found in units(stream) for code in found.codes)


def theirs(cuobjdump: Path, file: Path) -> Counter[Code]:
    """Every image cuobjdump lists with its kernels."""
    found = Counter[Code]()
    for option, kind, name in (("-symbols", "elf", r" ENTRY +(\S+)"), ("-ptx", "ptx", r"\.entry (\w+)")):
        command = [str(cuobjdump), "-all", option, str(file)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for part in re.split(r"(?=^Fatbin (?:elf|ptx) code:$)", text, flags=re.MULTILINE):
            if part.startswith(f"Fatbin {kind}"):
                arch = re.search(r"^arch = sm_(\w+)$", part, re.MULTILINE)
                image = Image({"elf": "sm", "ptx": "compute"}[kind], arch[1] if arch else "")
                found[Code(image, frozenset(re.findall(name, part)))] += 1
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "relocatable"),
    [
        *(pytest.param(mode, "false", id=mode) for mode in ("size", "speed", "balance", "none", "default")),
        pytest.param("size", "true", id="size-and-device-linked"),
    ],
)
def test_what_nvcc_put_in_is_read_back(
    nvcc: Path, cuobjdump: Path, tmp_path: Path, mode: str, relocatable: str
) -> None:
    options = [f"-rdc={relocatable}", f"--compress-mode={mode}", *gencode(*EVERY_KIND)]
    few = options if relocatable == "true" else [*options[:2], *gencode("compute_90:[sm_90,compute_90]")]
    objects = [
        compiled(nvcc, tmp_path / "one.o", KERNELS, "-c", *options),
        compiled(nvcc, tmp_path / "two.o", SECOND, "-c", *few),
    ]
    out = linked(nvcc, tmp_path / "out.so", objects, "-shared", *options)
    with out.open("rb") as stream:
        assert set(map(str, images(stream))) == EVERY_IMAGE
    assert ours(out) == theirs(cuobjdump, out)
    assert any(len(code.kernels or ()) == 5 for code in ours(out))


@pytest.mark.slow
def test_device_code_of_two_files_is_linked(nvcc: Path, cuobjdump: Path, tmp_path: Path) -> None:
    options = ["-rdc=true", *gencode("compute_90:[sm_90,compute_90]", "compute_100:sm_100")]
    objects = [
        compiled(nvcc, tmp_path / f"{number}.o", source, "-c", *options)
        for number, source in enumerate((DEVICE, CALLER))
    ]
    out = linked(nvcc, tmp_path / "out.so", objects, "-shared", *options)
    static = linked(nvcc, tmp_path / "out.a", objects, "-lib", *options)
    assert ours(out) == theirs(cuobjdump, out)
    assert ours(static) == theirs(cuobjdump, static)
    with out.open("rb") as stream:
        assert {found.where.partition(",")[0] for found in units(stream)} == {".nv_fatbin", "__nv_relfatbin"}


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["90a", "100f", "120"])
def test_a_cubin_and_ptx_say_what_they_are_for(nvcc: Path, tmp_path: Path, arch: str) -> None:
    cubin = compiled(nvcc, tmp_path / "one.cubin", SECOND, "-cubin", f"-arch=sm_{arch}")
    ptx = compiled(nvcc, tmp_path / "two.ptx", SECOND, "-ptx", f"-arch=compute_{arch}")
    assert kernels(cubin.read_bytes()) == [{f"sm_{arch}": ["_Z5otherPf"]}]
    assert kernels(ptx.read_bytes()) == [{f"compute_{arch}": ["_Z5otherPf"]}]


@pytest.mark.slow
def test_a_kernel_that_one_architecture_lacks_is_seen(nvcc: Path, tmp_path: Path) -> None:
    archs = gencode("compute_80:sm_80", "compute_90:sm_90")
    out = compiled(nvcc, tmp_path / "one.fatbin", UNEVEN, "-fatbin", *archs)
    assert kernels(out.read_bytes()) == [{"sm_80": ["_Z4fillILi1EEvPf"], "sm_90": ["_Z4fillILi8EEvPf"]}]


@pytest.mark.slow
def test_code_for_the_link_time_optimiser_is_told_apart(nvcc: Path, tmp_path: Path) -> None:
    archs = gencode("compute_90:sm_90", "compute_120:lto_120")
    out = compiled(nvcc, tmp_path / "one.o", SECOND, "-dc", *archs)
    assert kernels(out.read_bytes()) == [{"sm_90": ["_Z5otherPf"], "lto_120": None}]
