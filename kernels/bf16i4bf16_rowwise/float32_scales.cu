// The kernels for scales in float32.

#include "launch.cuh"

namespace ao_kernels {

template void launch_bf16i4bf16_rowwise(const RowwiseProblem<float>&, CUstream_st*);
template void launch_dequantize(const RowwiseProblem<float>&, int64_t, int64_t, BFloat16*, CUstream_st*);

}  // namespace ao_kernels
