// The CPU kernel's own binding, once for each body that this CPU can run: ao_on_plain::bf16i4bf16_rowwise and so on.

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

// The body that the binding chooses by itself. The headers above are read by now.
#define ao ao_on_chosen
#include "cpu/binding.cpp"

namespace {

template <const CpuBody& kBody, Format kFormat>
Tensor multiply_with(const Tensor& input, const Tensor& weight, const Tensor& scale, const Tensor& zero_point) {
  return multiply(kBody, {input, weight, scale, zero_point}, kFormat);
}

template <const CpuBody& kBody, Format kFormat>
Tensor multiply_scaled_with(const Tensor& input, const Tensor& weight, const Tensor& scale) {
  return multiply(kBody, {input, weight, scale, Tensor()}, kFormat);
}

template <const CpuBody& kBody, typename Library>
void implement(Library& m) {
  m.impl("bf16i4bf16_rowwise", TORCH_BOX((&multiply_with<kBody, Format::kInt4>)));
  m.impl("bf16u4bf16_rowwise", TORCH_BOX((&multiply_with<kBody, Format::kUint4>)));
  m.impl("bf16i8bf16_rowwise", TORCH_BOX((&multiply_scaled_with<kBody, Format::kInt8>)));
  m.impl("bf16f8bf16_rowwise", TORCH_BOX((&multiply_scaled_with<kBody, Format::kFloat8>)));
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(ao_on_plain, CPU, m) {
  implement<ao_kernels::kPlainBody>(m);
}

#ifdef __x86_64__
STABLE_TORCH_LIBRARY_IMPL(ao_on_avx2, CPU, m) {
  implement<ao_kernels::kAvx2Body>(m);
}

STABLE_TORCH_LIBRARY_IMPL(ao_on_avx512, CPU, m) {
  implement<ao_kernels::kAvx512Body>(m);
}

STABLE_TORCH_LIBRARY_IMPL(ao_on_avx512_bf16, CPU, m) {
  implement<ao_kernels::kAvx512Bfloat16Body>(m);
}
#endif
