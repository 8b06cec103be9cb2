// bfloat16 activations times int4 weights: one call, the arithmetic of one output, and what the binding launches.
//
// A host compiler takes this file and the ones with the kernels' bodies as they are, and tests/kernels does so: what a
// warp does is written once, for 32 threads of a GPU or for a loop of 32 steps, so the indices are proven without a
// GPU.

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

// How a call is computed.
enum class Body {
  kStreaming,  // few rows: reads the weight once, near the speed of memory
  kTiled,      // a moderate number of rows: tiles on the tensor cores
  kSlabs,      // many rows, and whatever the other two cannot take: dequantizes slabs for torch's own product
};

// The borders below were measured on an H200, as the table of this folder's README.
constexpr int64_t kStreamingRows = 32;  // of four tensor-core tiles
constexpr int64_t kTiledRows = 128;     // where dequantizing and torch's product begin to win
constexpr int64_t kFewSlabRows = 512;   // up to here, a product of few columns leaves multiprocessors idle
constexpr int64_t kFewSlabBytes = 128 << 20;
constexpr int64_t kSlabBytes = 64 << 20;
constexpr int64_t kSlabColumns = 256;      // a slab has a multiple of this, for whole tiles of torch's product
constexpr int64_t kLoadBytes = 16;         // the widest load, which the operands must be aligned for
constexpr int64_t kUnit = 32;              // four lanes' words of eight values; every group is a multiple
constexpr int64_t kMostColumns = 1 << 30;  // a tile's columns past the last one still have 32-bit indices
constexpr int64_t kMostDepth = 1 << 21;    // units squared stay below 2^32, as Divisor asks for

// Whether an array can be read 16 bytes at a time.
inline bool is_aligned(const void* array) {
  return reinterpret_cast<uintptr_t>(array) % kLoadBytes == 0;
}

// Whether the tensor cores' bodies can take the call: groups of a multiple of 32, aligned arrays.
template <typename Scale>
bool fits_tensor_cores(const RowwiseProblem<Scale>& problem) {
  const bool fits = problem.columns <= kMostColumns && problem.depth <= kMostDepth;
  const bool is_whole = problem.group_size > 0 && problem.group_size % kUnit == 0;
  return fits && is_whole && is_aligned(problem.input) && is_aligned(problem.weight);
}

template <typename Scale>
Body choose_body(const RowwiseProblem<Scale>& problem) {
  if (problem.rows > kTiledRows || !fits_tensor_cores(problem)) {
    return Body::kSlabs;
  }
  return problem.rows <= kStreamingRows ? Body::kStreaming : Body::kTiled;
}

// How many columns one slab has: equal slabs of at most so many bytes, or single columns where even one has more.
inline int64_t slab_columns(int64_t rows, int64_t columns, int64_t depth) {
  const int64_t bytes = rows <= kFewSlabRows ? kFewSlabBytes : kSlabBytes;
  const int64_t fitting = bytes / (2 * (depth > 0 ? depth : 1));
  if (fitting >= columns) {
    return columns;
  }
  return fitting >= kSlabColumns ? fitting / kSlabColumns * kSlabColumns : (fitting > 0 ? fitting : 1);
}

// Whether this library holds code for the current device.
bool has_code_for_current_device();

// Puts the product on the stream, for every body but kSlabs. Scale is float or BFloat16, here and below.
template <typename Scale>
void launch_bf16i4bf16_rowwise(const RowwiseProblem<Scale>& problem, CUstream_st* stream);

// Puts on the stream: slab [columns, depth] is the weight of the columns from `first` on, in bfloat16.
template <typename Scale>
void launch_dequantize(const RowwiseProblem<Scale>& problem, int64_t first, int64_t columns, BFloat16* slab,
                       CUstream_st* stream);

}  // namespace ao_kernels
