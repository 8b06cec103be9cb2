// The operands of the operators, for the binding of any device: what must hold for them, and their product.

#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include <algorithm>
#include <vector>

#include "formats.h"

namespace ao_kernels {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// The four tensors of one call.
struct Operands {
  Tensor input;
  Tensor weight;
  Tensor scale;
  Tensor zero_point;  // undefined where the format has none
};

// The dtype of a stored weight, its name, and the values in one of its elements.
struct Storage {
  ScalarType dtype;
  const char* name;
  int64_t values;
};

inline Storage storage_of(Format format) {
  switch (format) {
    case Format::kInt4:
      return {ScalarType::Char, "int8", 2};
    case Format::kUint4:
      return {ScalarType::Int, "int32", 8};
    case Format::kInt8:
      return {ScalarType::Char, "int8", 1};
    default:
      return {ScalarType::Float8_e4m3fn, "float8_e4m3fn", 1};
  }
}

inline void check_dtype(const Operands& operands, Format format = Format::kInt4) {
  const ScalarType scale = operands.scale.scalar_type();
  const Storage storage = storage_of(format);
  STD_TORCH_CHECK(operands.input.scalar_type() == ScalarType::BFloat16, "input must be bfloat16, got ",
                  operands.input.scalar_type());
  STD_TORCH_CHECK(operands.weight.scalar_type() == storage.dtype, "weight must be ", storage.name, ", got ",
                  operands.weight.scalar_type());
  STD_TORCH_CHECK(scale == ScalarType::Float || scale == ScalarType::BFloat16,
                  "scale must be float32 or bfloat16, got ", scale);
  if (format == Format::kInt4) {
    STD_TORCH_CHECK(operands.zero_point.scalar_type() == scale, "zero_point must have scale's dtype ", scale, ", got ",
                    operands.zero_point.scalar_type());
  } else if (format == Format::kUint4) {
    STD_TORCH_CHECK(operands.zero_point.scalar_type() == ScalarType::Char, "zero_point must be int8, got ",
                    operands.zero_point.scalar_type());
  }
}

inline void check_shape(const Operands& operands, Format format = Format::kInt4) {
  const auto& [input, weight, scale, zero_point] = operands;
  STD_TORCH_CHECK(input.dim() >= 1, "input must have at least 1 dimension, got 0");
  STD_TORCH_CHECK(weight.dim() == 2, "weight must have 2 dimensions, got ", weight.dim());
  STD_TORCH_CHECK(scale.dim() == 2, "scale must have 2 dimensions, got ", scale.dim());
  if (has_zero_points(format)) {
    STD_TORCH_CHECK(zero_point.dim() == 2, "zero_point must have 2 dimensions, got ", zero_point.dim());
  }
  const int64_t depth = input.size(-1);
  const int64_t of_weight = storage_of(format).values * weight.size(1);
  STD_TORCH_CHECK(of_weight == depth, "input's last dimension must be K = ", of_weight, ", got ", depth);
  STD_TORCH_CHECK(scale.size(1) == weight.size(0), "scale must have N = ", weight.size(0), " columns, got ",
                  scale.size(1));
  STD_TORCH_CHECK(scale.size(0) == 0 ? depth == 0 : depth % scale.size(0) == 0,
                  "scale must have a number of rows that divides K = ", depth, ", got ", scale.size(0));
  if (has_zero_points(format)) {
    STD_TORCH_CHECK(zero_point.size(0) == scale.size(0) && zero_point.size(1) == scale.size(1),
                    "zero_point must have scale's shape [", scale.size(0), ", ", scale.size(1), "], got [",
                    zero_point.size(0), ", ", zero_point.size(1), "]");
  }
}

// Copies what is not contiguous. A view may begin anywhere in its storage: kernels that load more than one element at a
// time look at the addresses themselves.
inline Operands make_contiguous(const Operands& operands) {
  const Tensor& zero_point = operands.zero_point;
  return {torch::stable::contiguous(operands.input), torch::stable::contiguous(operands.weight),
          torch::stable::contiguous(operands.scale),
          zero_point.defined() ? torch::stable::contiguous(zero_point) : zero_point};
}

// A contiguous tensor [..., N] for an input [..., K].
inline Tensor allocate_output(const Operands& operands) {
  const auto sizes = operands.input.sizes();
  std::vector<int64_t> shape(sizes.begin(), sizes.end());
  shape.back() = operands.weight.size(0);
  return torch::stable::new_empty(operands.input, {shape.data(), shape.size()});
}

// The values along K that share a scale.
inline int64_t group_size(const Operands& operands) {
  return operands.input.size(-1) / std::max<int64_t>(operands.scale.size(0), 1);
}

// Calls an operator of torch's that gives a tensor.
template <typename... Arguments>
Tensor call_torch(const char* name, const char* overload, const Arguments&... arguments) {
  StableIValue stack[] = {torch::stable::detail::from(arguments)...};
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(name, overload, stack, TORCH_ABI_VERSION));
  return torch::stable::detail::to<Tensor>(stack[0]);
}

}  // namespace ao_kernels
