#include <torch/extension.h>

at::Tensor rms_norm_cuda(const at::Tensor& x, double epsilon);

at::Tensor rms_norm(const at::Tensor& x, double epsilon) {
  TORCH_CHECK(x.is_cuda(), "x must be on a GPU");
  return rms_norm_cuda(x.contiguous(), epsilon);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("rms_norm", &rms_norm); }
