// bfloat16 activations times quantized weights on a CPU: the same steps for every instruction set, written over its
// vectors.
//
// Each source that includes this file is compiled for another instruction set. Everything here is therefore in an
// anonymous namespace and nothing of the standard library is called: of a function that several sources share, the
// linker would keep any one copy, and an older CPU might be given one that it cannot run.
//
// A set of vectors, `Simd`, says how kStep weights of one column (at most kGroupStep) are decoded and multiplied:
//   kFewRows, few_columns(rows)  the most outputs at a time, where each weight is decoded in registers: the sums, the
//                                weights of the columns and the activations of a row are all to stay there
//   kRows, kColumns              the same, where a panel is multiplied by
//   Sum         partial sums in float32
//   Weights     kStep values of q, decoded
//   Activations kStep values of the input
//   decode<kFormat>, load, multiply_add(sum, weights, activations), scaled_add(total, scale, sum), add_up(sum)
//   dequantize<kFormat>(packed, count, scale, zero_point, weight): a group's weights as bfloat16, looked up among the
//               sixteen that there can be, where two share a byte
//   widen<kFormat>(stored, values): kStep values as bfloat16, which holds them all, where each has a byte

#pragma once

#include <cstdint>
#include <cstring>

#include "body.h"

namespace {

using ao_kernels::CpuBody;
using ao_kernels::CpuProblem;
using ao_kernels::Format;
using ao_kernels::has_zero_points;
using ao_kernels::kTileColumns;
using ao_kernels::values_per_byte;

// What vectors take: groups of another size than its multiples are multiplied value by value.
constexpr int64_t kGroupStep = 32;

constexpr int64_t kCacheLine = 64;  // bytes

constexpr int64_t kFetchedBytes = 4096;  // asked for at a time: a group may be a whole row

// What makes a byte's two values signed: nothing, or the highest bit of each.
template <Format kFormat>
constexpr int kFlip = kFormat == Format::kUint4 ? 0x88 : 0;

// The value of each four-bit pattern.
constexpr float kValues[16] = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};

// The bfloat16 of the 128 magnitudes of float8 (e4m3fn): normal ones have the bias 7, the first eight are multiples of
// 2^-9, and the last is no number.
struct Float8Magnitudes {
  uint16_t bits[128] = {};

  constexpr Float8Magnitudes() {
    for (int stored = 8; stored < 127; ++stored) {
      bits[stored] = static_cast<uint16_t>((stored << 4) + ((127 - 7) << 7));
    }
    for (int stored = 1; stored < 8; ++stored) {
      const int highest = stored < 2 ? 0 : stored < 4 ? 1 : 2;  // its highest bit
      bits[stored] = static_cast<uint16_t>(((127 - 9 + highest) << 7) + ((stored << (7 - highest)) & 0x7F));
    }
    bits[127] = 0x7FC0;
  }
};

constexpr Float8Magnitudes kFloat8;

inline float to_float(uint16_t bfloat16) {
  const uint32_t bits = static_cast<uint32_t>(bfloat16) << 16;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// The nearest bfloat16, ties to the even one; a NaN stays a NaN.
inline uint16_t to_bfloat16(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  return static_cast<uint16_t>(value == value ? rounded : (bits >> 16) | 0x0040);  // the quiet bit: no NaN's is zero
}

inline uint16_t widen_float8(int8_t stored) {
  return static_cast<uint16_t>(kFloat8.bits[stored & 0x7F] | (stored & 0x80) << 8);
}

inline bool is_finite(float value) {
  return (bits_of(value) & 0x7F800000) != 0x7F800000;
}

inline int64_t smaller(int64_t one, int64_t other) {
  return one < other ? one : other;
}

inline float scale_at(const CpuProblem& problem, const void* scales, int64_t group, int64_t column) {
  const int64_t at = group * problem.columns + column;
  return problem.has_bfloat16_scales ? to_float(static_cast<const uint16_t*>(scales)[at])
                                     : static_cast<const float*>(scales)[at];
}

// The weight that q = 0 stands for.
inline float zero_point_at(const CpuProblem& problem, int64_t group, int64_t column) {
  if (!has_zero_points(problem.format)) {
    return 0;
  }
  if (problem.format == Format::kInt4) {
    return scale_at(problem, problem.zero_point, group, column);
  }
  const int zero_point = static_cast<const int8_t*>(problem.zero_point)[group * problem.columns + column];
  return static_cast<float>(ao_kernels::kOffset - zero_point) * scale_at(problem, problem.scale, group, column);
}

// The four bits of weight [column, k], signed.
inline int nibble_at(const CpuProblem& problem, int64_t column, int64_t k) {
  const int packed = problem.weight[column * (problem.depth / 2) + k / 2];
  return ((k % 2 ? packed >> 4 : packed) & 0xF) ^ (problem.format == Format::kUint4 ? ao_kernels::kOffset : 0);
}

// The value q that is stored of weight [column, k].
inline float value_at(const CpuProblem& problem, int64_t column, int64_t k) {
  if (values_per_byte(problem.format) == 2) {
    return kValues[nibble_at(problem, column, k)];
  }
  const int8_t stored = problem.weight[column * problem.depth + k];
  return problem.format == Format::kInt8 ? static_cast<float>(stored) : to_float(widen_float8(stored));
}

// One output, weight by weight: the only way that is right when a sum over a group of q * x is not finite, for where q
// is zero the weight is not, and infinity times the one is not infinity times the other.
__attribute__((noinline)) float multiply_one_by_one(const CpuProblem& problem, int64_t row, int64_t column) {
  const uint16_t* input = problem.input + row * problem.depth;
  float sum = 0;
  for (int64_t begin = 0; begin < problem.depth; begin += problem.group_size) {
    const float scale = scale_at(problem, problem.scale, begin / problem.group_size, column);
    const float zero_point = zero_point_at(problem, begin / problem.group_size, column);
    for (int64_t k = begin; k < begin + problem.group_size; ++k) {
      sum += (value_at(problem, column, k) * scale + zero_point) * to_float(input[k]);
    }
  }
  return sum;
}

// Up to kTileColumns columns: their scales as float32 [groups, kTileColumns], side by side for every group.
struct Tile {
  int64_t first;
  int64_t columns;
  float* scale;
};

// A group's scales, or real zero points, for up to kTileColumns columns from `first` on, as float32; the rest stay as
// they are.
inline void widen(const CpuProblem& problem, const void* scales, int64_t group, const Tile& tile, float* values) {
  const int64_t at = group * problem.columns + tile.first;
  if (tile.columns < kTileColumns) {
    for (int64_t column = 0; column < tile.columns; ++column) {
      values[column] = scale_at(problem, scales, group, tile.first + column);
    }
  } else if (problem.has_bfloat16_scales) {
    for (int64_t column = 0; column < kTileColumns; ++column) {
      values[column] = to_float(static_cast<const uint16_t*>(scales)[at + column]);
    }
  } else {
    memcpy(values, static_cast<const float*>(scales) + at, kTileColumns * sizeof(float));
  }
}

inline Tile gather_scales(const CpuProblem& problem, int64_t first, int64_t last, float* scales) {
  const Tile tile{first, smaller(last - first, kTileColumns), scales};
  for (int64_t group = 0; group < problem.depth / problem.group_size; ++group) {
    widen(problem, problem.scale, group, tile, tile.scale + group * kTileColumns);
  }
  return tile;
}

// What the zero points add to a row's outputs: for each column, the sum over groups of z times the group's inputs.
inline void add_zero_points(const CpuProblem& problem, const Tile& tile, const float* sums, float* offsets) {
  float added[kTileColumns] = {};
  float zero_points[kTileColumns] = {};
  for (int64_t group = 0; group < problem.depth / problem.group_size; ++group) {
    if (problem.format == Format::kUint4) {
      for (int64_t column = 0; column < tile.columns; ++column) {
        zero_points[column] = zero_point_at(problem, group, tile.first + column);
      }
    } else {
      widen(problem, problem.zero_point, group, tile, zero_points);
    }
    for (int64_t column = 0; column < kTileColumns; ++column) {
      added[column] += zero_points[column] * sums[group];
    }
  }
  memcpy(offsets, added, sizeof(added));
}

// Asks for what the next columns will read of a group. A column is too short for the CPU to see that it is read in
// order.
inline void fetch_ahead(const int8_t* weight, int64_t row_bytes, int columns, int64_t bytes) {
  for (int column = 0; column < columns; ++column, weight += row_bytes) {
    for (int64_t at = 0; at < bytes; at += kCacheLine) {
      __builtin_prefetch(weight + at);  // beyond the last column it does nothing
    }
  }
}

// Multiplies kRows rows by kColumns columns, of which `column` is the first, counted within the tile. It is a function
// of its own so that the inner loop has all registers to itself.
template <typename Simd, Format kFormat, int kRows, int kColumns>
__attribute__((noinline)) void multiply_block(const CpuProblem& problem, const Tile& tile, int64_t row, int64_t column,
                                              const float (*offsets)[kTileColumns]) {
  constexpr int64_t kTogether = values_per_byte(kFormat);
  const int64_t depth = problem.depth;
  const int64_t row_bytes = depth / kTogether;
  const int64_t group_bytes = problem.group_size / kTogether;
  const int8_t* weight = problem.weight + (tile.first + column) * row_bytes;
  const uint16_t* input = problem.input + row * depth;
  const float* scale = tile.scale + column;
  typename Simd::Sum totals[kRows][kColumns] = {};
  for (int64_t begin = 0; begin < row_bytes; begin += group_bytes, scale += kTileColumns) {
    typename Simd::Sum sums[kRows][kColumns] = {};
    for (int64_t chunk = begin; chunk < begin + group_bytes; chunk += kFetchedBytes) {
      const int64_t end = smaller(chunk + kFetchedBytes, begin + group_bytes);
      fetch_ahead(weight + chunk + kColumns * row_bytes, row_bytes, kColumns, end - chunk);
      for (int64_t byte = chunk; byte < end; byte += Simd::kStep / kTogether) {
        typename Simd::Weights weights[kColumns];
#pragma GCC unroll 8
        for (int n = 0; n < kColumns; ++n) {
          weights[n] = Simd::template decode<kFormat>(weight + n * row_bytes + byte);
        }
#pragma GCC unroll 8
        for (int m = 0; m < kRows; ++m) {
          const typename Simd::Activations activations = Simd::load(input + m * depth + kTogether * byte);
#pragma GCC unroll 8
          for (int n = 0; n < kColumns; ++n) {
            sums[m][n] = Simd::multiply_add(sums[m][n], weights[n], activations);
          }
        }
      }
    }
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 8
      for (int n = 0; n < kColumns; ++n) {
        totals[m][n] = Simd::scaled_add(totals[m][n], scale[n], sums[m][n]);
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < kColumns; ++n) {
      const int64_t at = tile.first + column + n;
      const float sum = Simd::add_up(totals[m][n]) + offsets[m][column + n];
      const float output = is_finite(sum) ? sum : multiply_one_by_one(problem, row + m, at);
      problem.output[(row + m) * problem.columns + at] = to_bfloat16(output);
    }
  }
}

template <typename Simd, Format kFormat, int kRows>
inline void multiply_tile(const CpuProblem& problem, const Tile& tile, int64_t row, const float* input_sums) {
  const int64_t groups = problem.depth / problem.group_size;
  float offsets[kRows][kTileColumns] = {};
#pragma GCC unroll 8
  for (int m = 0; m < (has_zero_points(kFormat) ? kRows : 0); ++m) {
    add_zero_points(problem, tile, input_sums + (row + m) * groups, offsets[m]);
  }
  constexpr int kColumns = Simd::few_columns(kRows);
  int64_t column = 0;
  for (; column + kColumns <= tile.columns; column += kColumns) {
    multiply_block<Simd, kFormat, kRows, kColumns>(problem, tile, row, column, offsets);
  }
  for (; column < tile.columns; ++column) {
    multiply_block<Simd, kFormat, kRows, 1>(problem, tile, row, column, offsets);
  }
}

// Calls multiply.rows<n>(row) for as many rows at a time as kMost allows.
template <int kMost, typename Multiply>
inline void for_rows(int64_t row, int64_t rows, const Multiply& multiply) {
  for (; row + kMost <= rows; row += kMost) {
    multiply.template rows<kMost>(row);
  }
  if constexpr (kMost > 1) {
    for_rows<kMost - 1>(row, rows, multiply);
  }
}

template <typename Simd, Format kFormat>
struct MultiplyTile {
  const CpuProblem& problem;
  const Tile& tile;
  const float* input_sums;

  template <int kRows>
  void rows(int64_t row) const {
    multiply_tile<Simd, kFormat, kRows>(problem, tile, row, input_sums);
  }
};

template <typename Simd, Format kFormat>
void multiply_tiles(const CpuProblem& problem, const float* input_sums, float* scales, int64_t first, int64_t last) {
  for (; first < last; first += kTileColumns) {
    const Tile tile = gather_scales(problem, first, last, scales);
    for_rows<Simd::kFewRows>(0, problem.rows, MultiplyTile<Simd, kFormat>{problem, tile, input_sums});
  }
}

template <typename Simd>
void multiply(const CpuProblem& problem, const float* input_sums, float* scales, int64_t first, int64_t last) {
  if (problem.group_size % kGroupStep != 0) {
    for (int64_t row = 0; row < problem.rows; ++row) {
      for (int64_t column = first; column < last; ++column) {
        problem.output[row * problem.columns + column] = to_bfloat16(multiply_one_by_one(problem, row, column));
      }
    }
    return;
  }
  switch (problem.format) {
    case Format::kInt4:
      return multiply_tiles<Simd, Format::kInt4>(problem, input_sums, scales, first, last);
    case Format::kUint4:
      return multiply_tiles<Simd, Format::kUint4>(problem, input_sums, scales, first, last);
    case Format::kInt8:
      return multiply_tiles<Simd, Format::kInt8>(problem, input_sums, scales, first, last);
    case Format::kFloat8:
      return multiply_tiles<Simd, Format::kFloat8>(problem, input_sums, scales, first, last);
  }
}

// The weight that four bits stand for.
inline uint16_t dequantize_one(int nibble, float scale, float zero_point) {
  return to_bfloat16(kValues[nibble] * scale + zero_point);
}

template <typename Simd>
void dequantize_nibbles(const CpuProblem& problem, int64_t first, int64_t last, uint16_t* panel) {
  const auto dequantize_group = problem.format == Format::kUint4 ? Simd::template dequantize<Format::kUint4>
                                                                 : Simd::template dequantize<Format::kInt4>;
  for (int64_t column = first; column < last; ++column, panel += problem.depth) {
    for (int64_t begin = 0; begin < problem.depth; begin += problem.group_size) {
      const float scale = scale_at(problem, problem.scale, begin / problem.group_size, column);
      const float zero_point = zero_point_at(problem, begin / problem.group_size, column);
      if (problem.group_size % kGroupStep == 0) {
        const int8_t* packed = problem.weight + (column * problem.depth + begin) / 2;
        dequantize_group(packed, problem.group_size, scale, zero_point, panel + begin);
      } else {
        for (int64_t k = begin; k < begin + problem.group_size; ++k) {
          panel[k] = dequantize_one(nibble_at(problem, column, k), scale, zero_point);
        }
      }
    }
  }
}

// Writes the values of a row as bfloat16, without their scales.
template <typename Simd, Format kFormat>
inline void widen_row(const int8_t* stored, int64_t depth, uint16_t* values) {
  int64_t k = 0;
  for (; k + Simd::kStep <= depth; k += Simd::kStep) {
    Simd::template widen<kFormat>(stored + k, values + k);
  }
  for (; k < depth; ++k) {
    values[k] = kFormat == Format::kInt8 ? to_bfloat16(stored[k]) : widen_float8(stored[k]);
  }
}

template <typename Simd>
void widen_rows(const CpuProblem& problem, int64_t first, int64_t last, uint16_t* panel) {
  const auto widen =
      problem.format == Format::kInt8 ? widen_row<Simd, Format::kInt8> : widen_row<Simd, Format::kFloat8>;
  for (int64_t column = first; column < last; ++column, panel += problem.depth) {
    widen(problem.weight + column * problem.depth, problem.depth, panel);
  }
}

// Turns values into weights where they are.
inline void scale_rows(const CpuProblem& problem, int64_t first, int64_t last, uint16_t* panel) {
  for (int64_t column = first; column < last; ++column) {
    for (int64_t group = 0; group < problem.depth / problem.group_size; ++group, panel += problem.group_size) {
      const float scale = scale_at(problem, problem.scale, group, column);
      for (int64_t k = 0; k < problem.group_size; ++k) {
        panel[k] = to_bfloat16(to_float(panel[k]) * scale);
      }
    }
  }
}

template <typename Simd>
void dequantize(const CpuProblem& problem, int64_t first, int64_t last, uint16_t* panel) {
  if (values_per_byte(problem.format) == 2) {
    dequantize_nibbles<Simd>(problem, first, last, panel);
  } else {
    widen_rows<Simd>(problem, first, last, panel);
    scale_rows(problem, first, last, panel);
  }
}

// Whether the scales wait until products are added up: bfloat16 holds every value, but not every weight, and a scale
// for each sum costs less than one for each weight. Vectors must not cross from one group into the next.
inline bool scales_wait(const CpuProblem& problem) {
  const bool is_apart = problem.group_size % kGroupStep == 0 || problem.group_size == problem.depth;
  return values_per_byte(problem.format) == 1 && is_apart;
}

template <typename Simd>
void fill_panel(const CpuProblem& problem, int64_t first, int64_t last, uint16_t* panel) {
  (scales_wait(problem) ? widen_rows<Simd> : dequantize<Simd>)(problem, first, last, panel);
}

// Multiplies kRows rows by kColumns columns of a panel.
template <typename Simd, int kRows, int kColumns>
__attribute__((noinline)) void multiply_panel_block(const CpuProblem& problem, const uint16_t* panel, int64_t row,
                                                    int64_t column) {
  const int64_t depth = problem.depth;
  const uint16_t* input = problem.input + row * depth;
  const bool has_scales = scales_wait(problem);
  const int64_t span = has_scales ? problem.group_size : depth;
  typename Simd::Sum totals[kRows][kColumns] = {};
  float scales[kColumns];
  int64_t k = 0;
  for (int64_t begin = 0; begin < depth; begin += span) {
    typename Simd::Sum sums[kRows][kColumns] = {};
    for (k = begin; k + Simd::kStep <= begin + span; k += Simd::kStep) {
      typename Simd::Activations weights[kColumns];
#pragma GCC unroll 8
      for (int n = 0; n < kColumns; ++n) {
        weights[n] = Simd::load(panel + n * depth + k);
      }
#pragma GCC unroll 8
      for (int m = 0; m < kRows; ++m) {
        const typename Simd::Activations activations = Simd::load(input + m * depth + k);
#pragma GCC unroll 8
        for (int n = 0; n < kColumns; ++n) {
          sums[m][n] = Simd::multiply_add(sums[m][n], weights[n], activations);
        }
      }
    }
#pragma GCC unroll 8
    for (int n = 0; n < kColumns; ++n) {
      scales[n] = has_scales ? scale_at(problem, problem.scale, begin / span, column + n) : 1;
#pragma GCC unroll 8
      for (int m = 0; m < kRows; ++m) {
        totals[m][n] = Simd::scaled_add(totals[m][n], scales[n], sums[m][n]);
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < kColumns; ++n) {
      float sum = 0;
      for (int64_t rest = k; rest < depth; ++rest) {
        sum += to_float(panel[n * depth + rest]) * to_float(input[m * depth + rest]);
      }
      sum = Simd::add_up(totals[m][n]) + scales[n] * sum;
      const float output = has_scales && !is_finite(sum) ? multiply_one_by_one(problem, row + m, column + n) : sum;
      problem.output[(row + m) * problem.columns + column + n] = to_bfloat16(output);
    }
  }
}

template <typename Simd>
struct MultiplyPanel {
  const CpuProblem& problem;
  const uint16_t* panel;
  int64_t first;
  int64_t last;

  template <int kRows>
  void rows(int64_t row) const {
    int64_t column = first;
    for (; column + Simd::kColumns <= last; column += Simd::kColumns) {
      multiply_panel_block<Simd, kRows, Simd::kColumns>(problem, panel_at(column), row, column);
    }
    for (; column < last; ++column) {
      multiply_panel_block<Simd, kRows, 1>(problem, panel_at(column), row, column);
    }
  }

  const uint16_t* panel_at(int64_t column) const { return panel + (column - first) * problem.depth; }
};

template <typename Simd>
void multiply_panel(const CpuProblem& problem, const uint16_t* panel, int64_t first, int64_t last) {
  for_rows<Simd::kRows>(0, problem.rows, MultiplyPanel<Simd>{problem, panel, first, last});
}

// The body that these vectors make.
template <typename Simd>
constexpr CpuBody make_body(const char* name, int64_t few_rows, int64_t some_rows) {
  return {name, few_rows, some_rows, multiply<Simd>, dequantize<Simd>, fill_panel<Simd>, multiply_panel<Simd>};
}

}  // namespace
