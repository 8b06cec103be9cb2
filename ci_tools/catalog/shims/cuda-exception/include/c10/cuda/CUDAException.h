// In place of torch's: checks of CUDA's calls, without the headers that change from one torch to the next.
// It has no C10_CUDA_DRIVER_CHECK, no TORCH_DSA_KERNEL_LAUNCH and no CUDAError: what needs those does not compile.
// What is small of the standard library is here, as sources rely on it; <string> and <vector> would cost each of them a
// second, so they include those themselves.
#pragma once

#include <c10/macros/Macros.h>
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <type_traits>
#include <utility>

static_assert(sizeof(cudaError_t) == sizeof(std::int32_t), "torch takes an error as 32 bits");

extern "C" {
// Throws torch's error if there is one.
__attribute__((visibility("hidden"))) void fatwheel_cuda_check(
    cudaError_t error, const char* file, const char* function, std::uint32_t line);
// Warns of an error by torch's own means, and clears it.
__attribute__((visibility("hidden"))) void fatwheel_cuda_warn(cudaError_t error);
}

#define C10_CUDA_CHECK(EXPR) \
  fatwheel_cuda_check((EXPR), __FILE__, __func__, static_cast<std::uint32_t>(__LINE__))
#define C10_HIP_CHECK C10_CUDA_CHECK
#define C10_CUDA_CHECK_WARN(EXPR) fatwheel_cuda_warn(EXPR)
#define C10_CUDA_ERROR_HANDLED(EXPR) EXPR
#define C10_CUDA_IGNORE_ERROR(EXPR)                                   \
  do {                                                                \
    if ((EXPR) != cudaSuccess) {                                      \
      [[maybe_unused]] cudaError_t error_unused = cudaGetLastError(); \
    }                                                                 \
  } while (0)
#define C10_CUDA_CLEAR_ERROR()                                      \
  do {                                                              \
    [[maybe_unused]] cudaError_t error_unused = cudaGetLastError(); \
  } while (0)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
