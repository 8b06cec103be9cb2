"""The flag `torch` of each library of CUDA, held against the headers of an installed torch."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from ci_tools.catalog.providers import cuda_parts

INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)[">]', re.MULTILINE)
# No other header of torch includes it; a source that does needs `toolchain: system`, for it includes NVML's header.
APART = "c10/cuda/driver_api.h"
# No header of torch 2.13 includes these: its CMake files, or those of an older torch, look for them.
BY_CMAKE = {"NVTX", "profiler API"}


@pytest.fixture(scope="module")
def included() -> set[str]:
    found = find_spec("torch")
    if not found or not found.origin:
        pytest.skip("needs torch, whose headers it reads")
    headers = Path(found.origin).parent / "include"
    files = [path for folder in ("ATen", "c10", "torch/csrc") for path in (headers / folder).rglob("*cu*/**/*.h")]
    files += [path for folder in ("ATen", "c10", "torch/csrc") for path in (headers / folder).rglob("*cu*/**/*.cuh")]
    return {
        name.decode()
        for path in files
        if path.relative_to(headers).as_posix() != APART
        for name in INCLUDE.findall(path.read_bytes())
    }


def test_a_library_whose_header_torch_includes_is_one_of_torch_s(included: set[str]) -> None:
    asked = {part.name for part in cuda_parts() if any(map(part.has, included))}
    assert asked == {part.name for part in cuda_parts() if part.torch} - BY_CMAKE


def test_no_header_belongs_to_two_libraries(included: set[str]) -> None:
    owners = {name: [part.name for part in cuda_parts() if part.has(name)] for name in included}
    assert {name: found for name, found in owners.items() if len(found) > 1} == {}
