// A moderate number of rows: tiles of 128 columns, whose weight and activations a pipeline of asynchronous copies
// brings into shared memory as they are. Each thread puts the activations that it has copied into the order of the
// pairs before all read them.
//
// A stage holds 64 values along K: 32 bytes of each column, 128 of each row. For 32 of them, lane 4g + t takes word t
// of columns g and g + 8, and of row g the 16 bytes at t; a swizzle lets no two of a quarter warp's reads meet in a
// bank. The weight is dequantized to bfloat16 on the way, q * scale + zero_point rounded once, so that no more than the
// sums themselves is in registers. float32 scales are rounded to bfloat16 first.

#pragma once

#include "streaming.cuh"

namespace ao_kernels {

constexpr int kStageSteps = 2;                             // words of a lane
constexpr int kStageDepth = kStageSteps * kLaneStepWidth;  // values along K
constexpr int kStages = 4;                                 // three under way while one is multiplied
constexpr int kTiledColumns = 128;                         // of a block
constexpr int kInputUnits = kStageDepth / kWordValues;     // 16 bytes each: a row's part of a stage

// How one block copies and multiplies `kTileHeight` rows.
template <typename Scale, int kTileHeight>
struct Tiled {
  static_assert(kTileHeight == 64 || kTileHeight == 128, "the warps divide the rows of a tile");

  static constexpr int kRows = kTileHeight;       // of a block
  static constexpr int kColumns = kTiledColumns;  // of a block
  static constexpr int kStepDepth = kStageDepth;  // what a share counts in
  static constexpr int kLeastStepsOfSplit = 2;    // a shorter part costs more than it saves
  static constexpr int kBlocksPerMultiprocessor = 2;
  static constexpr int kWarpsAlongRows = kRows == 128 ? 2 : 1;
  static constexpr int kWarpsAlongColumns = kWarps / kWarpsAlongRows;
  static constexpr int kColumnTiles = kTiledColumns / kWarpsAlongColumns / kTileColumns;  // of a warp
  static constexpr int kRowTiles = kRows / kWarpsAlongRows / kTileRows;                   // of a warp

  using Problem = RowwiseProblem<Scale>;

  // The bytes of a stage, 16 at a time.
  struct Stage {
    Words4 weight[kTiledColumns][kStageSteps];
    Words4 input[kRows][kInputUnits];
  };

  union Shared {
    Stage stage[kStages];
    Partial<kRows, kTiledColumns> partial;
  };

  static_assert(2 * sizeof(Shared) <= 227 << 10, "two blocks share a multiprocessor's shared memory");

  // The scales and zero points of columns g and g + 8 of each tile, for one step.
  struct Scales {
    Scale scale[kColumnTiles][2];
    Scale zero_point[kColumnTiles][2];
  };

  struct Warp {
    PerLane<Scales> next;  // under way while a step is multiplied
    PerLane<Accumulator> sum[kColumnTiles][kRowTiles];
  };

  const Problem& problem;
  const Share& share;  // its steps are stages
  const Divisor units_in_group;
  Shared& shared;

  // Where a stage keeps 16 bytes. Of eight reads side by side, four are of one row and four of the next: they take
  // the two halves of the 128 bytes that the banks serve at once.
  static AO_DEVICE int input_place(int row, int unit) { return unit ^ (row % 2 * 4); }

  // Of 32 reads of a word, four columns fill the banks at one step's 16 bytes, the next four at the other's.
  static AO_DEVICE int weight_place(int column, int step) { return step ^ (column / 4 % 2); }

  static AO_DEVICE int first_column(int warp) { return warp % kWarpsAlongColumns * kColumnTiles * kTileColumns; }
  static AO_DEVICE int first_row(int warp) { return warp / kWarpsAlongColumns * kRowTiles * kTileRows; }

  // Starts the loads of the first scales.
  AO_DEVICE void start(Warp& warp, int index) const {
    for (const int lane : lanes()) {
      AO_UNROLL
      for (int tile = 0; tile < kColumnTiles * kRowTiles; ++tile) {
        warp.sum[tile % kColumnTiles][tile / kColumnTiles][lane] = {};
      }
      warp.next[lane] = {};
    }
    load_scales(warp, share.first_step * kStageSteps, index);
  }

  // Starts the copies of one thread for a stage, as far as K goes. Rows and columns past the last one are left as they
  // are: none reaches another one's sums.
  AO_DEVICE void copy(Stage& stage, int index, int thread) const {
    copy_weight(stage.weight, index * kStageDepth, thread);
    copy_input(stage.input, index * kStageDepth, thread);
  }

  AO_DEVICE void copy_weight(Words4 (&to)[kTiledColumns][kStageSteps], int first_k, int thread) const {
    static_assert(kTiledColumns * kStageSteps == kThreads, "each thread copies 16 bytes of the weight");
    const int step = thread % kStageSteps, column = thread / kStageSteps, k = first_k + step * kLaneStepWidth;
    if (k < problem.depth && share.first_column + column < problem.columns) {
      const int64_t at = (share.first_column + column) * (problem.depth / 2) + k / 2;
      copy_async(&to[column][weight_place(column, step)], problem.weight + at);
    }
  }

  AO_DEVICE void copy_input(Words4 (&to)[kRows][kInputUnits], int first_k, int thread) const {
    const int unit = thread % kInputUnits, k = first_k + unit * kWordValues;
    const int rows = k < problem.depth ? static_cast<int>(problem.rows) - share.first_row : 0;
    const BFloat16* input = problem.input + (share.first_row + thread / kInputUnits) * problem.depth + k;
    AO_UNROLL
    for (int part = 0; part < kRows; part += kThreads / kInputUnits) {
      const int row = part + thread / kInputUnits;
      if (row < rows) {
        copy_async(&to[row][input_place(row, unit)], input + part * problem.depth);
      }
    }
  }

  // Puts what a thread has copied of a stage's activations into the order of the pairs, in their places.
  AO_DEVICE void interleave_copied(Stage& stage, int thread) const {
    AO_UNROLL
    for (int part = 0; part < kRows; part += kThreads / kInputUnits) {
      const int row = part + thread / kInputUnits;
      Words4& words = stage.input[row][input_place(row, thread % kInputUnits)];
      words = interleave(words);
    }
  }

  // Starts the loads of the scales for a step: 32 values along K, which are in one group.
  AO_DEVICE void load_scales(Warp& warp, int step, int index) const {
    if (step * kLaneStepWidth >= problem.depth) {
      return;
    }
    const int64_t group = units_in_group.divide(step);
    for (const int lane : lanes()) {
      AO_UNROLL
      for (int part = 0; part < kColumnTiles * 2; ++part) {
        const int column = share.first_column + first_column(index) + part * kGroupsOfLanes + lane / kLanesInGroup;
        if (column < problem.columns) {
          const int64_t at = group * problem.columns + column;
          warp.next[lane].scale[part / 2][part % 2] = problem.scale[at];
          warp.next[lane].zero_point[part / 2][part % 2] = problem.zero_point[at];
        }
      }
    }
  }

  // Dequantizes what a lane holds of a tile's columns g and g + 8: half of a word each.
  static AO_DEVICE WeightFragment dequantized(const Scales& scales, int tile, const uint32_t (&word)[2], int half) {
    WeightFragment weight = decode(word[0], word[1], half);
    AO_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float scale = to_float(scales.scale[tile][i % 2]), zero_point = to_float(scales.zero_point[tile][i % 2]);
      weight.pair[i] =
          multiply_add_pairs(weight.pair[i], round_to_pair(scale, scale), round_to_pair(zero_point, zero_point));
    }
    return weight;
  }

  // Reads and dequantizes the weight of a step.
  AO_DEVICE void read_weight(const Stage& stage, const Warp& warp, int step, int index,
                             PerLane<WeightFragment> (&weight)[kColumnTiles][kHalves]) const {
    for (const int lane : lanes()) {
      AO_UNROLL
      for (int tile = 0; tile < kColumnTiles; ++tile) {
        const int column = first_column(index) + tile * kTileColumns + lane / kLanesInGroup;
        const int below = column + kGroupsOfLanes, t = lane % kLanesInGroup;
        const uint32_t word[2] = {stage.weight[column][weight_place(column, step)].word[t],
                                  stage.weight[below][weight_place(below, step)].word[t]};
        weight[tile][0][lane] = dequantized(warp.next[lane], tile, word, 0);
        weight[tile][1][lane] = dequantized(warp.next[lane], tile, word, 1);
      }
    }
  }

  // Multiplies 32 values along K.
  AO_DEVICE void multiply_step(const Stage& stage, Warp& warp, int step, int index,
                               const PerLane<WeightFragment> (&weight)[kColumnTiles][kHalves]) const {
    AO_UNROLL
    for (int rows = 0; rows < kRowTiles; ++rows) {
      PerLane<InputFragment> input[kHalves];
      for (const int lane : lanes()) {
        const int row = first_row(index) + rows * kTileRows + lane / kLanesInGroup;
        const int unit = step * kLanesInGroup + lane % kLanesInGroup;
        const Words4& words = stage.input[row][input_place(row, unit)];
        input[0][lane] = half_of(words, 0);
        input[1][lane] = half_of(words, 1);
      }
      AO_UNROLL
      for (int part = 0; part < kColumnTiles * kHalves; ++part) {
        const int columns = part % kColumnTiles, half = part / kColumnTiles;
        multiply_add(warp.sum[columns][rows], weight[columns][half], input[half]);
      }
    }
  }

  // Multiplies a stage as far as K goes; the loads of the next scales start as soon as the last ones were used.
  AO_DEVICE void multiply(const Stage& stage, Warp& warp, int stage_index, int index) const {
    AO_NO_UNROLL
    for (int step = 0; step < kStageSteps; ++step) {
      const int step_of_all = stage_index * kStageSteps + step;
      if (step_of_all * kLaneStepWidth < problem.depth) {
        PerLane<WeightFragment> weight[kColumnTiles][kHalves];
        read_weight(stage, warp, step, index, weight);
        load_scales(warp, step_of_all + 1, index);
        multiply_step(stage, warp, step, index, weight);
      }
    }
  }

  // Puts a warp's sums where the stages were.
  AO_DEVICE void store(const Warp& warp, int index) const {
    AO_UNROLL
    for (int tile = 0; tile < kColumnTiles * kRowTiles; ++tile) {
      const int columns = tile % kColumnTiles, rows = tile / kColumnTiles;
      shared.partial.store(warp.sum[columns][rows], first_row(index) + rows * kTileRows,
                           first_column(index) + columns * kTileColumns);
    }
  }
};

// Calls `launch` with the body for the problem's rows.
template <typename Scale, typename Launch>
void choose_tiled(const RowwiseProblem<Scale>& problem, const Launch& launch) {
  if (problem.rows <= 64) {
    launch(Type<Tiled<Scale, 64>>{});
  } else {
    launch(Type<Tiled<Scale, 128>>{});
  }
}

#ifdef __CUDACC__

// Starts the copies of a stage where the share has it; without one the group of copies is empty.
template <typename Body>
AO_DEVICE void copy_stage(const Body& body, int stage) {
  if (stage < body.share.last_step) {
    body.copy(body.shared.stage[stage % kStages], stage, threadIdx.x);
  }
  commit_copies();
}

// One barrier for each stage tells that it has arrived and that the last one was read.
template <typename Scale, int kRows>
AO_DEVICE void run(const Tiled<Scale, kRows>& body, typename Tiled<Scale, kRows>::Warp& warp, int index) {
  const Share& share = body.share;
  wait_for_kernel_before();
  body.start(warp, index);
  AO_NO_UNROLL
  for (int stage = share.first_step; stage < share.first_step + kStages - 1; ++stage) {
    copy_stage(body, stage);
  }
  for (int stage = share.first_step; stage < share.last_step; ++stage) {
    wait_for_copies<kStages - 2>();
    body.interleave_copied(body.shared.stage[stage % kStages], threadIdx.x);
    __syncthreads();
    copy_stage(body, stage + kStages - 1);
    body.multiply(body.shared.stage[stage % kStages], warp, stage, index);
  }
  wait_for_copies<0>();
  let_next_kernel_start();
  __syncthreads();
  body.store(warp, index);
}

#endif

}  // namespace ao_kernels
