// Blocks that share one tile of the product, each with its part of K: how the parts are chosen, summed and stored.
//
// The blocks of a tile are one cluster, so each can read the others' shared memory. Every output is summed by one
// thread in the order of the parts: the result is the same in every run, and no workspace, counter or second kernel is
// needed.

#pragma once

#include "fragments.cuh"

namespace ao_kernels {

constexpr int kThreads = 256;              // of a block
constexpr int kWarps = kThreads / kLanes;  // of a block
constexpr int kMostSplits = 8;             // CUDA's portable limit for the blocks of a cluster
constexpr int kPartialPadding = 4;         // floats: a warp's stores of its accumulators then meet no bank twice

// The blocks of a launch: tiles of the product, each split along K, whose length is `steps` of the body's steps.
struct Grid {
  int tiles_along_columns;
  int tiles_along_rows;
  int splits;
  int steps;
  int steps_of_split;  // of all but the last ones
};

// One block's share of the work: some columns and rows of the product, and the steps along K from first to last.
struct Share {
  int first_column;
  int first_row;
  int split;
  int splits;
  int first_step;
  int last_step;
};

inline int64_t divide_up(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

// The launch of a body: as many parts of K as leave all blocks running at once, since one more would be a second wave
// that starts when the first has nothing under way. `clusters_at_once(splits)` tells how many clusters of so many
// blocks run at once: a cluster lies within one part of a GPU, and the parts differ in size.
template <typename Body, typename ClustersAtOnce>
Grid grid_of(const typename Body::Problem& problem, const ClustersAtOnce& clusters_at_once) {
  const int64_t along_columns = divide_up(problem.columns, Body::kColumns);
  const int64_t along_rows = divide_up(problem.rows, Body::kRows);
  const int64_t steps = divide_up(problem.depth, Body::kStepDepth);
  int splits = kMostSplits;
  while (splits > 1 &&
         (steps < splits * Body::kLeastStepsOfSplit || along_columns * along_rows > clusters_at_once(splits))) {
    --splits;
  }
  return {static_cast<int>(along_columns), static_cast<int>(along_rows), splits, static_cast<int>(steps),
          static_cast<int>(divide_up(steps, splits))};
}

// The share of a block; the blocks of one tile follow each other.
template <typename Body>
AO_DEVICE Share share_of(const Grid& grid, int tile, int split, int tile_along_rows) {
  const int each = grid.steps_of_split;
  const int first = split * each < grid.steps ? split * each : grid.steps;
  const int last = first + each < grid.steps ? first + each : grid.steps;
  return {tile * Body::kColumns, tile_along_rows * Body::kRows, split, grid.splits, first, last};
}

// The sums of one block's share, before those of the cluster's other blocks are added.
template <int kRows, int kColumns>
struct Partial {
  float sum[kRows][kColumns + kPartialPadding];

  // Stores a warp's 16 x 8 sums at [row, column].
  AO_DEVICE void store(const PerLane<Accumulator>& sums, int row, int column) {
    for (const int lane : lanes()) {
      const int g = lane / kLanesInGroup, t = lane % kLanesInGroup;
      AO_UNROLL
      for (int i = 0; i < 4; ++i) {
        sum[row + 2 * t + i % 2][column + g + kGroupsOfLanes * (i / 2)] = sums[lane].value[i];
      }
    }
  }
};

// Rounds and stores what `thread` of the share's block must: every output of the tile has one thread of the cluster.
// `read(split, row, column)` gives a block's partial sum, and zero for a split that the share does not have.
template <typename Body, typename Read>
AO_DEVICE void store_outputs(const typename Body::Problem& problem, const Share& share, int thread, const Read& read) {
  constexpr int kRows = Body::kRows, kColumns = Body::kColumns;
  const int columns = static_cast<int>(problem.columns), rows = static_cast<int>(problem.rows);
  AO_NO_UNROLL
  for (int at = share.split * kThreads + thread; at < kRows * kColumns; at += share.splits * kThreads) {
    const int row = share.first_row + at / kColumns, column = share.first_column + at % kColumns;
    if (row >= rows) {
      return;
    }
    if (column >= columns) {
      continue;
    }
    float part[kMostSplits];  // asked for at once: another block's answer takes long
    AO_UNROLL
    for (int split = 0; split < kMostSplits; ++split) {
      part[split] = read(split, at / kColumns, at % kColumns);
    }
    float sum = 0;
    AO_UNROLL
    for (int split = 0; split < kMostSplits; ++split) {
      sum += part[split];
    }
    const bool is_finite = fabsf(sum) <= 3.402823466e38f;  // the largest float32
    sum = is_finite ? sum : sum_by_definition(problem, row, column);
    problem.output[static_cast<int64_t>(row) * columns + column] = to_bfloat16(sum);
  }
}

#ifdef __CUDACC__

// Waits until every block of the cluster is here and its stores can be read by all.
AO_DEVICE void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Waits until every block of the cluster is here, where none has stored anything for another. The threads of a warp may
// come one by one.
AO_DEVICE void meet_cluster() {
  asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// What a block of the cluster has at the same place of its shared memory, or zero: without a branch, so that many loads
// are under way at once.
AO_DEVICE float load_from_block_if(bool is_there, const float* own, int block) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(own));
  float value = 0;
  asm volatile(
      "{\n.reg .pred is_there;\n.reg .b32 there;\nsetp.ne.s32 is_there, %3, 0;\n"
      "mapa.shared::cluster.u32 there, %1, %2;\n@is_there ld.shared::cluster.f32 %0, [there];\n}"
      : "+f"(value)
      : "r"(address), "r"(is_there ? block : 0), "r"(static_cast<int>(is_there))
      : "memory");
  return value;
}

// Adds up the cluster's partial sums and stores the tile. A block that is alone needs no cluster for it.
template <typename Body>
__device__ void finish(const Body& body) {
  const auto& partial = body.shared.partial;
  const bool is_alone = body.share.splits == 1;
  is_alone ? __syncthreads() : sync_cluster();
  store_outputs<Body>(body.problem, body.share, threadIdx.x, [&](int split, int row, int column) {
    return load_from_block_if(split < body.share.splits, &partial.sum[row][column], split);
  });
  if (!is_alone) {
    meet_cluster();  // a block's shared memory must stay until the others have read it
  }
}

// One block: `run` is the body's own walk along K, which leaves its sums in `shared.partial`.
template <typename Body>
__global__ void __launch_bounds__(kThreads, Body::kBlocksPerMultiprocessor)
    rowwise_kernel(const typename Body::Problem problem, const Divisor units_in_group, const Grid grid) {
#if __CUDA_ARCH__ >= 900  // clusters and bfloat16 arithmetic
  extern __shared__ Words4 bytes[];
  const Share share = share_of<Body>(grid, blockIdx.x, blockIdx.y, blockIdx.z);
  const Body body{problem, share, units_in_group, *reinterpret_cast<typename Body::Shared*>(bytes)};
  typename Body::Warp warp;
  const int index = threadIdx.x / kLanes;
  run(body, warp, index);
  finish(body);
#else
  __trap();  // has_code_for_current_device() said so before
#endif
}

#endif

}  // namespace ao_kernels
