#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

namespace {

// One block a row; the threads of a block are one warp.
__global__ void rms_norm_kernel(float* out, const float* x, float epsilon, int columns) {
  const float* row = x + static_cast<int64_t>(blockIdx.x) * columns;
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += 32) sum += row[i] * row[i];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
  const float scale = rsqrtf(sum / columns + epsilon);
  for (int i = threadIdx.x; i < columns; i += 32) out[static_cast<int64_t>(blockIdx.x) * columns + i] = row[i] * scale;
}

}  // namespace

at::Tensor rms_norm_cuda(const at::Tensor& x, double epsilon) {
  const c10::cuda::CUDAGuard guard(x.device());
  const auto columns = x.size(-1);
  const auto rows = x.numel() / columns;
  auto out = at::empty_like(x);
  rms_norm_kernel<<<rows, 32, 0, at::cuda::getCurrentCUDAStream()>>>(
      out.data_ptr<float>(), x.data_ptr<float>(), static_cast<float>(epsilon), static_cast<int>(columns));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
