#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <torch/library.h>

namespace {

__global__ void scan_kernel(float* out, const float* x, int rows, int columns) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0;
  for (int i = 0; i < columns; ++i) out[row * columns + i] = sum += x[row * columns + i];
}

}  // namespace

at::Tensor scan(const at::Tensor& x) {
  auto out = at::empty_like(x);
  const int columns = static_cast<int>(x.size(-1)), rows = static_cast<int>(x.numel()) / columns;
  scan_kernel<<<(rows + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
      out.data_ptr<float>(), x.data_ptr<float>(), rows, columns);
  return out;
}

TORCH_LIBRARY(fast_scan, m) { m.def("scan(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(fast_scan, CUDA, m) { m.impl("scan", &scan); }
