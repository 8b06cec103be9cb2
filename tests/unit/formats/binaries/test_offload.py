"""Device images as DPC++ embeds them: as compilers of both years lay them out, and as nobody should."""

from __future__ import annotations

import io

import pytest

from ci_tools.errors import Rejected
from ci_tools.formats.binaries.fatbinary import units
from ci_tools.formats.binaries.offload import zstd
from tests.builders.sycl import SPIRV, Embedded, archive, machine_code, sycl_library
from tests.builders.wheels import with_section
from tests.unit.formats.binaries.test_fatbinary import listed

PVC = 12 << 22 | 60 << 14 | 7
PADDING = b"        "
BOTH = archive(pad_0=PADDING, x64_12_60_7=machine_code(PVC), pad_1=PADDING, x64_bmg=b"", generic_ir=SPIRV)


@pytest.mark.parametrize(
    ("image", "found"),
    [
        pytest.param(Embedded(), {"spir64"}, id="spirv"),
        pytest.param(Embedded(version=2), {"spir64"}, id="spirv-by-a-compiler-of-2025"),
        pytest.param(Embedded("spir64_gen", BOTH), {"spir64_gen:12.60.7", "spir64_gen:bmg"}, id="several-gpus"),
        pytest.param(Embedded("spir64_gen", machine_code(PVC)), {"spir64_gen:12.60.7"}, id="one-gpu"),
        pytest.param(
            Embedded("spir64_gen", zstd.compress(BOTH), unpacked=len(BOTH), version=2),
            {"spir64_gen:12.60.7", "spir64_gen:bmg"},
            id="packed",
        ),
        pytest.param(Embedded("spir64_x86_64"), {"spir64_x86_64"}, id="for-a-cpu"),
    ],
)
def test_an_image_names_what_it_is_for(image: Embedded, found: set[str]) -> None:
    assert listed(sycl_library(image)) == found


def test_the_images_of_one_target_hold_their_kernels_together() -> None:
    split = [
        Embedded(kernels=("_ZTS5scale",)),
        Embedded(kernels=("_ZTS5shift",)),
        Embedded("spir64_gen", BOTH, ("_ZTS5scale",)),
    ]
    (unit,) = units(io.BytesIO(sycl_library(*split)))
    kernels = {str(code.image): code.kernels for code in unit.codes}
    assert kernels["spir64"] == {"_ZTS5scale", "_ZTS5shift"}
    assert kernels["spir64_gen:bmg"] == kernels["spir64_gen:12.60.7"] == {"_ZTS5scale"}


def test_an_image_without_a_kernel_is_one() -> None:
    (unit,) = units(io.BytesIO(sycl_library(Embedded())))
    assert [(str(code.image), code.kernels) for code in unit.codes] == [("spir64", frozenset())]


def test_a_library_without_images_has_none() -> None:
    assert listed(with_section(".text_of_no_image", b"\0")) == set()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(
            with_section(".tgtimg", bytes(16)), "no descriptor names the image at address 0x0", id="no-descriptor"
        ),
        pytest.param(with_section(".tgtimg", bytes(12)), "a list of 12 bytes", id="cut-list"),
        pytest.param(sycl_library(Embedded(version=7)), "no descriptor names the image", id="unknown-version"),
        pytest.param(
            sycl_library(Embedded("spir64_gen", b"no code")), "this is not a whole ELF file", id="no-machine-code"
        ),
        pytest.param(
            sycl_library(Embedded("spir64_gen", machine_code(PVC, machine=62))),
            "that names no GPU",
            id="of-another-machine",
        ),
        pytest.param(
            sycl_library(Embedded("spir64_gen", BOTH[:70])), "the archive of machine code ends", id="cut-archive"
        ),
        pytest.param(
            sycl_library(Embedded("spir64_gen", b"not zstd", unpacked=9)),
            "an image cannot be unpacked",
            id="wrongly-packed",
        ),
        pytest.param(
            sycl_library(Embedded("spir64_gen", zstd.compress(BOTH), unpacked=1)),
            "it claims 1",
            id="larger-than-listed",
        ),
    ],
)
def test_a_malformed_image_is_rejected_with_what_is_wrong(content: bytes, said: str) -> None:
    with pytest.raises(Rejected, match=said):
        listed(content)


def test_no_byte_of_a_library_makes_anything_but_a_result_or_a_rejection() -> None:
    whole = sycl_library(Embedded(kernels=("_ZTS5scale",)), Embedded("spir64_gen", BOTH))
    for position in range(0, len(whole), 41):
        changed = bytearray(whole)
        changed[position] ^= 0xFF
        try:
            list(units(io.BytesIO(bytes(changed))))
        except Rejected as rejected:
            assert rejected.message  # noqa: PT017 - a result is as good
