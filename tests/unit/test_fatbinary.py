from __future__ import annotations

import random
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from ci_tools.errors import Rejected
from ci_tools.fatbinary import Image, images, undefined_symbols
from tests.wheels import LTO, PTX, SASS, entry, library, unit, with_section

A, F, ZSTD = 0x100000, 0x200000, 0x8000


def read(content: bytes, section: str = ".nv_fatbin") -> set[str]:
    return set(map(str, images(with_section(section, content))))


# ---------------------------------------------------------------- real bytes, without nvcc


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param(b"", set(), id="empty"),
        pytest.param(bytes(64), set(), id="padding"),
        pytest.param(unit(), set(), id="no-entry"),
        pytest.param(unit(entry(SASS, 90)), {"sm_90"}, id="sass"),
        pytest.param(unit(entry(PTX, 100), entry(SASS, 100)), {"compute_100", "sm_100"}, id="ptx-and-sass"),
        pytest.param(unit(entry(SASS, 90, A), entry(PTX, 100, F)), {"sm_90a", "compute_100f"}, id="variants"),
        pytest.param(unit(entry(SASS, 120, A | ZSTD)), {"sm_120a"}, id="compressed"),
        pytest.param(unit(entry(LTO, 90)), {"lto_90"}, id="link-time-optimised"),
        pytest.param(unit(entry(77, 90)), {"kind77_90"}, id="unknown-kind"),
        pytest.param(unit(entry(SASS, 90), header=24), {"sm_90"}, id="longer-header"),
        pytest.param(unit(entry(SASS, 90)) + unit(entry(SASS, 100)), {"sm_90", "sm_100"}, id="two-units"),
        pytest.param(unit(entry(SASS, 90, size=3)) + bytes(13) + unit(entry(SASS, 80)), {"sm_90", "sm_80"}, id="gap"),
    ],
)
def test_device_images_are_read(content: bytes, found: set[str]) -> None:
    assert read(content) == found


def test_relocatable_device_code_counts() -> None:
    assert read(unit(entry(PTX, 90)), "__nv_relfatbin") == {"compute_90"}


def test_a_library_without_device_code_has_no_images() -> None:
    assert images(library("int x;")) == frozenset()


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
    for reader in (images, undefined_symbols):
        with pytest.raises(Rejected, match="not a whole ELF file"):
            reader(content)


@pytest.mark.parametrize("entry_size", [0, 64])
def test_a_claim_of_endless_sections_is_rejected_at_once(entry_size: int) -> None:
    content = bytearray(library("int x;"))
    table = struct.unpack_from("<Q", content, 40)[0]
    struct.pack_into("<HH", content, 58, entry_size, 0)  # no number: it is in the first section's size
    struct.pack_into("<Q", content, table + 32, 1 << 40)
    with pytest.raises(Rejected, match="not a whole ELF file"):
        images(bytes(content))


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
        return not (images(content) | undefined_symbols(content))
    except Rejected:
        return True


def test_a_damaged_library_is_read_or_rejected() -> None:
    dice = random.Random(2)  # noqa: S311 - the same damage every time
    good = with_section(".nv_fatbin", unit(entry(SASS, 90), entry(PTX, 90)) * 3)
    rejected = sum(was_rejected(damaged(good, dice)) for _ in range(600))
    assert 100 < rejected < 500


# ---------------------------------------------------------------- symbols


def test_undefined_symbols_are_those_of_others() -> None:
    source = "extern int theirs(void); extern __attribute__((weak)) int perhaps(void); static int own(void) {return 1;}"
    found = undefined_symbols(library(f"{source} int ours(void) {{ return theirs() + perhaps() + own(); }}"))
    assert found & {"theirs", "perhaps", "ours", "own"} == {"theirs", "perhaps"}


# ---------------------------------------------------------------- nvcc and cuobjdump

KERNEL = "__global__ void {0}(float* x) {{ *x *= 2; }} void go_{0}(float* x) {{ {0}<<<1, 1>>>(x); }}"
DEVICE = "__device__ float twice(float x) { return 2 * x; }"
CALLER = "__device__ float twice(float); __global__ void k(float* x) { *x = twice(*x); } void go() { k<<<1, 1>>>(0); }"


@pytest.fixture(scope="module")
def nvcc(cuda_home: Path) -> Path:
    return cuda_home / "bin" / "nvcc"


@pytest.fixture(scope="module")
def cuobjdump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cuobjdump")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    subprocess.run([*pip, "nvidia-cuda-cuobjdump>=13.2"], check=False)
    found = next((path for path in folder.glob("nvidia/cu*/bin/cuobjdump")), shutil.which("cuobjdump"))
    if found is None:
        pytest.skip("needs cuobjdump: neither on PATH nor on the package index")
    return Path(found)


def compiled(nvcc: Path, folder: Path, sources: list[str], *options: str) -> Path:
    files = [folder / f"{number}.cu" for number in range(len(sources))]
    for file, source in zip(files, sources, strict=True):
        file.write_text(source)
    command = [str(nvcc), "-shared", "-Xcompiler", "-fPIC", "-o", str(folder / "out.so"), *options, *map(str, files)]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "out.so"


def listed(cuobjdump: Path, file: Path) -> set[str]:
    """What cuobjdump lists; it leaves the `f` out of machine code's names."""
    command = [str(cuobjdump), "-all", "-lelf", "-lptx", str(file)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    kinds = {"cubin": "sm", "ptx": "compute"}
    return {f"{kinds[kind]}_{arch}" for arch, kind in re.findall(r"\.sm_(\w+)\.(cubin|ptx)", text)}


def gencode(*pairs: str) -> list[str]:
    return [f"-gencode=arch={virtual},code={real}" for virtual, _, real in (pair.partition(":") for pair in pairs)]


ONE, TWO, SEPARATE = [KERNEL.format("a")], [KERNEL.format("a"), KERNEL.format("b")], [DEVICE, CALLER]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sources", "options", "found"),
    [
        pytest.param(ONE, gencode("compute_90:sm_90"), {"sm_90"}, id="sass"),
        pytest.param(ONE, gencode("compute_90:compute_90"), {"compute_90"}, id="ptx"),
        pytest.param(
            TWO,
            gencode("compute_90a:sm_90a", "compute_100f:[sm_100f,compute_100f]", "compute_120:[sm_120,compute_120]"),
            {"sm_90a", "sm_100f", "compute_100f", "sm_120", "compute_120"},
            id="variants-in-two-units",
        ),
        pytest.param(
            SEPARATE,
            ["-rdc=true", *gencode("compute_90:[sm_90,compute_90]", "compute_100:sm_100")],
            {"sm_90", "compute_90", "sm_100"},
            id="relocatable",
        ),
        *(
            pytest.param(
                ONE,
                [f"--compress-mode={mode}", *gencode("compute_90:[sm_90,compute_90]")],
                {"sm_90", "compute_90"},
                id=f"compressed-for-{mode}",
            )
            for mode in ("size", "speed", "none")
        ),
    ],
)
def test_what_nvcc_put_in_is_read_back(
    nvcc: Path, cuobjdump: Path, tmp_path: Path, sources: list[str], options: list[str], found: set[str]
) -> None:
    out = compiled(nvcc, tmp_path, sources, *options)
    ours = images(out.read_bytes())
    assert set(map(str, ours)) == found
    assert listed(cuobjdump, out) == {str(Image(kind, _as_listed(kind, arch))) for kind, arch in ours}


def _as_listed(kind: str, arch: str) -> str:
    return arch.removesuffix("f") if kind == "sm" else arch
