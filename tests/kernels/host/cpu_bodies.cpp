// The CPU kernel's own binding, once for each body that this CPU can run: ao_on_plain::bf16i4bf16_rowwise and so on.

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

// The body that the binding chooses by itself. The headers above are read by now.
#define ao ao_on_chosen
#include "cpu/binding.cpp"

namespace {

template <const CpuBody& kBody>
Tensor multiply_with(const Tensor& input, const Tensor& weight, const Tensor& scale, const Tensor& zero_point) {
  return multiply(kBody, input, weight, scale, zero_point);
}

template <const CpuBody& kBody>
Tensor multiply_unsigned_with(const Tensor& input, const Tensor& weight, const Tensor& scale,
                              const Tensor& zero_point) {
  return multiply(kBody, input, weight, scale, zero_point, Packing::kUnsigned);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(ao_on_plain, CPU, m) {
  m.impl("bf16i4bf16_rowwise", TORCH_BOX(&multiply_with<ao_kernels::kPlainBody>));
  m.impl("bf16u4bf16_rowwise", TORCH_BOX(&multiply_unsigned_with<ao_kernels::kPlainBody>));
}

#ifdef __x86_64__
STABLE_TORCH_LIBRARY_IMPL(ao_on_avx2, CPU, m) {
  m.impl("bf16i4bf16_rowwise", TORCH_BOX(&multiply_with<ao_kernels::kAvx2Body>));
  m.impl("bf16u4bf16_rowwise", TORCH_BOX(&multiply_unsigned_with<ao_kernels::kAvx2Body>));
}

STABLE_TORCH_LIBRARY_IMPL(ao_on_avx512, CPU, m) {
  m.impl("bf16i4bf16_rowwise", TORCH_BOX(&multiply_with<ao_kernels::kAvx512Body>));
  m.impl("bf16u4bf16_rowwise", TORCH_BOX(&multiply_unsigned_with<ao_kernels::kAvx512Body>));
}

STABLE_TORCH_LIBRARY_IMPL(ao_on_avx512_bf16, CPU, m) {
  m.impl("bf16i4bf16_rowwise", TORCH_BOX(&multiply_with<ao_kernels::kAvx512Bfloat16Body>));
  m.impl("bf16u4bf16_rowwise", TORCH_BOX(&multiply_unsigned_with<ao_kernels::kAvx512Bfloat16Body>));
}
#endif
