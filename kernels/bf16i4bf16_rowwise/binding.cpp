// ao::bf16i4bf16_rowwise on CUDA: checks, allocates and registers, on torch's stable ABI only. Python owns the schema.

#include <cuda_runtime_api.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/macros.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

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
      ao_kernels::group_size(operands),
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
