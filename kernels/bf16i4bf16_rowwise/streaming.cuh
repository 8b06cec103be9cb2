// Few rows: the weight is read once, by copies past the registers into shared memory, and the activations wait for it
// there in the order in which the tensor cores take them.
//
// A warp owns 16 columns (32 for more than eight rows) and walks along K in slices of 128 values: four lanes' 16 bytes.
// Each lane copies the words that it will multiply itself, so it waits for its own copies alone and for no barrier.
// They are a ring of slices: copies end in the order they were started in, and the oldest is multiplied while the
// others are under way. Loads to registers would not do: what waits for one of them waits for all.
//
//   column g      | lane 4g: 16 B | lane 4g+1 | lane 4g+2 | lane 4g+3 |     one slice, groups of a multiple of 128
//   column g + 8  | the same lanes' second copy                       |
//
// Where a group is shorter than a slice, its values must lie in the same words of all four lanes: these then copy eight
// or four bytes, two or four times. The group's sums get its scale and zero point as they are complete:
// sum += scale * sum(q x) + zero_point * sum(x). The last, scales and activations are the block's, for a chunk of
// slices at a time. Scales come from memory, so those of the next chunk are under way in registers while this one is
// multiplied; activations are in the L2 cache soon.

#pragma once

#include "cluster.cuh"

namespace ao_kernels {

constexpr int kSliceSteps = 4;                             // words of a lane: 16 bytes
constexpr int kSliceDepth = kSliceSteps * kLaneStepWidth;  // values along K
constexpr int kSliceWords = kSliceSteps * kLanesInGroup;   // words of a column
constexpr int kSliceBytes = kSliceSteps * kStepBytes;      // of a column

// How one warp reads and multiplies. kRun is the number of words of a lane that lie side by side: 4, 2 or 1 for groups
// of a multiple of 128, 64 or 32. kTiles is the number of 8-row tiles, and of 16-column tiles of a warp.
template <typename Scale, int kRun, int kTiles>
struct Streaming {
  static_assert(kRun == 1 || kRun == 2 || kRun == 4, "a lane's copies have 4, 8 or 16 bytes");
  static_assert(kTiles == 1 || kTiles == 2, "the rows fill one or two tiles of eight");

  static constexpr int kUnits = kSliceSteps / kRun;           // of a slice, each within one group
  static constexpr int kParts = 2 * kTiles;                   // a lane's columns: g and g + 8 of each tile
  static constexpr int kRows = kTiles * kTileRows;            // of a block
  static constexpr int kWarpColumns = kTiles * kTileColumns;  // of a warp
  static constexpr int kColumns = kWarps * kWarpColumns;      // of a block
  static constexpr int kStepDepth = kSliceDepth;              // what a share counts in
  static constexpr int kChunkSlices = kWarps / kTiles;        // a warp sums the inputs of one, for one tile of rows
  static constexpr int kChunkUnits = kChunkSlices * kUnits;
  static constexpr int kRing = kTiles == 1   ? 6
                               : kUnits == 4 ? 3
                                             : 4;  // the scales of short groups take a slice's place
  static constexpr int kBlocksPerMultiprocessor = 2;
  static constexpr int kBytesInFlight =
      kBlocksPerMultiprocessor * kWarps * (kRing - 1) * kWarpColumns * kSliceDepth / 2;

  static_assert(kBytesInFlight >= 48 << 10, "twice a multiprocessor's share of 4.3 TB/s times 700 ns");

  using Problem = RowwiseProblem<Scale>;

  // The words of a lane that lie side by side.
  struct alignas(4 * kRun) Run {
    uint32_t word[kRun];
  };

  struct ScaleAndZero {
    Scale scale;
    Scale zero_point;
  };

  // What a group's sums are multiplied by. The weights are fed as 136 + q, which saves a subtraction for each pair:
  // scale * sum(q x) + zero_point * sum(x) is scale * sum((136 + q) x) + (zero_point - 136 scale) * sum(x).
  struct Factors {
    float of_weights;
    float of_inputs;
  };

  struct Loaded {
    Run ring[kWarps][kRing][kUnits][kParts][kLanes];
    Words4 input[kTiles][kChunkSlices * kSliceSteps][kLanes];  // as the lanes read them
    Factors factors[kChunkUnits][kColumns];
    float input_sum[kChunkUnits][kRows];
  };

  // What is multiplied, and later the sums.
  union Shared {
    Loaded loaded;
    Partial<kRows, kColumns> partial;
  };

  static_assert(sizeof(Shared) <= 99 << 10, "what a block gets on every GPU with clusters; two fit the larger ones");

  // Where a lane's words of the next slice to be copied are, in each of its columns.
  struct Columns {
    const int8_t* weight[kParts];
  };

  struct Warp {
    PerLane<Columns> columns;
    int place;                                 // of the oldest slice in the ring
    PerLane<Accumulator> sum[kTiles][kTiles];  // of columns, of rows
  };

  // What one thread brings of a chunk.
  struct Staging {
    static constexpr int kInputs = kRows * kChunkSlices * kSliceWords / kThreads;
    static constexpr int kGrids = kChunkUnits * kColumns / kThreads;
    Words4 input[kInputs];
    ScaleAndZero grid[kGrids];
  };

  const Problem& problem;
  const Share& share;  // its steps are slices
  const Divisor units_in_group;
  Shared& shared;

  // Finds a warp's columns; those past the last one repeat it, and their sums are not stored.
  AO_DEVICE void find_columns(Warp& warp, int index) const {
    const int first = share.first_column + index * kWarpColumns, last = static_cast<int>(problem.columns) - 1;
    for (const int lane : lanes()) {
      AO_UNROLL
      for (int part = 0; part < kParts; ++part) {
        const int wanted = first + part * kGroupsOfLanes + lane / kLanesInGroup, column = wanted < last ? wanted : last;
        const int first_byte = share.first_step * kSliceBytes + lane % kLanesInGroup * kRun * kWordValues / 2;
        const int64_t row_bytes = static_cast<uint32_t>(problem.depth) / 2;
        warp.columns[lane].weight[part] = problem.weight + column * row_bytes + first_byte;
      }
    }
  }

  AO_DEVICE bool is_within_depth(int step) const { return step * kLaneStepWidth < static_cast<int>(problem.depth); }

  // Starts the copies of the next slice to a place of the ring, as far as the share and K go; without one the group of
  // copies is empty.
  AO_DEVICE void copy(Warp& warp, int index, int place, int slice) const {
    AO_UNROLL
    for (int unit = 0; unit < kUnits; ++unit) {
      if (slice < share.last_step && (kUnits == 1 || is_within_depth(slice * kSliceSteps + unit * kRun))) {
        for (const int lane : lanes()) {
          AO_UNROLL
          for (int part = 0; part < kParts; ++part) {
            Run& to = shared.loaded.ring[index][place][unit][part][lane];
            copy_async(&to, warp.columns[lane].weight[part] + unit * kRun * kStepBytes);
          }
        }
      }
    }
    for (const int lane : lanes()) {
      AO_UNROLL
      for (int part = 0; part < kParts; ++part) {
        warp.columns[lane].weight[part] += kSliceBytes;
      }
    }
    commit_copies();
  }

  // Starts the copies of the first slice.
  AO_DEVICE void start(Warp& warp, int index) const {
    find_columns(warp, index);
    copy(warp, index, 0, share.first_step);
    warp.place = 0;
    AO_UNROLL
    for (int tile = 0; tile < kTiles * kTiles; ++tile) {
      for (const int lane : lanes()) {
        warp.sum[tile / kTiles][tile % kTiles][lane] = {};
      }
    }
  }

  // Fills the rest of the ring.
  AO_DEVICE void fill(Warp& warp, int index) const {
    AO_UNROLL
    for (int place = 1; place < kRing; ++place) {
      copy(warp, index, place, share.first_step + place);
    }
  }

  // Where a thread's part of a chunk is: the same slice, step and lane's word t of several rows, so that a quarter of a
  // warp stores 128 bytes side by side, and one column of several units.
  struct Place {
    int slice;
    int step;
    int t;
    int first_row;
    int column;
    int first_unit;
    static constexpr int kRowsApart = 2 * kThreads / kLanes / kChunkSlices;
    static constexpr int kUnitsApart = kThreads / kColumns;
  };

  static AO_DEVICE Place place_of(int thread) {
    const int t = thread % kLanesInGroup, step = thread / (2 * kLanesInGroup) % kSliceSteps;
    const int slice = thread / kLanes % kChunkSlices;
    const int row = thread / kLanes / kChunkSlices * 2 + thread / kLanesInGroup % 2;
    return {slice, step, t, row, thread % kColumns, thread / kColumns};
  }

  // Starts the loads of a thread's activations, all at once, as far as the share and K go.
  AO_DEVICE void fetch_input(Staging& staging, int first_slice, int thread) const {
    const Place place = place_of(thread);
    const int word = place.step / kRun * kRun * kLanesInGroup + place.t * kRun + place.step % kRun;
    const int slice = first_slice + place.slice, k = slice * kSliceDepth + word * kWordValues;
    const int rows = slice < share.last_step && k < problem.depth ? static_cast<int>(problem.rows) : 0;
    const BFloat16* input = problem.input + place.first_row * problem.depth + k;
    AO_UNROLL
    for (int part = 0; part < Staging::kInputs; ++part) {
      const int row = part * Place::kRowsApart;
      staging.input[part] = load_input_if(place.first_row + row < rows, input + row * problem.depth);
    }
  }

  // Starts the loads of a thread's scales and zero points.
  AO_DEVICE void fetch_grids(Staging& staging, int first_slice, int thread) const {
    const Place place = place_of(thread);
    const int last_unit = (share.last_step - first_slice) * kUnits, column = share.first_column + place.column;
    AO_UNROLL
    for (int part = 0; part < Staging::kGrids; ++part) {
      const int unit = part * Place::kUnitsApart + place.first_unit, step = first_slice * kSliceSteps + unit * kRun;
      const bool is_there = column < problem.columns && unit < last_unit && is_within_depth(step);
      const int64_t at = static_cast<int64_t>(units_in_group.divide(step)) * problem.columns + column;
      staging.grid[part] = is_there ? ScaleAndZero{problem.scale[at], problem.zero_point[at]} : ScaleAndZero{};
    }
  }

  // Puts them into shared memory. Rows past the last one hold anything: a row of the activations reaches no other row
  // of the sums.
  AO_DEVICE void put(const Staging& staging, int thread) const {
    const Place place = place_of(thread);
    AO_UNROLL
    for (int part = 0; part < Staging::kInputs; ++part) {
      const int row = part * Place::kRowsApart + place.first_row, lane = row % kTileRows * kLanesInGroup + place.t;
      shared.loaded.input[row / kTileRows][place.slice * kSliceSteps + place.step][lane] =
          interleave(staging.input[part]);
    }
    AO_UNROLL
    for (int part = 0; part < Staging::kGrids; ++part) {
      const float scale = to_float(staging.grid[part].scale), zero_point = to_float(staging.grid[part].zero_point);
      shared.loaded.factors[part * Place::kUnitsApart + place.first_unit][place.column] = {
          scale, fmaf(-kBiasValue, scale, zero_point)};
    }
  }

  // Reads what the lanes feed for 32 values along K of eight rows, in two halves.
  AO_DEVICE void read_input(int rows, int staged_step, PerLane<InputFragment> (&input)[kHalves]) const {
    for (const int lane : lanes()) {
      const Words4 words = load_shared(shared.loaded.input[rows][staged_step][lane]);
      input[0][lane] = half_of(words, 0);
      input[1][lane] = half_of(words, 1);
    }
  }

  // Adds up the activations of one slice for one tile of rows, by a product with ones: every column has the same sums.
  AO_DEVICE void sum_inputs(int index) const {
    const int slice = index % kChunkSlices, rows = index / kChunkSlices;
    PerLane<WeightFragment> ones;
    for (const int lane : lanes()) {
      ones[lane] = {{kOnes, kOnes, kOnes, kOnes}};
    }
    AO_UNROLL
    for (int unit = 0; unit < kUnits; ++unit) {
      PerLane<Accumulator> sum = {};
      AO_UNROLL
      for (int step = 0; step < kRun; ++step) {
        PerLane<InputFragment> input[kHalves];
        read_input(rows, slice * kSliceSteps + unit * kRun + step, input);
        multiply_add(sum, ones, input[0]);
        multiply_add(sum, ones, input[1]);
      }
      for (const int lane : lanes()) {
        if (lane < kLanesInGroup) {
          float* sums = &shared.loaded.input_sum[slice * kUnits + unit][rows * kTileRows + 2 * lane];
          sums[0] = sum[lane].value[0];
          sums[1] = sum[lane].value[1];
        }
      }
    }
  }

  // Multiplies one step of a unit: 32 values along K.
  AO_DEVICE void multiply_step(const PerLane<Run> (&run)[kParts], int step, int staged_step,
                               PerLane<Accumulator> (&product)[kTiles][kTiles]) const {
    PerLane<InputFragment> input[kTiles][kHalves];
    AO_UNROLL
    for (int rows = 0; rows < kTiles; ++rows) {
      read_input(rows, staged_step, input[rows]);
    }
    AO_UNROLL
    for (int at = 0; at < kTiles * kHalves; ++at) {
      const int columns = at / kHalves, half = at % kHalves;
      PerLane<WeightFragment> weight;
      for (const int lane : lanes()) {
        weight[lane] = biased(run[2 * columns][lane].word[step], run[2 * columns + 1][lane].word[step], half);
      }
      AO_UNROLL
      for (int rows = 0; rows < kTiles; ++rows) {
        multiply_add(product[columns][rows], weight, input[rows][half]);
      }
    }
  }

  // Adds a group's sums, each times its factor.
  AO_DEVICE void scale_unit(Warp& warp, int index, int staged_unit,
                            const PerLane<Accumulator> (&product)[kTiles][kTiles]) const {
    for (const int lane : lanes()) {
      const Factors* factors = &shared.loaded.factors[staged_unit][index * kWarpColumns + lane / kLanesInGroup];
      const float* input_sums = &shared.loaded.input_sum[staged_unit][2 * (lane % kLanesInGroup)];
      AO_UNROLL
      for (int at = 0; at < kTiles * kTiles * 4; ++at) {
        const int columns = at / 4 / kTiles, rows = at / 4 % kTiles, i = at % 4;
        const Factors factor = factors[(2 * columns + i / 2) * kGroupsOfLanes];
        float& sum = warp.sum[columns][rows][lane].value[i];
        sum = fmaf(factor.of_weights, product[columns][rows][lane].value[i], sum);
        sum = fmaf(factor.of_inputs, input_sums[rows * kTileRows + i % 2], sum);
      }
    }
  }

  // Multiplies the ring's oldest slice, whose activations are the chunk's at slice `staged`.
  AO_DEVICE void multiply(Warp& warp, int index, int slice, int staged) const {
    AO_UNROLL
    for (int unit = 0; unit < kUnits; ++unit) {
      if (kUnits > 1 && !is_within_depth(slice * kSliceSteps + unit * kRun)) {
        return;
      }
      PerLane<Run> run[kParts];
      AO_UNROLL
      for (int part = 0; part < kParts; ++part) {
        for (const int lane : lanes()) {
          run[part][lane] = shared.loaded.ring[index][warp.place][unit][part][lane];
        }
      }
      PerLane<Accumulator> product[kTiles][kTiles] = {};
      AO_UNROLL
      for (int step = 0; step < kRun; ++step) {
        multiply_step(run, step, staged * kSliceSteps + unit * kRun + step, product);
      }
      scale_unit(warp, index, staged * kUnits + unit, product);
    }
  }

  // Multiplies a chunk; each place of the ring is filled again as soon as it was used.
  AO_DEVICE void multiply_chunk(Warp& warp, int index, int first_slice) const {
    AO_NO_UNROLL
    for (int staged = 0; staged < kChunkSlices && first_slice + staged < share.last_step; ++staged) {
      wait_for_copies<kRing - 1>();
      multiply(warp, index, first_slice + staged, staged);
      copy(warp, index, warp.place, first_slice + staged + kRing);
      warp.place = warp.place == kRing - 1 ? 0 : warp.place + 1;
    }
  }

  // Puts a warp's sums where what it multiplied was.
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

// What is needed first is asked for first: a slice, the chunk, the rest of the ring.
template <typename Scale, int kRun, int kTiles>
AO_DEVICE void run(const Streaming<Scale, kRun, kTiles>& body, typename Streaming<Scale, kRun, kTiles>::Warp& warp,
                   int index) {
  using Body = Streaming<Scale, kRun, kTiles>;
  typename Body::Staging staging;
  body.start(warp, index);
  body.fetch_input(staging, body.share.first_step, threadIdx.x);
  body.fetch_grids(staging, body.share.first_step, threadIdx.x);
  __syncwarp();  // or the compiler would put the loads of the chunk behind all copies
  body.fill(warp, index);
  AO_NO_UNROLL
  for (int first = body.share.first_step; first < body.share.last_step; first += Body::kChunkSlices) {
    body.put(staging, threadIdx.x);
    __syncthreads();
    body.fetch_grids(staging, first + Body::kChunkSlices, threadIdx.x);
    body.sum_inputs(index);
    __syncthreads();
    body.multiply_chunk(warp, index, first);
    body.fetch_input(staging, first + Body::kChunkSlices, threadIdx.x);
    __syncthreads();
  }
}

#endif

}  // namespace ao_kernels
