// What a CPU must be able to do for the operators, and the bodies that can: one for each instruction set. Knows no
// torch.

#pragma once

#include <cstdint>

#include "../formats.h"

namespace ao_kernels {

// One call: contiguous row-major arrays. bfloat16 values are given as their bits.
struct CpuProblem {
  const uint16_t* input;   // [rows, depth]
  const int8_t* weight;    // [columns, depth / values_per_byte(format)]
  const void* scale;       // [depth / group_size, columns], float or bfloat16
  const void* zero_point;  // int4: as scale, the weight that q = 0 stands for. uint4: int8; the weight is
                           // (u - zero_point) * scale, where u = q + 8. null for others
  uint16_t* output;        // [rows, columns]
  int64_t rows;
  int64_t columns;
  int64_t depth;       // even where two values share a byte
  int64_t group_size;  // divides depth; at least 1
  bool has_bfloat16_scales;
  Format format = Format::kInt4;
};

constexpr int kOffset = 8;  // of unsigned four-bit values

// Columns whose scales are gathered at a time: a cache line of float32.
constexpr int64_t kTileColumns = 16;

// For a body that is always quicker than torch's matrix product.
constexpr int64_t kAnyRows = INT64_MAX;

// What one instruction set does with columns first to last, last excluded. Threads share a problem by its columns.
struct CpuBody {
  const char* name;  // as `describe()` tells it

  // Up to this many rows, it is quickest to decode every weight in registers and to forget it.
  int64_t few_rows;

  // Up to this many rows, it is quickest to write a panel of weights down and to multiply by that. For more rows
  // torch's own matrix product makes up for what it costs to hand a panel over.
  int64_t some_rows;

  // Writes the output's columns, for few rows. `input_sums` [rows, groups] holds the sum of the input over each group,
  // and is not read where there are no zero points; `scales` has room for groups * kTileColumns values and belongs to
  // this call.
  void (*multiply)(const CpuProblem& problem, const float* input_sums, float* scales, int64_t first, int64_t last);

  // Writes the bfloat16 weight that the columns stand for to panel [last - first, depth].
  void (*dequantize)(const CpuProblem& problem, int64_t first, int64_t last, uint16_t* panel);

  // Writes what multiply_panel multiplies by: the same, or values whose scales can wait until they are added up.
  void (*fill_panel)(const CpuProblem& problem, int64_t first, int64_t last, uint16_t* panel);

  // Writes the output's columns, given their panel.
  void (*multiply_panel)(const CpuProblem& problem, const uint16_t* panel, int64_t first, int64_t last);
};

extern const CpuBody kPlainBody;
#ifdef __x86_64__
extern const CpuBody kAvx2Body;
extern const CpuBody kAvx512Body;
extern const CpuBody kAvx512Bfloat16Body;
extern const CpuBody kAmxBody;
#endif

}  // namespace ao_kernels
