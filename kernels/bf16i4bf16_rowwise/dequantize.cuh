// Many rows, and whatever the tensor cores' bodies cannot take: the weight of some columns in bfloat16, for torch's own
// product. Every value is q * scale + zero_point in float32, rounded once.

#pragma once

#include "fragments.cuh"

namespace ao_kernels {

constexpr uint32_t kDequantizeThreads = 256;  // of a block, which walks along one column of the product
constexpr uint32_t kStepsAtOnce = 4;          // of a thread, all their loads under way together

// The bytes of the weight that one step reads, and as many pairs of bfloat16 that it writes.
template <int kBytes>
struct Bytes {
  static_assert(kBytes == 1 || kBytes == 4, "a byte for any weight, a word where all rows are aligned");
  struct alignas(kBytes) Packed {
    uint8_t byte[kBytes];
  };
  struct alignas(4 * kBytes) Values {
    uint32_t pair[kBytes];
  };
};

// Whether a weight's eight values always lie in one group, its words and their values at aligned places.
template <typename Scale>
bool has_whole_words(const RowwiseProblem<Scale>& problem) {
  const bool is_whole = problem.depth % kWordValues == 0 && problem.group_size % kWordValues == 0;
  return is_whole && reinterpret_cast<uintptr_t>(problem.weight) % 4 == 0;
}

// The step-th `kBytes` bytes of a column.
template <int kBytes, typename Scale>
AO_DEVICE typename Bytes<kBytes>::Packed read_bytes(const RowwiseProblem<Scale>& problem, int64_t column,
                                                    uint32_t step) {
  const int8_t* weight = problem.weight + column * (problem.depth / 2);
  return reinterpret_cast<const typename Bytes<kBytes>::Packed*>(weight)[step];
}

// Dequantizes them into their places of the column's values.
template <int kBytes, typename Scale>
AO_DEVICE void dequantize_bytes(const RowwiseProblem<Scale>& problem, const typename Bytes<kBytes>::Packed& packed,
                                int64_t column, uint32_t step, BFloat16* values) {
  using Values = typename Bytes<kBytes>::Values;
  const uint32_t k = step * 2 * kBytes, group_size = static_cast<uint32_t>(problem.group_size);
  const int64_t low = k / group_size * problem.columns + column;
  const int64_t high = kBytes == 1 ? (k + 1) / group_size * problem.columns + column : low;
  const float scale[2] = {to_float(problem.scale[low]), to_float(problem.scale[high])};
  const float zero_point[2] = {to_float(problem.zero_point[low]), to_float(problem.zero_point[high])};
  Values pairs;
  AO_UNROLL
  for (int i = 0; i < kBytes; ++i) {
    const float q[2] = {static_cast<float>(decode_int4(packed.byte[i])),
                        static_cast<float>(decode_int4(packed.byte[i] >> 4))};
    pairs.pair[i] = round_to_pair(fmaf(q[0], scale[0], zero_point[0]), fmaf(q[1], scale[1], zero_point[1]));
  }
  reinterpret_cast<Values*>(values)[step] = pairs;
}

#ifdef __CUDACC__

template <int kBytes, typename Scale>
__global__ void __launch_bounds__(kDequantizeThreads)
    dequantize_kernel(const RowwiseProblem<Scale> problem, int64_t first, BFloat16* slab) {
  const uint32_t steps = static_cast<uint32_t>(problem.depth / 2 / kBytes);
  const int64_t column = first + blockIdx.x;
  BFloat16* values = slab + blockIdx.x * problem.depth;
  for (uint32_t begin = threadIdx.x; begin < steps; begin += kStepsAtOnce * kDequantizeThreads) {
    typename Bytes<kBytes>::Packed packed[kStepsAtOnce] = {};
    AO_UNROLL
    for (uint32_t i = 0; i < kStepsAtOnce; ++i) {
      const uint32_t step = begin + i * kDequantizeThreads;
      if (step < steps) {
        packed[i] = read_bytes<kBytes>(problem, column, step);
      }
    }
    AO_UNROLL
    for (uint32_t i = 0; i < kStepsAtOnce; ++i) {
      const uint32_t step = begin + i * kDequantizeThreads;
      if (step < steps) {
        dequantize_bytes<kBytes>(problem, packed[i], column, step, values);
      }
    }
  }
}

#endif

}  // namespace ao_kernels
