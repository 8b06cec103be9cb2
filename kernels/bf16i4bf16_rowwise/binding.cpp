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

#include "arguments.h"
#include "bf16i4bf16_rowwise.cuh"

namespace {

using ao_kernels::BFloat16;
using ao_kernels::Operands;
using ao_kernels::RowwiseProblem;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;

void check_device(const Operands& operands) {
  for (const Tensor* tensor : {&operands.input, &operands.weight, &operands.scale, &operands.zero_point}) {
    STD_TORCH_CHECK(tensor->is_cuda() && tensor->get_device_index() == operands.input.get_device_index(),
                    "input, weight, scale and zero_point must be on one CUDA device");
  }
}

cudaStream_t current_stream(int32_t device) {
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &stream));
  return static_cast<cudaStream_t>(stream);
}

template <typename Scale>
RowwiseProblem<Scale> problem_of(const Operands& operands, const Tensor& output) {
  const int64_t columns = operands.weight.size(0);
  return {
      static_cast<const BFloat16*>(operands.input.const_data_ptr()),
      static_cast<const int8_t*>(operands.weight.const_data_ptr()),
      static_cast<const Scale*>(operands.scale.const_data_ptr()),
      static_cast<const Scale*>(operands.zero_point.const_data_ptr()),
      static_cast<BFloat16*>(output.mutable_data_ptr()),
      output.numel() / columns,
      columns,
      operands.input.size(-1),
      ao_kernels::group_size(operands),
  };
}

// Dequantizes the weight of as many columns as a slab holds, multiplies by it, and so on: one after the other on the
// stream, in one slab's memory.
template <typename Scale>
void multiply_by_slabs(const Operands& operands, const RowwiseProblem<Scale>& problem, const Tensor& output,
                       cudaStream_t stream) {
  const int64_t most = ao_kernels::slab_columns(problem.rows, problem.columns, problem.depth);
  const Tensor input = torch::stable::view(operands.input, {problem.rows, problem.depth});
  Tensor product = torch::stable::view(output, {problem.rows, problem.columns});
  Tensor slab = torch::stable::new_empty(operands.input, {most, problem.depth});
  for (int64_t first = 0; first < problem.columns; first += most) {
    const int64_t columns = std::min(most, problem.columns - first);
    launch_dequantize(problem, first, columns, static_cast<BFloat16*>(slab.mutable_data_ptr()), stream);
    const Tensor weight = torch::stable::narrow(slab, 0, 0, columns);
    const Tensor part = torch::stable::narrow(product, 1, first, columns);
    ao_kernels::call_torch("aten::mm", "out", input, torch::stable::transpose(weight, 0, 1), part);
  }
}

template <typename Scale>
void launch(const Operands& operands, const Tensor& output, cudaStream_t stream) {
  const RowwiseProblem<Scale> problem = problem_of<Scale>(operands, output);
  if (choose_body(problem) == ao_kernels::Body::kSlabs) {
    multiply_by_slabs(operands, problem, output, stream);
  } else {
    launch_bf16i4bf16_rowwise(problem, stream);
  }
}

// The body in Python, for a GPU that this library holds no code for. It has a name of its own, since the operator's
// would lead back here.
Tensor multiply_by_generic_body(const Operands& operands) {
  return ao_kernels::call_torch("ao::bf16i4bf16_rowwise_generic", "", operands.input, operands.weight, operands.scale,
                                operands.zero_point);
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
  if (!ao_kernels::has_code_for_current_device()) {
    return multiply_by_generic_body(operands);
  }
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

// What multiplies on a GPU, for `describe()`: null where the library holds no code for it.
extern "C" __attribute__((visibility("default"))) const char* ao_kernels_cuda_serves(int32_t device, int64_t rows,
                                                                                     int64_t columns, int64_t depth,
                                                                                     int64_t group_size) {
  const torch::stable::accelerator::DeviceGuard guard(device);
  if (!ao_kernels::has_code_for_current_device()) {
    return nullptr;
  }
  const RowwiseProblem<BFloat16> problem{nullptr, nullptr, nullptr, nullptr, nullptr, rows, columns, depth, group_size};
  switch (choose_body(problem)) {
    case ao_kernels::Body::kStreaming:
      return "streaming";
    case ao_kernels::Body::kTiled:
      return "tiles";
    default:
      return "slabs and torch's product";
  }
}

STABLE_TORCH_LIBRARY_IMPL(ao, CUDA, m) {
  m.impl("bf16i4bf16_rowwise", TORCH_BOX(&bf16i4bf16_rowwise));
}
