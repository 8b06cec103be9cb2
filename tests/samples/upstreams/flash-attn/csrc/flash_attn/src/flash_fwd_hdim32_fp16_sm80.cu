#include <cuda_runtime.h>
#include <cutlass/cutlass.h>

static_assert(CUTLASS_MAJOR == 3, "the submodule's header is another one");

__global__ void add_forward(int* total, int count) { atomicAdd(total, count); }

int launch_forward(int count) {
  int* total = nullptr;
  if (cudaMalloc(&total, sizeof(int)) != cudaSuccess) return -1;
  add_forward<<<1, 32>>>(total, count);
  return cudaFree(total) == cudaSuccess ? 0 : -1;
}
