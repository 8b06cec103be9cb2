// Which kernel a call gets, over how many blocks, and whether this device can run it.

#include <cuda_runtime.h>

#include <array>
#include <atomic>

#include "bf16i4bf16_rowwise.cuh"
#include "dequantize.cuh"
#include "tiled.cuh"

namespace ao_kernels {

constexpr int kRememberedDevices = 128;  // more than one machine has
constexpr int kLowestCapability = 9;     // the first major version with clusters and bfloat16 arithmetic

inline int device_attribute(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&value, attribute, device);
  return value;
}

// One cluster for each tile. An error is CUDA's last one, which the binding asks for.
template <typename Body>
void launch(const typename Body::Problem& problem, cudaStream_t stream) {
  const Grid grid = grid_of<Body>(problem, device_attribute(cudaDevAttrMultiProcessorCount));
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = static_cast<unsigned>(grid.splits);
  cluster.val.clusterDim.y = 1;
  cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(grid.tiles_along_columns * grid.splits), grid.tiles_along_rows);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = sizeof(typename Body::Shared);
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  cudaFuncSetAttribute(rowwise_kernel<Body>, cudaFuncAttributeMaxDynamicSharedMemorySize, config.dynamicSmemBytes);
  cudaLaunchKernelEx(&config, rowwise_kernel<Body>, problem, divisor_of(problem.group_size / kUnit), grid);
}

template <typename Scale>
void launch_bf16i4bf16_rowwise(const RowwiseProblem<Scale>& problem, CUstream_st* stream) {
  const auto launch_chosen = [&](auto chosen) { launch<typename decltype(chosen)::Chosen>(problem, stream); };
  if (problem.rows <= kStreamingRows) {
    choose_streaming(problem, launch_chosen);
  } else {
    choose_tiled(problem, launch_chosen);
  }
}

template <typename Scale>
void launch_dequantize(const RowwiseProblem<Scale>& problem, int64_t first, int64_t columns, BFloat16* slab,
                       CUstream_st* stream) {
  const unsigned blocks = static_cast<unsigned>(columns);
  if (has_whole_words(problem)) {
    dequantize_kernel<4><<<blocks, kDequantizeThreads, 0, stream>>>(problem, first, slab);
  } else {
    dequantize_kernel<1><<<blocks, kDequantizeThreads, 0, stream>>>(problem, first, slab);
  }
}

// Asks CUDA for a kernel: it knows which architectures the library was built for, PTX included.
bool find_code_for_current_device() {
  cudaFuncAttributes attributes;
  const bool has_image = cudaFuncGetAttributes(&attributes, rowwise_kernel<Streaming<float, 4, 1>>) == cudaSuccess;
  if (!has_image) {
    cudaGetLastError();  // forgets the error: the answer is no
  }
  return has_image && device_attribute(cudaDevAttrComputeCapabilityMajor) >= kLowestCapability;
}

// Asks once for each device: an answer costs about as much as a launch.
bool has_code_for_current_device() {
  static std::array<std::atomic<int>, kRememberedDevices> answers{};  // 0 where nobody has asked, else 1 or 2
  int device = 0;
  cudaGetDevice(&device);
  if (device >= kRememberedDevices) {
    return find_code_for_current_device();
  }
  if (answers[device] == 0) {
    answers[device] = find_code_for_current_device() ? 1 : 2;
  }
  return answers[device] == 1;
}

template void launch_bf16i4bf16_rowwise(const RowwiseProblem<float>&, CUstream_st*);
template void launch_bf16i4bf16_rowwise(const RowwiseProblem<BFloat16>&, CUstream_st*);
template void launch_dequantize(const RowwiseProblem<float>&, int64_t, int64_t, BFloat16*, CUstream_st*);
template void launch_dequantize(const RowwiseProblem<BFloat16>&, int64_t, int64_t, BFloat16*, CUstream_st*);

}  // namespace ao_kernels
