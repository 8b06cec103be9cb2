// ao::bf16i4bf16_rowwise on CUDA: checks, allocates and registers, on torch's stable ABI only. Python owns the schema.

#include <cuda_runtime_api.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/macros.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include <algorithm>
#include <vector>

#include "bf16i4bf16_rowwise.cuh"

namespace {

using ao_kernels::BFloat16;
using ao_kernels::RowwiseProblem;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// The four tensors of one call.
struct Operands {
  Tensor input;
  Tensor weight;
  Tensor scale;
  Tensor zero_point;
};

void check_device(const Operands& operands) {
  for (const Tensor* tensor : {&operands.input, &operands.weight, &operands.scale, &operands.zero_point}) {
    STD_TORCH_CHECK(tensor->is_cuda() && tensor->get_device_index() == operands.input.get_device_index(),
                    "input, weight, scale and zero_point must be on one CUDA device");
  }
}

void check_dtype(const Operands& operands) {
  const ScalarType scale = operands.scale.scalar_type();
  STD_TORCH_CHECK(operands.input.scalar_type() == ScalarType::BFloat16, "input must be bfloat16, got ",
                  operands.input.scalar_type());
  STD_TORCH_CHECK(operands.weight.scalar_type() == ScalarType::Char, "weight must be int8, got ",
                  operands.weight.scalar_type());
  STD_TORCH_CHECK(scale == ScalarType::Float || scale == ScalarType::BFloat16,
                  "scale must be float32 or bfloat16, got ", scale);
  STD_TORCH_CHECK(operands.zero_point.scalar_type() == scale, "zero_point must have scale's dtype ", scale, ", got ",
                  operands.zero_point.scalar_type());
}

void check_shape(const Operands& operands) {
  const auto& [input, weight, scale, zero_point] = operands;
  STD_TORCH_CHECK(input.dim() >= 1, "input must have at least 1 dimension, got 0");
  STD_TORCH_CHECK(weight.dim() == 2, "weight must have 2 dimensions, got ", weight.dim());
  STD_TORCH_CHECK(scale.dim() == 2, "scale must have 2 dimensions, got ", scale.dim());
  STD_TORCH_CHECK(zero_point.dim() == 2, "zero_point must have 2 dimensions, got ", zero_point.dim());
  const int64_t depth = input.size(-1);
  STD_TORCH_CHECK(2 * weight.size(1) == depth, "input's last dimension must be K = ", 2 * weight.size(1), ", got ",
                  depth);
  STD_TORCH_CHECK(scale.size(1) == weight.size(0), "scale must have N = ", weight.size(0), " columns, got ",
                  scale.size(1));
  STD_TORCH_CHECK(scale.size(0) == 0 ? depth == 0 : depth % scale.size(0) == 0,
                  "scale must have a number of rows that divides K = ", depth, ", got ", scale.size(0));
  STD_TORCH_CHECK(zero_point.size(0) == scale.size(0) && zero_point.size(1) == scale.size(1),
                  "zero_point must have scale's shape [", scale.size(0), ", ", scale.size(1), "], got [",
                  zero_point.size(0), ", ", zero_point.size(1), "]");
}

// Copies what is not contiguous. The kernel reads single elements, which every tensor's storage aligns.
Operands make_contiguous(const Operands& operands) {
  return {torch::stable::contiguous(operands.input), torch::stable::contiguous(operands.weight),
          torch::stable::contiguous(operands.scale), torch::stable::contiguous(operands.zero_point)};
}

// A contiguous tensor [..., N] for an input [..., K].
Tensor allocate_output(const Operands& operands) {
  const auto sizes = operands.input.sizes();
  std::vector<int64_t> shape(sizes.begin(), sizes.end());
  shape.back() = operands.weight.size(0);
  return torch::stable::new_empty(operands.input, {shape.data(), shape.size()});
}

cudaStream_t current_stream(int32_t device) {
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &stream));
  return static_cast<cudaStream_t>(stream);
}

template <typename Scale>
void launch(const Operands& operands, const Tensor& output, cudaStream_t stream) {
  const int64_t columns = operands.weight.size(0);
  const int64_t depth = operands.input.size(-1);
  const RowwiseProblem<Scale> problem{
      static_cast<const BFloat16*>(operands.input.const_data_ptr()),
      static_cast<const int8_t*>(operands.weight.const_data_ptr()),
      static_cast<const Scale*>(operands.scale.const_data_ptr()),
      static_cast<const Scale*>(operands.zero_point.const_data_ptr()),
      static_cast<BFloat16*>(output.mutable_data_ptr()),
      output.numel() / columns,
      columns,
      depth,
      depth / std::max<int64_t>(operands.scale.size(0), 1),
  };
  ao_kernels::launch_bf16i4bf16_rowwise(problem, stream);
}

Tensor bf16i4bf16_rowwise(const Tensor& input, const Tensor& weight, const Tensor& scale, const Tensor& zero_point) {
  const Operands given{input, weight, scale, zero_point};
  check_device(given);
  check_dtype(given);
  check_shape(given);
  const Operands operands = make_contiguous(given);
  const Tensor output = allocate_output(operands);
  if (output.numel() == 0) {
    return output;
  }
  const torch::stable::accelerator::DeviceGuard guard(input.get_device_index());
  const cudaStream_t stream = current_stream(input.get_device_index());
  if (scale.scalar_type() == ScalarType::Float) {
    launch<float>(operands, output, stream);
  } else {
    launch<BFloat16>(operands, output, stream);
  }
  STD_CUDA_KERNEL_LAUNCH_CHECK();
  return output;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(ao, CUDA, m) {
  m.impl("bf16i4bf16_rowwise", TORCH_BOX(&bf16i4bf16_rowwise));
}
