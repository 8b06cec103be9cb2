// Which kernel a call gets, and over how many blocks. Sources take this file for one type of scales each, so that they
// are compiled beside each other.

#pragma once

#include <cuda_runtime.h>

#include <array>
#include <atomic>

#include "bf16i4bf16_rowwise.cuh"
#include "dequantize.cuh"
#include "tiled.cuh"

namespace ao_kernels {

constexpr int kRememberedDevices = 128;  // more than one machine has

inline int current_device() {
  int device = 0;
  cudaGetDevice(&device);
  return device;
}

// How a body is launched: in clusters of so many blocks, and beside the end of the kernel before it on the stream, for
// whose end it waits by itself before it reads anything (wait_for_kernel_before).
template <typename Body>
struct Launch {
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};

  Launch(int splits, dim3 blocks, cudaStream_t stream) {
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim.x = 1;
    attributes[0].val.clusterDim.y = static_cast<unsigned>(splits);
    attributes[0].val.clusterDim.z = 1;
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = blocks;
    config.blockDim = dim3(kThreads);
    config.dynamicSmemBytes = sizeof(typename Body::Shared);
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = 2;
    cudaFuncSetAttribute(rowwise_kernel<Body>, cudaFuncAttributeMaxDynamicSharedMemorySize, config.dynamicSmemBytes);
  }

  Launch(const Launch&) = delete;  // the configuration points to its own attribute
  Launch& operator=(const Launch&) = delete;
};

// Asks CUDA how many clusters of so many blocks run at once on the current device: none where it knows no such cluster.
template <typename Body>
int ask_for_clusters_at_once(int splits) {
  const Launch<Body> launch(splits, dim3(1, static_cast<unsigned>(splits)), nullptr);
  int clusters = 0;
  if (cudaOccupancyMaxActiveClusters(&clusters, rowwise_kernel<Body>, &launch.config) != cudaSuccess) {
    cudaGetLastError();  // forgets the error: the answer is none
    return 0;
  }
  return clusters;
}

// Asks once for each device: an answer costs more than a launch.
template <typename Body>
int clusters_at_once(int splits) {
  static std::array<std::array<std::atomic<int>, kMostSplits + 1>, kRememberedDevices> answers{};  // each plus one
  const int device = current_device();
  if (device >= kRememberedDevices) {
    return ask_for_clusters_at_once<Body>(splits);
  }
  std::atomic<int>& answer = answers[device][splits];
  if (answer == 0) {
    answer = ask_for_clusters_at_once<Body>(splits) + 1;
  }
  return answer - 1;
}

// One cluster for each tile. An error is CUDA's last one, which the binding asks for.
template <typename Body>
void launch(const typename Body::Problem& problem, cudaStream_t stream) {
  const Grid grid = grid_of<Body>(problem, clusters_at_once<Body>);
  const dim3 blocks(static_cast<unsigned>(grid.tiles_along_columns), static_cast<unsigned>(grid.splits),
                    static_cast<unsigned>(grid.tiles_along_rows));
  const Launch<Body> launch(grid.splits, blocks, stream);
  cudaLaunchKernelEx(&launch.config, rowwise_kernel<Body>, problem, divisor_of(problem.group_size / kUnit), grid);
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

}  // namespace ao_kernels
