// Few rows: the weight is read once, in 16-byte loads that go straight to registers, and the activations wait for it in
// shared memory in the order in which the tensor cores take them.
//
// A warp owns 16 columns (32 for more than eight rows) and walks along K in slices of 128 values: four lanes' 16 bytes.
// It keeps a ring of slices in registers, so that the loads of the next ones are under way while one is multiplied.
//
//   column g      | lane 4g: 16 B | lane 4g+1 | lane 4g+2 | lane 4g+3 |     one slice, groups of a multiple of 128
//   column g + 8  | the same lanes' second load                       |
//
// Where a group is shorter than a slice, its values must lie in the same words of all four lanes: these then load eight
// or four bytes, two or four times. The group's sums get its scale and zero point as they are complete:
// sum += scale * sum(q x) + zero_point * sum(x), the last from a product with ones.

#pragma once

#include "cluster.cuh"

namespace ao_kernels {

constexpr int kSliceSteps = 4;                             // words of a lane: 16 bytes
constexpr int kSliceDepth = kSliceSteps * kLaneStepWidth;  // values along K
constexpr int kSliceWords = kSliceSteps * kLanesInGroup;   // words of a column
constexpr int kChunkSlices = 8;                            // 16 KB of activations for eight rows

// How one warp reads and multiplies. kRun is the number of words of a lane that lie side by side: 4, 2 or 1 for groups
// of a multiple of 128, 64 or 32. kTiles is the number of 8-row tiles, and of 16-column tiles of a warp.
template <typename Scale, int kRun, int kTiles>
struct Streaming {
  static_assert(kRun == 1 || kRun == 2 || kRun == 4, "a lane's loads have 4, 8 or 16 bytes");
  static_assert(kTiles == 1 || kTiles == 2, "the rows fill one or two tiles of eight");

  static constexpr int kUnits = kSliceSteps / kRun;           // of a slice, each within one group
  static constexpr int kUnitSteps = kRun;                     // words of a lane in a unit
  static constexpr int kRing = kRun == 4 ? 4 : 2;             // slices under way; short groups have more scales
  static constexpr int kRows = kTiles * kTileRows;            // of a block
  static constexpr int kWarpColumns = kTiles * kTileColumns;  // of a warp
  static constexpr int kColumns = kWarps * kWarpColumns;      // of a block
  static constexpr int kStepDepth = kSliceDepth;              // what a share counts in
  static constexpr int kBlocksPerMultiprocessor = kTiles == 1 ? 2 : 1;
  static constexpr int kWantedBlocks = kBlocksPerMultiprocessor;  // for each multiprocessor: all run at once
  static constexpr int kBytesInFlight =
      kBlocksPerMultiprocessor * kWarps * (kRing - 1) * kWarpColumns * kSliceDepth / 2;

  static_assert(kChunkSlices % kRing == 0, "a chunk begins at the ring's first place");
  static_assert(kBytesInFlight >= (kRun == 4 ? 24 : 16) << 10,
                "a multiprocessor's share of 4.3 TB/s times 700 ns is 23 KB; with short groups scales add a third");

  using Problem = RowwiseProblem<Scale>;

  // What a lane holds of a slice, for columns g and g + 8 of each tile.
  struct Slice {
    uint32_t word[kTiles][2][kUnits][kUnitSteps];
    Scale scale[kTiles][2][kUnits];
    Scale zero_point[kTiles][2][kUnits];
  };

  // Where columns g and g + 8 of each tile begin, at the lane's first word.
  struct Columns {
    const int8_t* weight[kTiles][2];
    const Scale* scale[kTiles][2];
    const Scale* zero_point[kTiles][2];
  };

  struct Warp {
    PerLane<Columns> columns;
    PerLane<Slice> ring[kRing];
    PerLane<Accumulator> sum[kTiles][kTiles];  // of columns, of rows
  };

  // The activations of a chunk as the lanes read them, and later the sums.
  union Shared {
    Words4 input[kTiles][kChunkSlices * kSliceSteps][kLanes];
    Partial<kRows, kColumns> partial;
  };

  static_assert(sizeof(Shared) <= 48 << 10, "CUDA's limit for shared memory that is not asked for");

  const Problem& problem;
  const Share& share;  // its steps are slices
  const Divisor units_in_group;
  Shared& shared;

  // Finds a warp's columns; those past the last one repeat it, and their sums are not stored.
  AO_DEVICE void find_columns(Warp& warp, int index) const {
    const int first = share.first_column + index * kWarpColumns, last = static_cast<int>(problem.columns) - 1;
    for (const int lane : lanes()) {
      AO_UNROLL
      for (int part = 0; part < 2 * kTiles; ++part) {
        const int wanted = first + part * kGroupsOfLanes + lane / kLanesInGroup, column = wanted < last ? wanted : last;
        const int first_byte = lane % kLanesInGroup * kUnitSteps * kWordValues / 2;
        Columns& columns = warp.columns[lane];
        columns.weight[part / 2][part % 2] = problem.weight + column * (problem.depth / 2) + first_byte;
        columns.scale[part / 2][part % 2] = problem.scale + column;
        columns.zero_point[part / 2][part % 2] = problem.zero_point + column;
      }
    }
  }

  // Starts the loads of a slice, as far as K goes.
  AO_DEVICE void load(Warp& warp, PerLane<Slice>& slice, int index) const {
    AO_UNROLL
    for (int unit = 0; unit < kUnits; ++unit) {
      const int step = index * kSliceSteps + unit * kUnitSteps;
      if (kUnits > 1 && step * kLaneStepWidth >= problem.depth) {
        return;
      }
      const int64_t grid_row = static_cast<int64_t>(units_in_group.divide(step)) * problem.columns;
      for (const int lane : lanes()) {
        AO_UNROLL
        for (int part = 0; part < 2 * kTiles; ++part) {
          const int tile = part / 2, below = part % 2;
          const Columns& columns = warp.columns[lane];
          load_weight(columns.weight[tile][below] + step * kStepBytes, slice[lane].word[tile][below][unit]);
          slice[lane].scale[tile][below][unit] = columns.scale[tile][below][grid_row];
          slice[lane].zero_point[tile][below][unit] = columns.zero_point[tile][below][grid_row];
        }
      }
    }
  }

  // Fills the ring.
  AO_DEVICE void start(Warp& warp, int index) const {
    find_columns(warp, index);
    AO_UNROLL
    for (int place = 0; place < kRing; ++place) {
      if (share.first_step + place < share.last_step) {
        load(warp, warp.ring[place], share.first_step + place);
      }
    }
    AO_UNROLL
    for (int tile = 0; tile < kTiles * kTiles; ++tile) {
      for (const int lane : lanes()) {
        warp.sum[tile / kTiles][tile % kTiles][lane] = {};
      }
    }
  }

  // Which word of the activations a thread stages: of a row, a slice of the chunk, a place in it.
  struct Staged {
    int row;
    int slice;
    int word;
  };

  static AO_DEVICE Staged staged_by(int thread, int part) {
    const int at = part * kThreads + thread;
    return {at / kSliceWords / kChunkSlices, at / kSliceWords % kChunkSlices, at % kSliceWords};
  }

  // Where the lanes look for it: at the word's step, at the lane of its row.
  AO_DEVICE Words4& place_of(const Staged& staged) const {
    const int unit = staged.word / (kUnitSteps * kLanesInGroup), t = staged.word / kUnitSteps % kLanesInGroup;
    const int step = staged.slice * kSliceSteps + unit * kUnitSteps + staged.word % kUnitSteps;
    return shared.input[staged.row / kTileRows][step][staged.row % kTileRows * kLanesInGroup + t];
  }

  // Puts a thread's part of a chunk's activations into shared memory; all its loads are under way at once. Rows past
  // the last one are left as they are: a row of the activations reaches no other row of the sums.
  AO_DEVICE void stage(int first_slice, int thread) const {
    constexpr int kParts = kRows * kChunkSlices * kSliceWords / kThreads;
    Words4 words[kParts];
    AO_UNROLL
    for (int part = 0; part < kParts; ++part) {
      const Staged staged = staged_by(thread, part);
      const int k = (first_slice + staged.slice) * kSliceDepth + staged.word * kWordValues;
      const bool is_there = staged.row < problem.rows && k < problem.depth;
      words[part] = load_input_if(is_there, problem.input + staged.row * problem.depth + k);
    }
    AO_UNROLL
    for (int part = 0; part < kParts; ++part) {
      const Staged staged = staged_by(thread, part);
      if (staged.row < problem.rows) {
        place_of(staged) = interleave(words[part]);
      }
    }
  }

  // Reads what the lanes feed for 32 values along K: two halves of each tile's rows.
  AO_DEVICE void read_input(int staged_step, PerLane<InputFragment> (&input)[kHalves][kTiles]) const {
    AO_UNROLL
    for (int rows = 0; rows < kTiles; ++rows) {
      for (const int lane : lanes()) {
        const Words4 words = load_shared(shared.input[rows][staged_step][lane]);
        input[0][rows][lane] = half_of(words, 0);
        input[1][rows][lane] = half_of(words, 1);
      }
    }
  }

  // Multiplies half a word of every lane: 16 values along K.
  AO_DEVICE void multiply_half(const PerLane<Slice>& slice, int unit, int step, int half,
                               const PerLane<InputFragment> (&input)[kTiles],
                               PerLane<Accumulator> (&product)[kTiles][kTiles],
                               PerLane<Accumulator> (&input_sum)[kTiles]) const {
    PerLane<WeightFragment> weight, ones;
    AO_UNROLL
    for (int rows = 0; rows < kTiles; ++rows) {
      for (const int lane : lanes()) {
        ones[lane] = {{kOnes, kOnes, kOnes, kOnes}};
      }
      multiply_add(input_sum[rows], ones, input[rows]);
    }
    AO_UNROLL
    for (int columns = 0; columns < kTiles; ++columns) {
      for (const int lane : lanes()) {
        const auto& word = slice[lane].word[columns];
        weight[lane] = decode(word[0][unit][step], word[1][unit][step], half);
      }
      AO_UNROLL
      for (int rows = 0; rows < kTiles; ++rows) {
        multiply_add(product[columns][rows], weight, input[rows]);
      }
    }
  }

  // sum += scale * product + zero_point * input_sum
  AO_DEVICE void scale_unit(Warp& warp, const PerLane<Slice>& slice, int unit,
                            const PerLane<Accumulator> (&product)[kTiles][kTiles],
                            const PerLane<Accumulator> (&input_sum)[kTiles]) const {
    for (const int lane : lanes()) {
      AO_UNROLL
      for (int at = 0; at < kTiles * kTiles * 4; ++at) {
        const int columns = at / 4 / kTiles, rows = at / 4 % kTiles, i = at % 4;
        const float scale = to_float(slice[lane].scale[columns][i / 2][unit]);
        const float zero_point = to_float(slice[lane].zero_point[columns][i / 2][unit]);
        float& sum = warp.sum[columns][rows][lane].value[i];
        sum = fmaf(scale, product[columns][rows][lane].value[i], sum);
        sum = fmaf(zero_point, input_sum[rows][lane].value[i], sum);
      }
    }
  }

  // Multiplies a slice whose activations are the chunk's, at slice `staged`.
  AO_DEVICE void multiply(Warp& warp, const PerLane<Slice>& slice, int index, int staged) const {
    AO_UNROLL
    for (int unit = 0; unit < kUnits; ++unit) {
      const int first = unit * kUnitSteps;
      if (kUnits > 1 && (index * kSliceSteps + first) * kLaneStepWidth >= static_cast<int>(problem.depth)) {
        return;
      }
      PerLane<Accumulator> product[kTiles][kTiles] = {}, input_sum[kTiles] = {};
      AO_UNROLL
      for (int step = 0; step < kUnitSteps; ++step) {
        PerLane<InputFragment> input[kHalves][kTiles];
        read_input(staged * kSliceSteps + first + step, input);
        AO_UNROLL
        for (int half = 0; half < kHalves; ++half) {
          multiply_half(slice, unit, step, half, input[half], product, input_sum);
        }
      }
      scale_unit(warp, slice, unit, product, input_sum);
    }
  }

  // Multiplies a chunk; each place of the ring is filled again as soon as it was used.
  AO_DEVICE void multiply_chunk(Warp& warp, int first_slice) const {
    for (int staged = 0; staged < kChunkSlices; staged += kRing) {
      AO_UNROLL
      for (int place = 0; place < kRing; ++place) {
        const int slice = first_slice + staged + place;
        if (slice < share.last_step) {
          multiply(warp, warp.ring[place], slice, staged + place);
        }
        if (slice + kRing < share.last_step) {
          load(warp, warp.ring[place], slice + kRing);
        }
      }
    }
  }

  // Puts a warp's sums where the activations were.
  AO_DEVICE void store(const Warp& warp, int index) const {
    AO_UNROLL
    for (int tile = 0; tile < kTiles * kTiles; ++tile) {
      const int columns = tile / kTiles, rows = tile % kTiles;
      shared.partial.store(warp.sum[columns][rows], rows * kTileRows, index * kWarpColumns + columns * kTileColumns);
    }
  }
};

// Stands for a type where a function chooses one.
template <typename T>
struct Type {
  using Chosen = T;
};

// Calls `launch` with the body for the problem's rows and groups.
template <typename Scale, typename Launch>
void choose_streaming(const RowwiseProblem<Scale>& problem, const Launch& launch) {
  const bool is_one_tile = problem.rows <= kTileRows;
  if (problem.group_size % (4 * kUnit) == 0) {
    is_one_tile ? launch(Type<Streaming<Scale, 4, 1>>{}) : launch(Type<Streaming<Scale, 4, 2>>{});
  } else if (problem.group_size % (2 * kUnit) == 0) {
    is_one_tile ? launch(Type<Streaming<Scale, 2, 1>>{}) : launch(Type<Streaming<Scale, 2, 2>>{});
  } else {
    is_one_tile ? launch(Type<Streaming<Scale, 1, 1>>{}) : launch(Type<Streaming<Scale, 1, 2>>{});
  }
}

#ifdef __CUDACC__

// The loads of the first slices are under way while the first activations are staged.
template <typename Scale, int kRun, int kTiles>
AO_DEVICE void run(const Streaming<Scale, kRun, kTiles>& body, typename Streaming<Scale, kRun, kTiles>::Warp& warp,
                   int index) {
  body.start(warp, index);
  for (int first = body.share.first_step; first < body.share.last_step; first += kChunkSlices) {
    body.stage(first, threadIdx.x);
    __syncthreads();
    body.multiply_chunk(warp, first);
    __syncthreads();
  }
}

#endif

}  // namespace ao_kernels
