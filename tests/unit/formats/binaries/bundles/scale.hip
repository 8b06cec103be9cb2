#include <hip/hip_runtime.h>

__global__ void scale(float *values, float by, int count) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count) values[index] *= by;
}

__global__ void shift(float *values, float by, int count) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count) values[index] += by;
}
