// How the operators' weights are stored, and what the numbers beside them mean. Knows no torch and no instruction set.

#pragma once

#include <cstdint>

namespace ao_kernels {

enum class Format {
  kInt4,    // bf16i4bf16_rowwise: signed, two to an int8, even k in the low four bits; zero points are real numbers
  kUint4,   // bf16u4bf16_rowwise: unsigned, eight to an int32 in the same order; zero points are int8
  kInt8,    // bf16i8bf16_rowwise: without zero points
  kFloat8,  // bf16f8bf16_rowwise: e4m3fn, without zero points
};

// The values in one byte. Static, as the next: each instruction set's source has its own (see cpu/rowwise.h).
static constexpr int64_t values_per_byte(Format format) {
  return format == Format::kInt4 || format == Format::kUint4 ? 2 : 1;
}

static constexpr bool has_zero_points(Format format) {
  return format == Format::kInt4 || format == Format::kUint4;
}

}  // namespace ao_kernels
