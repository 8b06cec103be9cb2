// One warp adds up one output; warps walk over the outputs until all are done. Correct and simple, not yet fast.

#include <algorithm>

#include "bf16i4bf16_rowwise.cuh"

namespace ao_kernels {

constexpr int kWarpsPerBlock = 8;  // 256 threads: enough to fill an SM with any register count
constexpr int kThreadsPerBlock = kWarpsPerBlock * kLanes;
constexpr int64_t kMaxBlocks = 2147483647;  // CUDA's limit for gridDim.x

static_assert(kLanes == 32, "warp_sum exchanges values within a warp, which has 32 threads");

// The sum of all lanes' values, the same in every lane.
__device__ inline float warp_sum(float value) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xFFFFFFFF, value, distance);
  }
  return value;
}

template <typename Scale>
__global__ void __launch_bounds__(kThreadsPerBlock) bf16i4bf16_rowwise_kernel(const RowwiseProblem<Scale> problem) {
  const int lane = threadIdx.x % kLanes;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kWarpsPerBlock + threadIdx.x / kLanes;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * kWarpsPerBlock;
  for (int64_t output = first; output < problem.rows * problem.columns; output += warps) {
    const int64_t row = output / problem.columns;
    const int64_t column = output % problem.columns;
    const float sum = warp_sum(lane_sum(problem, row, column, lane));
    if (lane == 0) {
      problem.output[output] = to_bfloat16(sum);
    }
  }
}

template <typename Scale>
void launch_bf16i4bf16_rowwise(const RowwiseProblem<Scale>& problem, CUstream_st* stream) {
  const int64_t outputs = problem.rows * problem.columns;
  const int64_t blocks = std::min((outputs + kWarpsPerBlock - 1) / kWarpsPerBlock, kMaxBlocks);
  bf16i4bf16_rowwise_kernel<<<static_cast<unsigned>(blocks), kThreadsPerBlock, 0, stream>>>(problem);
}

template void launch_bf16i4bf16_rowwise(const RowwiseProblem<float>&, CUstream_st*);
template void launch_bf16i4bf16_rowwise(const RowwiseProblem<BFloat16>&, CUstream_st*);

}  // namespace ao_kernels
