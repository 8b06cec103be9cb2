// Few rows: the weight is read once, by copies past the registers into shared memory, and multiplied by activations
// that each lane loads as the tensor cores take them.
//
// The warps of a block have the same 64 or 32 columns and divide K among them: warp w takes slices w, w + 8, w + 16 and
// so on, of 128 values, four lanes' 16 bytes of each column. A lane copies the words that it will multiply itself, so
// it waits for its own copies alone, and no warp waits for another before the end, when they add up their sums. The
// copies are a ring of slices: they end in the order they were started in, and the oldest is multiplied while the
// others are under way. Loads to registers would not do: what waits for one of them waits for all.
//
//   column g      | lane 4g: 16 B | lane 4g+1 | lane 4g+2 | lane 4g+3 |     one slice, groups of a multiple of 128
//   column g + 8  | the same lanes' second copy                       |
//
// Where a group is shorter than a slice, its values must lie in the same words of all four lanes: these then copy eight
// or four bytes, two or four times. The group's sums get its scale and zero point as they are complete:
// sum += scale * sum(q x) + zero_point * sum(x). The scales of a warp's next slice, and its activations, are on the way
// to registers while this slice is multiplied.

#pragma once

#include "cluster.cuh"

namespace ao_kernels {

constexpr int kSliceSteps = 4;                             // words of a lane: 16 bytes
constexpr int kSliceDepth = kSliceSteps * kLaneStepWidth;  // values along K
constexpr int kSliceBytes = kSliceSteps * kStepBytes;      // of a column

// How one warp reads and multiplies. kRun is the number of words of a lane that lie side by side: 4, 2 or 1 for groups
// of a multiple of 128, 64 or 32. kRowTiles is the number of 8-row tiles, kColumnTiles that of 16-column tiles.
template <typename Scale, int kRun, int kRowTiles, int kColumnTiles>
struct Streaming {
  static_assert(kRun == 1 || kRun == 2 || kRun == 4, "a lane's copies have 4, 8 or 16 bytes");

  static constexpr int kTilesAtOnce = kRowTiles == 1 ? 2 : 1;  // of columns, for enough independent sums
  static constexpr int kGrids = kColumnTiles * kTileColumns / kLanes;
  static constexpr int kUnits = kSliceSteps / kRun;             // of a slice, each within one group
  static constexpr int kParts = 2 * kColumnTiles;               // a lane's columns: g and g + 8 of each tile
  static constexpr int kRows = kRowTiles * kTileRows;           // of a block
  static constexpr int kColumns = kColumnTiles * kTileColumns;  // of a block
  static constexpr int kStepDepth = kSliceDepth;                // what a share counts in
  static constexpr int kLeastStepsOfSplit = kWarps;             // one slice for each warp
  static constexpr int kRing = kColumnTiles == 2 ? 4 : 2;
  static constexpr int kBlocksPerMultiprocessor = kRowTiles <= 2 ? 2 : 1;  // four tiles of rows need the registers

  static constexpr bool kHasRegistersToSpare = kRowTiles == 1;
  static constexpr int kBytesInFlight = kBlocksPerMultiprocessor * kWarps * (kRing - 1) * kColumns * kSliceDepth / 2;

  static_assert(kColumns % kLanes == 0, "a lane loads the scales of whole columns");
  static_assert(kBytesInFlight >= 32 << 10, "more than a multiprocessor's share of 4.3 TB/s times 700 ns");

  using Problem = RowwiseProblem<Scale>;

  // The words of a lane that lie side by side.
  struct alignas(4 * kRun) Run {
    uint32_t word[kRun];
  };

  // A warp's slices, and in their place its sums.
  union OfWarp {
    Run ring[kRing][kUnits][kParts][kLanes];
    Partial<kRows, kColumns> partial;
  };

  struct Shared {
    OfWarp of_warp[kWarps];
    Partial<kRows, kColumns> partial;
  };

  static_assert(sizeof(Shared) <= 99 << 10, "what a block gets on every GPU with clusters; two fit the larger ones");

  // The scale and the zero point of the lane's column.
  struct ScaleAndZero {
    Scale scale;
    Scale zero_point;
  };

  // Where a lane's columns are from the block's first column on.
  struct Offsets {
    uint32_t bytes[kParts];
  };

  struct Warp {
    PerLane<const int8_t*> weight_at;  // of the next slice to be copied, in the block's first column
    PerLane<Offsets> offsets;
    PerLane<const BFloat16*> input_at;  // of the next slice to be loaded
    int place;                          // of the oldest slice in the ring
    PerLane<Words4> input[kRowTiles][kSliceSteps];
    PerLane<ScaleAndZero> grid[kUnits][kGrids];
    PerLane<Accumulator> sum[kColumnTiles][kRowTiles];
  };

  const Problem& problem;
  const Share& share;  // its steps are slices
  const Divisor units_in_group;
  Shared& shared;

  AO_DEVICE bool is_within_depth(int step) const { return step * kLaneStepWidth < static_cast<int>(problem.depth); }

  // Finds where a lane's words and activations of its warp's first slice are. The columns past the last one repeat it,
  // and their sums are not stored.
  AO_DEVICE void find(Warp& warp, int slice) const {
    const uint32_t row_bytes = static_cast<uint32_t>(problem.depth) / 2;
    const int last = static_cast<int>(problem.columns) - 1 - share.first_column;
    const int8_t* weight = problem.weight + static_cast<int64_t>(share.first_column) * row_bytes + slice * kSliceBytes;
    for (const int lane : lanes()) {
      const int t = lane % kLanesInGroup, g = lane / kLanesInGroup;
      warp.weight_at[lane] = weight + t * kRun * kWordValues / 2;
      AO_UNROLL
      for (int part = 0; part < kParts; ++part) {
        const int wanted = part * kGroupsOfLanes + g;
        warp.offsets[lane].bytes[part] = static_cast<uint32_t>(wanted < last ? wanted : last) * row_bytes;
      }
      warp.input_at[lane] = problem.input + g * problem.depth + slice * kSliceDepth + t * kRun * kWordValues;
    }
  }

  // Asks the L2 cache for the scales and zero points of a slice, for they come from memory.
  AO_DEVICE void prefetch_grids(int slice) const {
#ifdef __CUDACC__
    const int lane = threadIdx.x % kLanes, step = slice * kSliceSteps + lane / 2 * kRun;
    if (kHasRegistersToSpare && lane < 2 * kUnits && slice < share.last_step && is_within_depth(step)) {
      const int64_t at = static_cast<int64_t>(units_in_group.divide(step)) * problem.columns + share.first_column;
      prefetch_to_l2((lane % 2 == 0 ? problem.scale : problem.zero_point) + at);
    }
#else
    (void)slice;  // a host has nothing to ask
#endif
  }

  // Starts the copies of the next slice to a place of the ring, as far as the share and K go; without one the group of
  // copies is empty.
  AO_DEVICE void copy(Warp& warp, int index, int place, int slice) const {
    AO_UNROLL
    for (int unit = 0; unit < kUnits; ++unit) {
      if (slice < share.last_step && (kUnits == 1 || is_within_depth(slice * kSliceSteps + unit * kRun))) {
        for (const int lane : lanes()) {
          AO_UNROLL
          for (int part = 0; part < kParts; ++part) {
            Run& to = shared.of_warp[index].ring[place][unit][part][lane];
            copy_async(&to, warp.weight_at[lane] + warp.offsets[lane].bytes[part] + unit * kRun * kStepBytes);
          }
        }
      }
    }
    for (const int lane : lanes()) {
      warp.weight_at[lane] += kWarps * kSliceBytes;
    }
    commit_copies();
  }

  // Starts the loads of the activations for one step of a slice, as far as the rows, the share and K go.
  AO_DEVICE void fetch_input(Warp& warp, int slice, int step) const {
    const int unit = step / kRun;
    const bool is_whole = kUnits == 1 || is_within_depth(slice * kSliceSteps + unit * kRun);
    const int rows = slice < share.last_step && is_whole ? static_cast<int>(problem.rows) : 0;
    for (const int lane : lanes()) {
      AO_UNROLL
      for (int tile = 0; tile < kRowTiles; ++tile) {
        const BFloat16* at = warp.input_at[lane] + tile * kTileRows * problem.depth;
        const int words = unit * kRun * kLanesInGroup + step % kRun;
        warp.input[tile][step][lane] =
            load_input_if(tile * kTileRows + lane / kLanesInGroup < rows, at + words * kWordValues);
      }
    }
  }

  // Starts the loads of the activations for one unit of a slice.
  AO_DEVICE void fetch_inputs(Warp& warp, int slice, int unit) const {
    AO_UNROLL
    for (int step = 0; step < kRun; ++step) {
      fetch_input(warp, slice, unit * kRun + step);
    }
  }

  // Starts the loads of the scales and zero points for one unit of a slice.
  AO_DEVICE void fetch_grid(Warp& warp, int slice, int unit) const {
    const int step = slice * kSliceSteps + unit * kRun;
    const bool is_there = slice < share.last_step && is_within_depth(step);
    const int64_t row = static_cast<int64_t>(units_in_group.divide(step)) * problem.columns;
    for (const int lane : lanes()) {
      AO_UNROLL
      for (int part = 0; part < kGrids; ++part) {
        const int column = share.first_column + part * kLanes + lane;
        const bool is_here = is_there && column < problem.columns;
        warp.grid[unit][part][lane] = {load_if(is_here, problem.scale + row + column),
                                       load_if(is_here, problem.zero_point + row + column)};
      }
    }
  }

  // Goes on to the activations of the warp's next slice.
  AO_DEVICE void advance(Warp& warp) const {
    for (const int lane : lanes()) {
      warp.input_at[lane] += kWarps * kSliceDepth;
    }
  }

  // Starts all that a warp needs first.
  AO_DEVICE void start(Warp& warp, int index, int slice) const {
    AO_UNROLL
    for (int place = 0; place < kRing; ++place) {
      copy(warp, index, place, slice + place * kWarps);
    }
    AO_UNROLL
    for (int unit = 0; unit < kUnits; ++unit) {
      fetch_inputs(warp, slice, unit);
      fetch_grid(warp, slice, unit);
    }
    advance(warp);
    AO_UNROLL
    for (int place = 1; place < kRing; ++place) {
      prefetch_grids(slice + place * kWarps);
    }
    warp.place = 0;
    AO_UNROLL
    for (int tile = 0; tile < kColumnTiles * kRowTiles; ++tile) {
      for (const int lane : lanes()) {
        warp.sum[tile % kColumnTiles][tile / kColumnTiles][lane] = {};
      }
    }
  }

  // What a group's sums are multiplied by. The weights are fed as 136 + q, which saves a subtraction for each pair:
  // scale * sum(q x) + zero_point * sum(x) is scale * sum((136 + q) x) + (zero_point - 136 scale) * sum(x).
  struct Factors {
    PerLane<float> of_weights;
    PerLane<float> of_inputs;
  };

  // The factors of 32 columns, one in each lane.
  static AO_DEVICE Factors factors_of(const PerLane<ScaleAndZero>& grid) {
    Factors factors;
    for (const int lane : lanes()) {
      factors.of_weights[lane] = to_float(grid[lane].scale);
      factors.of_inputs[lane] = fmaf(-kBiasValue, to_float(grid[lane].scale), to_float(grid[lane].zero_point));
    }
    return factors;
  }

  // A unit's activations as the tensor cores take them.
  struct Inputs {
    PerLane<InputFragment> of_step[kRun][kRowTiles][kHalves];
  };

  // Puts the activations that were loaded for a unit into the order of the pairs.
  static AO_DEVICE void take_input(const Warp& warp, int unit, Inputs& inputs) {
    AO_UNROLL
    for (int at = 0; at < kRun * kRowTiles; ++at) {
      const int step = at / kRowTiles, rows = at % kRowTiles;
      for (const int lane : lanes()) {
        const Words4 interleaved = interleave(warp.input[rows][unit * kRun + step][lane]);
        inputs.of_step[step][rows][0][lane] = half_of(interleaved, 0);
        inputs.of_step[step][rows][1][lane] = half_of(interleaved, 1);
      }
    }
  }

  // Adds up a unit's activations by a product with ones: every column has the same sums.
  static AO_DEVICE void sum_inputs(const Inputs& inputs, PerLane<Accumulator> (&sums)[kRowTiles]) {
    PerLane<WeightFragment> ones;
    for (const int lane : lanes()) {
      ones[lane] = {{kOnes, kOnes, kOnes, kOnes}};
    }
    AO_UNROLL
    for (int at = 0; at < kRun * kHalves * kRowTiles; ++at) {
      const int rows = at % kRowTiles, half = at / kRowTiles % kHalves, step = at / kRowTiles / kHalves;
      multiply_add(sums[rows], ones, inputs.of_step[step][rows][half]);
    }
  }

  // Multiplies some tiles of a unit.
  static AO_DEVICE void multiply_tiles(const PerLane<Run> (&run)[2 * kTilesAtOnce], const Inputs& inputs,
                                       PerLane<Accumulator> (&products)[kTilesAtOnce][kRowTiles]) {
    AO_UNROLL
    for (int at = 0; at < kRun * kHalves * kTilesAtOnce; ++at) {
      const int columns = at % kTilesAtOnce, half = at / kTilesAtOnce % kHalves, step = at / kTilesAtOnce / kHalves;
      PerLane<WeightFragment> weight;
      for (const int lane : lanes()) {
        weight[lane] = biased(run[2 * columns][lane].word[step], run[2 * columns + 1][lane].word[step], half);
      }
      AO_UNROLL
      for (int rows = 0; rows < kRowTiles; ++rows) {
        multiply_add(products[columns][rows], weight, inputs.of_step[step][rows][half]);
      }
    }
  }

  // Adds the sums of a tile's group, each times its factor.
  static AO_DEVICE void add(Warp& warp, int columns, const Factors& factors,
                            const PerLane<Accumulator> (&products)[kRowTiles],
                            const PerLane<Accumulator> (&input_sums)[kRowTiles]) {
    for (const int lane : lanes()) {
      AO_UNROLL
      for (int below = 0; below < 2; ++below) {
        const int column = (2 * columns + below) * kGroupsOfLanes % kLanes + lane / kLanesInGroup;
        const float of_weights = value_of_lane(factors.of_weights, column);
        const float of_inputs = value_of_lane(factors.of_inputs, column);
        AO_UNROLL
        for (int at = 0; at < kRowTiles * 2; ++at) {
          const int rows = at / 2, i = below * 2 + at % 2;
          float& sum = warp.sum[columns][rows][lane].value[i];
          sum = fmaf(of_weights, products[rows][lane].value[i], sum);
          sum = fmaf(of_inputs, input_sums[rows][lane].value[i], sum);
        }
      }
    }
  }

  // Multiplies the ring's oldest slice, and loads what the next one needs as soon as this one's was used.
  AO_DEVICE void multiply(Warp& warp, int index, int slice) const {
    AO_UNROLL
    for (int unit = 0; unit < kUnits; ++unit) {
      if (kUnits > 1 && !is_within_depth(slice * kSliceSteps + unit * kRun)) {
        return;
      }
      Inputs inputs;
      take_input(warp, unit, inputs);
      if (kHasRegistersToSpare) {
        fetch_inputs(warp, slice + kWarps, unit);
      }
      Factors factors[kGrids];
      AO_UNROLL
      for (int part = 0; part < kGrids; ++part) {
        factors[part] = factors_of(warp.grid[unit][part]);
      }
      fetch_grid(warp, slice + kWarps, unit);
      PerLane<Accumulator> input_sums[kRowTiles] = {};
      sum_inputs(inputs, input_sums);
      AO_UNROLL
      for (int first = 0; first < kColumnTiles; first += kTilesAtOnce) {
        PerLane<Run> run[2 * kTilesAtOnce];
        AO_UNROLL
        for (int part = 0; part < 2 * kTilesAtOnce; ++part) {
          for (const int lane : lanes()) {
            run[part][lane] = shared.of_warp[index].ring[warp.place][unit][2 * first + part][lane];
          }
        }
        PerLane<Accumulator> products[kTilesAtOnce][kRowTiles] = {};
        multiply_tiles(run, inputs, products);
        AO_UNROLL
        for (int tile = 0; tile < kTilesAtOnce; ++tile) {
          add(warp, first + tile, factors[(first + tile) / 2], products[tile], input_sums);
        }
      }
      if (!kHasRegistersToSpare) {
        fetch_inputs(warp, slice + kWarps, unit);
      }
    }
  }

  // A warp's walk along K; each place of the ring is filled again as soon as it was used.
  AO_DEVICE void walk(Warp& warp, int index) const {
    const int first = share.first_step + index;
    start(warp, index, first);
    AO_NO_UNROLL
    for (int slice = first; slice < share.last_step; slice += kWarps) {
      wait_for_copies<kRing - 1>();
      multiply(warp, index, slice);
      advance(warp);
      copy(warp, index, warp.place, slice + kRing * kWarps);
      prefetch_grids(slice + kRing * kWarps);
      warp.place = warp.place == kRing - 1 ? 0 : warp.place + 1;
    }
  }

  // Puts a warp's sums where what it multiplied was.
  AO_DEVICE void store(const Warp& warp, int index) const {
    AO_UNROLL
    for (int tile = 0; tile < kColumnTiles * kRowTiles; ++tile) {
      const int columns = tile % kColumnTiles, rows = tile / kColumnTiles;
      shared.of_warp[index].partial.store(warp.sum[columns][rows], rows * kTileRows, columns * kTileColumns);
    }
  }

  // Adds up the warps' sums, in their order.
  AO_DEVICE void reduce(int thread) const {
    AO_UNROLL
    for (int at = thread; at < kRows * kColumns; at += kThreads) {
      const int row = at / kColumns, column = at % kColumns;
      float sum = 0;
      AO_UNROLL
      for (int index = 0; index < kWarps; ++index) {
        sum += shared.of_warp[index].partial.sum[row][column];
      }
      shared.partial.sum[row][column] = sum;
    }
  }
};

// Stands for a type where a function chooses one.
template <typename T>
struct Type {
  using Chosen = T;
};

constexpr int64_t kNarrowColumns = 4096;  // of which blocks of 64 columns leave half of an H200 without one

// Calls `launch` with the body for the problem's groups and so many tiles of rows. Blocks have 64 columns, or 32 where
// that makes too few of them, or where the scales of short groups would want more registers than there are.
template <typename Scale, int kRowTiles, typename Launch>
void choose_streaming_of(const RowwiseProblem<Scale>& problem, const Launch& launch) {
  constexpr int kWide = 4, kOfFewColumns = kRowTiles <= 2 ? 2 : 4, kOfShortGroups = kRowTiles == 1 ? 4 : 2;
  if (problem.group_size % (4 * kUnit) == 0) {
    problem.columns <= kNarrowColumns ? launch(Type<Streaming<Scale, 4, kRowTiles, kOfFewColumns>>{})
                                      : launch(Type<Streaming<Scale, 4, kRowTiles, kWide>>{});
  } else if (problem.group_size % (2 * kUnit) == 0) {
    launch(Type<Streaming<Scale, 2, kRowTiles, kOfShortGroups>>{});
  } else {
    launch(Type<Streaming<Scale, 1, kRowTiles, kOfShortGroups>>{});
  }
}

// Calls `launch` with the body for the problem's rows, columns and groups.
template <typename Scale, typename Launch>
void choose_streaming(const RowwiseProblem<Scale>& problem, const Launch& launch) {
  if (problem.rows <= kTileRows) {
    choose_streaming_of<Scale, 1>(problem, launch);
  } else if (problem.rows <= 2 * kTileRows) {
    choose_streaming_of<Scale, 2>(problem, launch);
  } else {
    choose_streaming_of<Scale, 4>(problem, launch);
  }
}

#ifdef __CUDACC__

// Only where addresses come from is known before the kernel before this one has ended.
template <typename Scale, int kRun, int kRowTiles, int kColumnTiles>
AO_DEVICE void run(const Streaming<Scale, kRun, kRowTiles, kColumnTiles>& body,
                   typename Streaming<Scale, kRun, kRowTiles, kColumnTiles>::Warp& warp, int index) {
  body.find(warp, body.share.first_step + index);
  wait_for_kernel_before();
  body.walk(warp, index);
  let_next_kernel_start();
  __syncwarp();  // the sums come where other lanes read their words
  body.store(warp, index);
  __syncthreads();
  body.reduce(threadIdx.x);
}

#endif

}  // namespace ao_kernels
