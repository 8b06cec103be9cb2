// The CUDA kernel's own binding and bodies, compiled for the CPU as ao_on_host::bf16i4bf16_rowwise. Only the launch is
// another: see bodies.h.

#include <cuda_runtime_api.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/macros.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

// From here on, what the binding says about CUDA is meant for the CPU. The headers above are read by now.
#define ao ao_on_host
#define CUDA CPU
#define is_cuda is_cpu
#include "binding.cpp"
#include "bodies.h"

namespace ao_kernels {

static bool has_code = true;

bool has_code_for_current_device() {
  return has_code;
}

template <typename Scale>
void launch_bf16i4bf16_rowwise(const RowwiseProblem<Scale>& problem, CUstream_st*) {
  constexpr int kMultiprocessors = 132;  // of an H200
  run_on_host(choose_body(problem), problem, kMultiprocessors);
}

template <typename Scale>
void launch_dequantize(const RowwiseProblem<Scale>& problem, int64_t first, int64_t columns, BFloat16* slab,
                       CUstream_st*) {
  dequantize_on_host(problem, first, columns, slab);
}

}  // namespace ao_kernels

// Whether the library holds code for the device that it pretends to be on.
extern "C" __attribute__((visibility("default"))) void pretend_to_have_code(int has_code) {
  ao_kernels::has_code = has_code;
}

// What torch's CUDA library would hold.
extern "C" AOTITorchError aoti_torch_get_current_cuda_stream(int32_t, void** stream) {
  *stream = nullptr;
  return 0;
}

extern "C" AOTITorchError torch_c10_cuda_check_msg(int32_t, const char*, const char*, uint32_t, bool, char** message) {
  *message = nullptr;
  return 0;
}

extern "C" void torch_c10_cuda_free_error_msg(char*) {}

// A guard for a device that the CPU build of torch does not have.
extern "C" AOTITorchError aoti_torch_create_device_guard(int32_t, DeviceGuardHandle* guard) {
  *guard = nullptr;
  return 0;
}
