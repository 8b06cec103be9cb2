#include <cuda_runtime.h>

__global__ void add_fused(int* total, int count) { atomicAdd(total, count); }

int launch_fused(int count) {
  int* total = nullptr;
  if (cudaMalloc(&total, sizeof(int)) != cudaSuccess) return -1;
  add_fused<<<1, 32>>>(total, count);
  return cudaFree(total) == cudaSuccess ? 0 : -1;
}
