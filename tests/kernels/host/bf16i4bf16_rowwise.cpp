// The CUDA kernel's own binding and arithmetic, compiled for the CPU as ao_on_host::bf16i4bf16_rowwise. Only the launch
// is another: loops stand for blocks, and an array for the registers of a warp.

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

namespace ao_kernels {

// Adds in the order of the kernel's warp_sum, so that not even the last bit differs.
static float warp_sum(const float (&lanes)[kLanes]) {
  float sums[kLanes];
  std::copy(lanes, lanes + kLanes, sums);
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    for (int lane = 0; lane < distance; ++lane) {
      sums[lane] += sums[lane + distance];
    }
  }
  return sums[0];
}

template <typename Scale>
void launch_bf16i4bf16_rowwise(const RowwiseProblem<Scale>& problem, CUstream_st*) {
  for (int64_t row = 0; row < problem.rows; ++row) {
    for (int64_t column = 0; column < problem.columns; ++column) {
      float lanes[kLanes];
      for (int lane = 0; lane < kLanes; ++lane) {
        lanes[lane] = lane_sum(problem, row, column, lane);
      }
      problem.output[row * problem.columns + column] = to_bfloat16(warp_sum(lanes));
    }
  }
}

}  // namespace ao_kernels

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
