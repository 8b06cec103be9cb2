// The operands of ao::bf16i4bf16_rowwise, for the binding of any device: what must hold for them, and their product.

#pragma once

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include <algorithm>
#include <vector>

namespace ao_kernels {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// The four tensors of one call.
struct Operands {
  Tensor input;
  Tensor weight;
  Tensor scale;
  Tensor zero_point;
};

// How values are stored: signed and two to an int8, with real zero points, or unsigned and eight to an int32, with
// integer ones, as ao::bf16u4bf16_rowwise has them.
enum class Packing { kSigned, kUnsigned };

inline int64_t depth_of(const Tensor& weight, Packing packing) {
  return (packing == Packing::kSigned ? 2 : 8) * weight.size(1);
}

inline void check_dtype(const Operands& operands, Packing packing = Packing::kSigned) {
  const ScalarType scale = operands.scale.scalar_type();
  STD_TORCH_CHECK(operands.input.scalar_type() == ScalarType::BFloat16, "input must be bfloat16, got ",
                  operands.input.scalar_type());
  const bool is_signed = packing == Packing::kSigned;
  STD_TORCH_CHECK(operands.weight.scalar_type() == (is_signed ? ScalarType::Char : ScalarType::Int), "weight must be ",
                  is_signed ? "int8" : "int32", ", got ", operands.weight.scalar_type());
  STD_TORCH_CHECK(scale == ScalarType::Float || scale == ScalarType::BFloat16,
                  "scale must be float32 or bfloat16, got ", scale);
  if (is_signed) {
    STD_TORCH_CHECK(operands.zero_point.scalar_type() == scale, "zero_point must have scale's dtype ", scale, ", got ",
                    operands.zero_point.scalar_type());
  } else {
    STD_TORCH_CHECK(operands.zero_point.scalar_type() == ScalarType::Char, "zero_point must be int8, got ",
                    operands.zero_point.scalar_type());
  }
}

inline void check_shape(const Operands& operands, Packing packing = Packing::kSigned) {
  const auto& [input, weight, scale, zero_point] = operands;
  STD_TORCH_CHECK(input.dim() >= 1, "input must have at least 1 dimension, got 0");
  STD_TORCH_CHECK(weight.dim() == 2, "weight must have 2 dimensions, got ", weight.dim());
  STD_TORCH_CHECK(scale.dim() == 2, "scale must have 2 dimensions, got ", scale.dim());
  STD_TORCH_CHECK(zero_point.dim() == 2, "zero_point must have 2 dimensions, got ", zero_point.dim());
  const int64_t depth = input.size(-1);
  STD_TORCH_CHECK(depth_of(weight, packing) == depth, "input's last dimension must be K = ", depth_of(weight, packing),
                  ", got ", depth);
  STD_TORCH_CHECK(scale.size(1) == weight.size(0), "scale must have N = ", weight.size(0), " columns, got ",
                  scale.size(1));
  STD_TORCH_CHECK(scale.size(0) == 0 ? depth == 0 : depth % scale.size(0) == 0,
                  "scale must have a number of rows that divides K = ", depth, ", got ", scale.size(0));
  STD_TORCH_CHECK(zero_point.size(0) == scale.size(0) && zero_point.size(1) == scale.size(1),
                  "zero_point must have scale's shape [", scale.size(0), ", ", scale.size(1), "], got [",
                  zero_point.size(0), ", ", zero_point.size(1), "]");
}

// Copies what is not contiguous. A view may begin anywhere in its storage: kernels that load more than one element at a
// time look at the addresses themselves.
inline Operands make_contiguous(const Operands& operands) {
  return {torch::stable::contiguous(operands.input), torch::stable::contiguous(operands.weight),
          torch::stable::contiguous(operands.scale), torch::stable::contiguous(operands.zero_point)};
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

}  // namespace ao_kernels
