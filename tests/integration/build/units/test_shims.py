"""A shim gives device code the same text for several torches, and each library what its own torch has."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ci_tools.build.units.store import UnitStore
from tests.builders.sources import write
from tests.builders.units import Units, open_units

pytestmark = pytest.mark.long

EXCEPTION = """\
#pragma once
#include <cstdint>
#include <cuda_runtime_api.h>
namespace c10::cuda {{ void c10_cuda_check_implementation({error}, const char*, const char*, {line}, bool); }}
#define C10_CUDA_CHECK(EXPR) c10::cuda::c10_cuda_check_implementation((EXPR), __FILE__, __func__, __LINE__, true)
#define C10_CUDA_CHECK_WARN(EXPR) C10_CUDA_CHECK(EXPR)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
"""
TORCHES = (EXCEPTION.format(error="int", line="int"), EXCEPTION.format(error="cudaError_t", line="unsigned"))
CHECKED = """\
#include <c10/cuda/CUDAException.h>
__global__ void k(int* x) { *x = 1; }
void launch(int* x) { k<<<1, 1>>>(x); C10_CUDA_KERNEL_LAUNCH_CHECK(); }
"""
STATE = "#pragma once\n#include <cstdint>\nnamespace at {{ struct PhiloxCudaState {{ {members} }}; }}\n"
WORDS = "uint64_t seed; uint64_t offset;"
OLD = STATE.format(members=f"{WORDS} uint32_t offset_intragraph; bool captured;")  # as torch 2.9 has it: 24 bytes
NEW = STATE.format(members=f"{WORDS} uint64_t offset_intragraph; bool captured;")  # as torch 2.10 has it: 32 bytes
OTHER = STATE.format(members=f"uint64_t offset_intragraph; {WORDS} bool captured;")
RANDOM = """\
#include <ATen/cuda/CUDAGeneratorImpl.h>
__global__ void k(at::PhiloxCudaState state, uint64_t* x) { *x = state.offset; }
"""
HEADERS = {"cuda-exception": "c10/cuda/CUDAException.h", "cuda-generator": "ATen/cuda/CUDAGeneratorImpl.h"}
LEANING = """\
#include <HEADER>
void say(int x) { assert(x < std::numeric_limits<int>::max()); fprintf(stderr, "%d", x); abort(); }
"""
CALL = ("nvcc", "-arch=sm_90", "-std=c++17", "-Xcompiler", "-fPIC", "-Itorch", "a.cu")


def compile_with(units: Units, source: str, headers: dict[str, str]) -> tuple[bytes, str]:
    """Compile a source with a torch of these headers; return the object, and where it is from."""
    write(units.folder, {"a.cu": source, **{f"torch/{name}": text for name, text in headers.items()}})
    time.sleep(0.02)
    return units.compile(*CALL)


@pytest.mark.parametrize(("shims", "second"), [((), "compiled"), (("cuda-exception",), "unchanged")])
def test_two_torches_share_an_object_where_a_shim_is_named_and_each_library_calls_its_own(
    shims: tuple[str, ...], second: str, cuda_home: Path, tmp_path: Path
) -> None:
    found, symbols, store = [], [], UnitStore(folder=tmp_path / "store")
    for text in TORCHES:
        with open_units(tmp_path / "build", store, cuda_home) as units:
            units.shims.put(shims)
            headers = {"c10/cuda/CUDAException.h": text, "c10/macros/Macros.h": ""}
            found.append(compile_with(units, CHECKED, headers))
            write(units.folder, {"more.cpp": "int more;\n"})
            for words in (("x.o",), ("more.cpp", "x.o")):  # the second compiles and links in one step
                linked = units.run("g++", "-fPIC", "-shared", *words, "-o", "x.so")
                assert linked.returncode == 0, linked.stderr
                symbols.append(units.run("nm", "-DC", "x.so").stdout)
    assert [how for _, how in found] == ["compiled", second]
    assert all("c10_cuda_check_implementation(int, char const*, char const*, int, bool)" in one for one in symbols[:2])
    own = "c10_cuda_check_implementation(cudaError, char const*, char const*, unsigned int, bool)"
    assert all(own in one for one in symbols[2:])
    assert "fatwheel" not in "".join(symbols)


@pytest.mark.parametrize("shims", [(), ("cuda-generator",)])
def test_no_object_is_shared_where_the_state_of_a_generator_has_another_layout(
    shims: tuple[str, ...], cuda_home: Path, tmp_path: Path
) -> None:
    with open_units(tmp_path, UnitStore(folder=tmp_path / "store"), cuda_home) as units:
        units.shims.put(shims)
        headers = {"ATen/cuda/CUDAGeneratorImpl.h": "#pragma once\n#include <ATen/cuda/PhiloxCudaState.h>\n"}
        found = [compile_with(units, RANDOM, {**headers, "ATen/cuda/PhiloxCudaState.h": one}) for one in (NEW, OTHER)]
        assert [how for _, how in found] == ["compiled", "compiled"]
        assert found[0][0] != found[1][0]
        write(units.folder, {"torch/ATen/cuda/PhiloxCudaState.h": OLD})
        old = units.run(*CALL, "-c", "-o", "x.o")
        assert (old.returncode != 0, "the layout since torch 2.10" in old.stderr) == (bool(shims), bool(shims))


def test_a_library_that_this_torch_does_not_compile_ends_the_link_with_the_reason(
    cuda_home: Path, tmp_path: Path
) -> None:
    with open_units(tmp_path, UnitStore(folder=tmp_path / "store"), cuda_home) as units:
        units.shims.put(("cuda-exception",))
        compile_with(units, CHECKED, {"c10/cuda/CUDAException.h": "#pragma once\n", "c10/macros/Macros.h": ""})
        linked = units.run("g++", "-shared", "x.o", "-o", "x.so")
    assert linked.returncode == 1
    assert "the shim cuda-exception cannot be compiled with the torch of this build" in linked.stderr


@pytest.mark.parametrize("shim", HEADERS)
def test_a_source_has_what_is_small_of_the_standard_library_as_with_torch_s_header(
    shim: str, cuda_home: Path, tmp_path: Path
) -> None:
    with open_units(tmp_path, None, cuda_home) as units:
        units.shims.put((shim,))
        headers = {"c10/macros/Macros.h": "", "ATen/cuda/PhiloxCudaState.h": NEW}
        compile_with(units, LEANING.replace("HEADER", HEADERS[shim]), headers)
