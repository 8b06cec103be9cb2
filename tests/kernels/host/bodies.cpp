// The bodies for both types of scales.

#include "bodies.h"

#include "emulation.h"

namespace ao_kernels {

template void run_on_host(Body, const RowwiseProblem<float>&, int);
template void run_on_host(Body, const RowwiseProblem<BFloat16>&, int);
template void dequantize_on_host(const RowwiseProblem<float>&, int64_t, int64_t, BFloat16*);
template void dequantize_on_host(const RowwiseProblem<BFloat16>&, int64_t, int64_t, BFloat16*);

}  // namespace ao_kernels
