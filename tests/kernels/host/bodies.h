// The kernels' bodies as a host runs them: bodies.cpp is compiled once, and linked with whatever calls them.

#pragma once

#include "bf16i4bf16_rowwise.cuh"

namespace ao_kernels {

// A launch of streaming or tiles on a GPU of so many multiprocessors.
template <typename Scale>
void run_on_host(Body body, const RowwiseProblem<Scale>& problem, int multiprocessors);

// A launch of the third body: slab [columns, depth] is the weight of the columns from `first` on.
template <typename Scale>
void dequantize_on_host(const RowwiseProblem<Scale>& problem, int64_t first, int64_t columns, BFloat16* slab);

}  // namespace ao_kernels
