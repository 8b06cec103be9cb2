"""Clang's offload bundles: as compilers made them, and as nobody should."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest

from ci_tools.errors import Rejected
from ci_tools.formats.binaries import fatbinary
from ci_tools.formats.binaries.fatbinary import units
from tests.builders.wheels import with_section
from tests.unit.formats.binaries.test_fatbinary import listed

RECORDED = Path(__file__).parent / "bundles"
PLAIN, COMPRESSED = (RECORDED / name for name in ("scale.hipfb", "scale.ccob"))
TARGETS = {"gfx1030", "gfx90a:xnack+"}
KERNELS = {"_Z5scalePffi", "_Z5shiftPffi"}
HEAD = b"__CLANG_OFFLOAD_BUNDLE__"
NAME = "hipv4-amdgcn-amd-amdhsa--gfx942"


def bundle(*entries: tuple[int, int, str], rest: bytes = b"") -> bytes:
    """Return a bundle whose table says those offsets, sizes and names, whatever is there."""
    rows = b"".join(struct.pack("<QQQ", offset, size, len(name)) + name.encode() for offset, size, name in entries)
    return HEAD + struct.pack("<Q", len(entries)) + rows + rest


# ---------------------------------------------------------------- as compilers made them


@pytest.mark.parametrize("path", [PLAIN, COMPRESSED], ids=["plain", "compressed"])
def test_a_recorded_bundle_has_its_targets_and_their_kernels(path: Path) -> None:
    (unit,) = units(io.BytesIO(path.read_bytes()))
    assert {str(code.image): code.kernels for code in unit.codes} == dict.fromkeys(TARGETS, KERNELS)


def test_bundles_follow_one_another_in_a_section() -> None:
    content = with_section(".hip_fatbin", PLAIN.read_bytes() + COMPRESSED.read_bytes().ljust(4096, b"\0"))
    found = [unit.where for unit in units(io.BytesIO(content))]
    assert (listed(content), found) == (TARGETS, [".hip_fatbin, unit 1", ".hip_fatbin, unit 2"])


@pytest.mark.parametrize("path", [PLAIN, COMPRESSED], ids=["plain", "compressed"])
def test_a_recorded_bundle_that_is_cut_is_rejected_wherever_that_is(path: Path) -> None:
    content = path.read_bytes()
    for end in range(24, len(content), 97):
        with pytest.raises(Rejected):
            listed(content[:end])


def test_no_byte_of_a_bundle_makes_anything_but_a_result_or_a_rejection() -> None:
    for content in (PLAIN.read_bytes(), COMPRESSED.read_bytes()):
        for position in range(min(len(content), 400)):
            changed = bytearray(content)
            changed[position] ^= 0xFF
            try:
                list(units(io.BytesIO(bytes(changed))))
            except Rejected:
                continue


# ---------------------------------------------------------------- as nobody should


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param(bundle((200, 64, NAME), (210, 64, NAME), rest=bytes(300)),
                     "at byte 210, expected it after byte 264", id="one-over-another"),
        pytest.param(bundle((0, 64, NAME), rest=bytes(300)), "at byte 0, expected it after", id="over-the-table"),
        pytest.param(bundle((1 << 63, 1, NAME)), "ends at byte", id="far-behind-the-end"),
        pytest.param(HEAD + struct.pack("<Q", 1 << 60), "ends at byte 32", id="more-entries-than-bytes"),
        pytest.param(bundle((0, 0, "hipv4-amdgcn-amd-amdhsa--gfx\n90a")), "has an entry 'hipv4-amdgcn",
                     id="a-line-break"),
        pytest.param(bundle((0, 0, "hip-" + "x" * 200)), "expected such as hipv4-amdgcn-amd-amdhsa", id="no-target"),
        pytest.param(bundle((0, 0, f"{NAME}{'0' * 99}")), "has an entry", id="a-long-target"),
    ],
)  # fmt: skip
def test_a_table_that_no_compiler_writes_is_rejected(content: bytes, sentence: str) -> None:
    with pytest.raises(Rejected) as refused:
        listed(content)
    assert sentence in refused.value.message


@pytest.mark.parametrize("name", ["host-x86_64-unknown-linux-gnu-", "openmp-amdgcn-amd-amdhsa--gfx90a"])
def test_what_is_for_no_gpu_by_hip_is_passed_by(name: str) -> None:
    assert listed(bundle((0, 0, name), (0, 0, NAME))) == {"gfx942"}


def test_bundles_that_unpack_to_more_than_any_library_holds_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    content = with_section(".hip_fatbin", COMPRESSED.read_bytes().ljust(4096, b"\0") * 3)
    monkeypatch.setattr(fatbinary, "MAX_UNPACKED_IN_ALL", 40_000)
    with pytest.raises(Rejected, match="over 40,000 bytes"):
        listed(content)
