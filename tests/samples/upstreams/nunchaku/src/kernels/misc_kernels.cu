#include <cuda_runtime.h>
#include <cutlass/version.h>
#include <flash.h>

#ifdef WITH_LINE_INFO
#error "a wheel has no line info"
#endif

__global__ void add_misc(int* total, int count) { atomicAdd(total, count); }

int launch_misc(int count) {
  int* total = nullptr;
  if (cudaMalloc(&total, sizeof(int)) != cudaSuccess) return -1;
  add_misc<<<1, 32>>>(total, count);
  return cudaFree(total) == cudaSuccess ? 0 : -1;
}
