// The kernels for scales in bfloat16, and whether this device can run any.

#include "launch.cuh"

namespace ao_kernels {

constexpr int kLowestCapability = 9;  // the first major version with clusters and bfloat16 arithmetic

// Asks CUDA for a kernel: it knows which architectures the library was built for, PTX included.
bool find_code_for_current_device() {
  cudaFuncAttributes attributes;
  const bool has_image =
      cudaFuncGetAttributes(&attributes, rowwise_kernel<Streaming<BFloat16, 4, 1, 4>>) == cudaSuccess;
  if (!has_image) {
    cudaGetLastError();  // forgets the error: the answer is no
  }
  int capability = 0;
  cudaDeviceGetAttribute(&capability, cudaDevAttrComputeCapabilityMajor, current_device());
  return has_image && capability >= kLowestCapability;
}

// Asks once for each device: an answer costs about as much as a launch.
bool has_code_for_current_device() {
  static std::array<std::atomic<int>, kRememberedDevices> answers{};  // 0 where nobody has asked, else 1 or 2
  const int device = current_device();
  if (device >= kRememberedDevices) {
    return find_code_for_current_device();
  }
  if (answers[device] == 0) {
    answers[device] = find_code_for_current_device() ? 1 : 2;
  }
  return answers[device] == 1;
}

template void launch_bf16i4bf16_rowwise(const RowwiseProblem<BFloat16>&, CUstream_st*);
template void launch_dequantize(const RowwiseProblem<BFloat16>&, int64_t, int64_t, BFloat16*, CUstream_st*);

}  // namespace ao_kernels
