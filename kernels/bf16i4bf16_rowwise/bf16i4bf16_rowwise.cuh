// bfloat16 activations times int4 weights: the arithmetic of one output, on a GPU or on a host.
//
// A host compiler takes this file as it is, and tests/kernels does so: every multiplication is an explicit fused
// multiply-add and every other step is exact or rounds once, so both give the same bits and no GPU is needed to prove
// the numbers.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define AO_HOST_DEVICE __host__ __device__
#else
#define AO_HOST_DEVICE
#endif

// What cudaStream_t points to; named here so that this file needs no CUDA header.
struct CUstream_st;

namespace ao_kernels {

// The upper half of a float32.
struct BFloat16 {
  uint16_t bits;
};

static_assert(sizeof(BFloat16) == 2, "tensors of bfloat16 are read in place, so the type has their size");

// One call: contiguous row-major arrays, all on one device.
template <typename Scale>
struct RowwiseProblem {
  const BFloat16* input;    // [rows, depth]
  const int8_t* weight;     // [columns, depth / 2], even k in the low four bits
  const Scale* scale;       // [depth / group_size, columns]
  const Scale* zero_point;  // [depth / group_size, columns], the weight that q = 0 stands for
  BFloat16* output;         // [rows, columns]
  int64_t rows;
  int64_t columns;
  int64_t depth;       // even
  int64_t group_size;  // divides depth
};

// The lanes that share one output: a warp's threads.
constexpr int kLanes = 32;

AO_HOST_DEVICE inline float to_float(float value) {
  return value;
}

AO_HOST_DEVICE inline float to_float(BFloat16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float result;
  memcpy(&result, &bits, sizeof(result));
  return result;
}

// The nearest bfloat16, ties to the even one; a NaN stays a NaN.
AO_HOST_DEVICE inline BFloat16 to_bfloat16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  if (value != value) {
    return {static_cast<uint16_t>((bits >> 16) | 0x0040)};  // sets the quiet bit, so that the mantissa is not zero
  }
  const uint32_t is_odd = (bits >> 16) & 1;
  return {static_cast<uint16_t>((bits + 0x7FFF + is_odd) >> 16)};
}

// The signed value, -8 to 7, of the low four bits.
AO_HOST_DEVICE inline int decode_int4(int packed) {
  return ((packed & 0xF) ^ 8) - 8;
}

// The weight that q stands for at [column, k], in float32.
template <typename Scale>
AO_HOST_DEVICE float dequantize(const RowwiseProblem<Scale>& problem, int64_t column, int64_t k, int q) {
  const int64_t at = k / problem.group_size * problem.columns + column;
  return fmaf(static_cast<float>(q), to_float(problem.scale[at]), to_float(problem.zero_point[at]));
}

// One lane's part of output [row, column]: every kLanes-th byte of the weight's row.
template <typename Scale>
AO_HOST_DEVICE float lane_sum(const RowwiseProblem<Scale>& problem, int64_t row, int64_t column, int lane) {
  const int64_t row_bytes = problem.depth / 2;
  const int8_t* weight = problem.weight + column * row_bytes;
  const BFloat16* input = problem.input + row * problem.depth;
  float sum = 0;
  for (int64_t byte = lane; byte < row_bytes; byte += kLanes) {
    const int64_t k = 2 * byte;
    const int packed = weight[byte];
    sum = fmaf(dequantize(problem, column, k, decode_int4(packed)), to_float(input[k]), sum);
    sum = fmaf(dequantize(problem, column, k + 1, decode_int4(packed >> 4)), to_float(input[k + 1]), sum);
  }
  return sum;
}

// Puts the work on the stream of the current device. Scale is float or BFloat16.
template <typename Scale>
void launch_bf16i4bf16_rowwise(const RowwiseProblem<Scale>& problem, CUstream_st* stream);

}  // namespace ao_kernels
