// Defines what the shim of CUDAException.h declares, by the torch of the build.
#include <cuda_runtime_api.h>

#include <c10/cuda/CUDAException.h>

extern "C" {
__attribute__((visibility("hidden"))) void fatwheel_cuda_check(
    cudaError_t error, const char* file, const char* function, std::uint32_t line) {
  c10::cuda::c10_cuda_check_implementation(error, file, function, line, true);
}

__attribute__((visibility("hidden"))) void fatwheel_cuda_warn(cudaError_t error) { C10_CUDA_CHECK_WARN(error); }
}
