// The kernels' bodies for tests that know no torch's binding: called through ctypes, and as a program of its own under
// AddressSanitizer, where every array has just the bytes that it must have.

#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "bodies.h"
#include "tiled.cuh"

using namespace ao_kernels;

namespace {

template <typename Scale>
void run(int body, const void* const* operands, void* output, const int64_t* shape, int multiprocessors) {
  const RowwiseProblem<Scale> problem{static_cast<const BFloat16*>(operands[0]),
                                      static_cast<const int8_t*>(operands[1]),
                                      static_cast<const Scale*>(operands[2]),
                                      static_cast<const Scale*>(operands[3]),
                                      static_cast<BFloat16*>(output),
                                      shape[0],
                                      shape[1],
                                      shape[2],
                                      shape[3]};
  if (body == static_cast<int>(Body::kSlabs)) {
    dequantize_on_host(problem, 0, problem.columns, problem.output);
  } else {
    run_on_host(static_cast<Body>(body), problem, multiprocessors);
  }
}

}  // namespace

// Operands are input, weight, scale and zero point; the shape is rows, columns, depth and group size.
extern "C" void multiply(int body, int is_bfloat16, const void* const* operands, void* output, const int64_t* shape,
                         int multiprocessors) {
  is_bfloat16 ? run<BFloat16>(body, operands, output, shape, multiprocessors)
              : run<float>(body, operands, output, shape, multiprocessors);
}

// The body that a call gets, for aligned arrays.
extern "C" int body_of(const int64_t* shape) {
  RowwiseProblem<float> problem{};
  problem.rows = shape[0], problem.columns = shape[1], problem.depth = shape[2], problem.group_size = shape[3];
  return static_cast<int>(choose_body(problem));
}

// The parts that K is split into, where clusters[n] clusters of n blocks run at once.
extern "C" int splits_of(const int64_t* shape, const int* clusters) {
  RowwiseProblem<BFloat16> problem{};
  problem.rows = shape[0], problem.columns = shape[1], problem.depth = shape[2], problem.group_size = shape[3];
  int splits = 0;
  const auto count = [&](auto chosen) {
    const auto clusters_at_once = [&](int blocks) { return clusters[blocks]; };
    splits = grid_of<typename decltype(chosen)::Chosen>(problem, clusters_at_once).splits;
  };
  choose_body(problem) == Body::kStreaming ? choose_streaming(problem, count) : choose_tiled(problem, count);
  return splits;
}

// The eight values of a word as the pairs of both halves hold them.
extern "C" void decode_word(uint32_t word, float* values) {
  for (int i = 0; i < kLanesInGroup; ++i) {
    values[i] = low_of(decode_pair(word, i));
    values[i + 4] = high_of(decode_pair(word, i));
  }
}

extern "C" int divide(int value, int64_t divisor) {
  return divisor_of(divisor).divide(value);
}

extern "C" int64_t columns_of_slab(int64_t rows, int64_t columns, int64_t depth) {
  return slab_columns(rows, columns, depth);
}

// Runs each body once on arrays of just the right size: BODY IS_BFLOAT16 ROWS COLUMNS DEPTH GROUP_SIZE, repeatedly.
int main(int count, char** words) {
  std::mt19937 random(0);
  for (int at = 1; at + 5 < count; at += 6) {
    int64_t number[6];
    for (int i = 0; i < 6; ++i) {
      number[i] = atoll(words[at + i]);
    }
    const int64_t rows = number[2], columns = number[3], depth = number[4], groups = depth / number[5];
    const int64_t scale_bytes = groups * columns * (number[1] ? 2 : 4);
    const int64_t sizes[4] = {rows * depth * 2, columns * depth / 2, scale_bytes, scale_bytes};
    std::vector<std::vector<uint8_t>> operands;
    const void* pointers[4];
    for (int i = 0; i < 4; ++i) {
      operands.emplace_back(sizes[i]);
      for (uint8_t& byte : operands[i]) {
        byte = static_cast<uint8_t>(random() % 64);  // no infinite number, whatever the type
      }
      pointers[i] = operands[i].data();
    }
    const bool is_slab = number[0] == static_cast<int>(Body::kSlabs);
    std::vector<uint8_t> output(2 * columns * (is_slab ? depth : rows));
    multiply(static_cast<int>(number[0]), static_cast<int>(number[1]), pointers, output.data(), number + 2, 132);
    printf("%lld x %lld x %lld\n", static_cast<long long>(rows), static_cast<long long>(columns),
           static_cast<long long>(depth));
  }
}
