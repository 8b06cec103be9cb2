// The body for every CPU: loops that a compiler turns into whatever vectors it knows.

#include "rowwise.h"

namespace {

struct Plain {
  static constexpr int64_t kStep = 32;
  static constexpr int kFewRows = 1;
  static constexpr int few_columns(int) { return 1; }
  static constexpr int kRows = 1;
  static constexpr int kColumns = 1;

  struct Sum {
    float lanes[kStep];
  };
  using Weights = Sum;
  using Activations = Sum;

  template <Format kFormat>
  static Weights decode(const int8_t* packed) {
    if constexpr (values_per_byte(kFormat) == 1) {
      uint16_t values[kStep];
      widen<kFormat>(packed, values);
      return load(values);
    }
    Weights weights;
    for (int byte = 0; byte < kStep / 2; ++byte) {
      const int8_t both = static_cast<int8_t>(packed[byte] ^ kFlip<kFormat>);
      weights.lanes[byte] = static_cast<float>(((both & 0xF) ^ 8) - 8);
      weights.lanes[kStep / 2 + byte] = static_cast<float>(both >> 4);
    }
    return weights;
  }

  // In the order of the weights: those of even k, then those of odd k.
  static Activations load(const uint16_t* input) {
    Activations activations;
    for (int pair = 0; pair < kStep / 2; ++pair) {
      activations.lanes[pair] = to_float(input[2 * pair]);
      activations.lanes[kStep / 2 + pair] = to_float(input[2 * pair + 1]);
    }
    return activations;
  }

  static Sum multiply_add(Sum sum, const Weights& weights, const Activations& activations) {
    for (int lane = 0; lane < kStep; ++lane) {
      sum.lanes[lane] += weights.lanes[lane] * activations.lanes[lane];
    }
    return sum;
  }

  static Sum scaled_add(Sum total, float scale, const Sum& sum) {
    for (int lane = 0; lane < kStep; ++lane) {
      total.lanes[lane] += scale * sum.lanes[lane];
    }
    return total;
  }

  static float add_up(const Sum& sum) {
    float total = 0;
    for (const float lane : sum.lanes) {
      total += lane;
    }
    return total;
  }

  template <Format kFormat>
  static void widen(const int8_t* stored, uint16_t* values) {
    for (int k = 0; k < kStep; ++k) {
      values[k] = kFormat == Format::kInt8 ? to_bfloat16(stored[k]) : widen_float8(stored[k]);
    }
  }

  template <Format kFormat>
  static void dequantize(const int8_t* packed, int64_t count, float scale, float zero_point, uint16_t* weight) {
    uint16_t table[16];
    for (int nibble = 0; nibble < 16; ++nibble) {
      table[nibble] = dequantize_one(nibble, scale, zero_point);
    }
    for (int64_t k = 0; k < count; k += 2, ++packed) {
      const int both = *packed ^ kFlip<kFormat>;
      weight[k] = table[both & 0xF];
      weight[k + 1] = table[(both >> 4) & 0xF];
    }
  }
};

}  // namespace

namespace ao_kernels {

const CpuBody kPlainBody = make_body<Plain>("plain C++", 1, 1);

}  // namespace ao_kernels
