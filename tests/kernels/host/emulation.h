// The kernels' bodies on a host: loops stand for blocks, warps and threads, arrays for registers and shared memory, and
// the order of the steps is that of the kernels. What they leave unset is NaN here, so that it would be seen.

#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "dequantize.cuh"
#include "tiled.cuh"

namespace ao_kernels {

// One thing of type T whose every byte is 0xFF: NaN in each floating-point type.
template <typename T>
std::unique_ptr<T> unset() {
  std::unique_ptr<T> made(new T);
  memset(static_cast<void*>(made.get()), 0xFF, sizeof(T));
  return made;
}

template <typename Warp>
using Warps = std::vector<std::unique_ptr<Warp>>;

// Streaming's block, as its `run` on a GPU.
template <typename Scale, int kRun, int kRowTiles, int kColumnTiles, typename Warp>
void run_block(const Streaming<Scale, kRun, kRowTiles, kColumnTiles>& body, Warps<Warp>& warps) {
  for (int warp = 0; warp < kWarps; ++warp) {
    body.find(*warps[warp], body.share.first_step + warp);
    body.walk(*warps[warp], warp);
    body.store(*warps[warp], warp);
  }
  for (int thread = 0; thread < kThreads; ++thread) {
    body.reduce(thread);
  }
}

template <typename Body>
void copy_by_all(const Body& body, int stage) {
  for (int thread = 0; stage < body.share.last_step && thread < kThreads; ++thread) {
    body.copy(body.shared.stage[stage % kStages], stage, thread);
  }
}

// Tiled's block, as its `run` on a GPU.
template <typename Scale, int kRows, typename Warp>
void run_block(const Tiled<Scale, kRows>& body, Warps<Warp>& warps) {
  for (int warp = 0; warp < kWarps; ++warp) {
    body.start(*warps[warp], warp);
  }
  for (int stage = body.share.first_step; stage < body.share.first_step + kStages - 1; ++stage) {
    copy_by_all(body, stage);
  }
  for (int stage = body.share.first_step; stage < body.share.last_step; ++stage) {
    for (int thread = 0; thread < kThreads; ++thread) {
      body.interleave_copied(body.shared.stage[stage % kStages], thread);
    }
    copy_by_all(body, stage + kStages - 1);
    for (int warp = 0; warp < kWarps; ++warp) {
      body.multiply(body.shared.stage[stage % kStages], *warps[warp], stage, warp);
    }
  }
  for (int warp = 0; warp < kWarps; ++warp) {
    body.store(*warps[warp], warp);
  }
}

// One tile of the product: the blocks of a cluster one after another, then the sums of all.
template <typename Body>
void run_cluster(const typename Body::Problem& problem, const Grid& grid, int tile, int tile_along_rows) {
  const Divisor units_in_group = divisor_of(problem.group_size / kUnit);
  std::vector<std::unique_ptr<typename Body::Shared>> shared;
  for (int split = 0; split < grid.splits; ++split) {
    const Share share = share_of<Body>(grid, tile, split, tile_along_rows);
    shared.push_back(unset<typename Body::Shared>());
    Warps<typename Body::Warp> warps;
    for (int warp = 0; warp < kWarps; ++warp) {
      warps.push_back(unset<typename Body::Warp>());
    }
    const Body body{problem, share, units_in_group, *shared.back()};
    run_block(body, warps);
  }
  for (int at = 0; at < grid.splits * kThreads; ++at) {
    const Share share = share_of<Body>(grid, tile, at / kThreads, tile_along_rows);
    store_outputs<Body>(problem, share, at % kThreads, [&](int split, int row, int column) {
      return split < grid.splits ? shared[split]->partial.sum[row][column] : 0;
    });
  }
}

// A launch of `rowwise_kernel<Body>` on a GPU of so many multiprocessors.
template <typename Body>
void run_grid(const typename Body::Problem& problem, int multiprocessors) {
  const int blocks = multiprocessors * Body::kBlocksPerMultiprocessor;
  const Grid grid = grid_of<Body>(problem, [&](int splits) { return blocks / splits; });
  for (int along_rows = 0; along_rows < grid.tiles_along_rows; ++along_rows) {
    for (int tile = 0; tile < grid.tiles_along_columns; ++tile) {
      run_cluster<Body>(problem, grid, tile, along_rows);
    }
  }
}

template <typename Scale>
void run_on_host(Body body, const RowwiseProblem<Scale>& problem, int multiprocessors) {
  const auto run_chosen = [&](auto chosen) { run_grid<typename decltype(chosen)::Chosen>(problem, multiprocessors); };
  if (body == Body::kStreaming) {
    choose_streaming(problem, run_chosen);
  } else {
    choose_tiled(problem, run_chosen);
  }
}

template <int kBytes, typename Scale>
void dequantize_step(const RowwiseProblem<Scale>& problem, int64_t column, uint32_t step, BFloat16* values) {
  dequantize_bytes<kBytes>(problem, read_bytes<kBytes>(problem, column, step), column, step, values);
}

template <typename Scale>
void dequantize_on_host(const RowwiseProblem<Scale>& problem, int64_t first, int64_t columns, BFloat16* slab) {
  const int bytes = has_whole_words(problem) ? 4 : 1;
  for (int64_t column = 0; column < columns; ++column) {
    for (uint32_t step = 0; step < problem.depth / 2 / bytes; ++step) {
      BFloat16* values = slab + column * problem.depth;
      bytes == 4 ? dequantize_step<4>(problem, first + column, step, values)
                 : dequantize_step<1>(problem, first + column, step, values);
    }
  }
}

}  // namespace ao_kernels
