#include <cuda_runtime.h>

__global__ void add_sm89(int* total, int count) { atomicAdd(total, count); }

int launch_sm89(int count) {
  int* total = nullptr;
  if (cudaMalloc(&total, sizeof(int)) != cudaSuccess) return -1;
  add_sm89<<<1, 32>>>(total, count);
  return cudaFree(total) == cudaSuccess ? 0 : -1;
}
