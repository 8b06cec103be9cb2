// What both bodies for AVX-512 share: sums of sixteen float32, and weights looked up in a register.

#pragma once

#include <immintrin.h>

#include "rowwise.h"

namespace {

// Sixteen bytes as words of 32 bits.
template <Format kFormat>
inline __m512i load_bytes(const int8_t* packed) {
  const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(packed)));
  return kFlip<kFormat> == 0 ? bytes : _mm512_xor_si512(bytes, _mm512_set1_epi32(kFlip<kFormat>));
}

// 32 weights out of a table of sixteen, held twice: an index has five bits, and the fifth is one that does not matter.
// Each word of 32 bits looks up two, by its byte's lower and upper four bits.
template <Format kFormat>
inline __m512i look_up(__m512i table_twice, const int8_t* packed) {
  const __m512i bytes = load_bytes<kFormat>(packed);
  return _mm512_permutexvar_epi16(_mm512_or_si512(bytes, _mm512_slli_epi32(bytes, 12)), table_twice);
}

// 32 float8 as bfloat16: a lookup of two registers has six bits of index, of which the seventh chooses between two.
inline __m512i widen_float8(__m512i words) {
  const auto magnitudes = [](int first) { return _mm512_loadu_si512(kFloat8.bits + first); };
  const __m512i lower = _mm512_permutex2var_epi16(magnitudes(0), words, magnitudes(32));
  const __m512i upper = _mm512_permutex2var_epi16(magnitudes(64), words, magnitudes(96));
  const __mmask32 is_upper = _mm512_test_epi16_mask(words, _mm512_set1_epi16(0x40));
  const __m512i sign = _mm512_and_si512(words, _mm512_set1_epi16(static_cast<int16_t>(0x8000)));
  return _mm512_or_si512(_mm512_mask_mov_epi16(lower, is_upper, upper), sign);  // which widening has spread
}

// Sixteen int8 of even k, and sixteen of odd k, each in the upper half of a word of 32 bits as bfloat16.
struct Halves {
  __m512i even;
  __m512i odd;
};

inline Halves widen_int8(__m512i words) {
  const __m512 even = _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(words, 16), 16));
  return {_mm512_castps_si512(even), _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_srai_epi32(words, 16)))};
}

// 32 values of a byte each as bfloat16, in their order.
template <Format kFormat>
inline __m512i widen_bytes(const int8_t* stored) {
  const __m512i words = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(stored)));
  if constexpr (kFormat == Format::kFloat8) {
    return widen_float8(words);
  }
  const Halves halves = widen_int8(words);
  return _mm512_or_si512(_mm512_srli_epi32(halves.even, 16), halves.odd);
}

// The sixteen weights of a group, twice: rounded to the nearest bfloat16, ties to the even one; a NaN stays a NaN.
inline __m512i make_table(float scale, float zero_point) {
  const __m512 weights = _mm512_fmadd_ps(_mm512_loadu_ps(kValues), _mm512_set1_ps(scale), _mm512_set1_ps(zero_point));
  const __m512i bits = _mm512_castps_si512(weights);
  const __m512i is_odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(is_odd, _mm512_set1_epi32(0x7FFF)));
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x00400000));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(weights, weights, _CMP_UNORD_Q);
  const __m512i upper_halves = _mm512_srli_epi32(_mm512_mask_mov_epi32(rounded, is_nan, quiet), 16);
  return _mm512_broadcast_i64x4(_mm512_cvtepi32_epi16(upper_halves));
}

struct Avx512Vectors {
  static constexpr int64_t kStep = 32;
  static constexpr int few_columns(int) { return 4; }
  static constexpr int kRows = 6;
  static constexpr int kColumns = 4;

  using Sum = __m512;

  static Sum scaled_add(Sum total, float scale, Sum sum) { return _mm512_fmadd_ps(_mm512_set1_ps(scale), sum, total); }

  static float add_up(Sum sum) { return _mm512_reduce_add_ps(sum); }

  template <Format kFormat>
  static void widen(const int8_t* stored, uint16_t* values) {
    _mm512_storeu_si512(values, widen_bytes<kFormat>(stored));
  }

  template <Format kFormat>
  static void dequantize(const int8_t* packed, int64_t count, float scale, float zero_point, uint16_t* weight) {
    const __m512i table_twice = make_table(scale, zero_point);
    for (int64_t k = 0; k < count; k += kStep) {
      _mm512_storeu_si512(weight + k, look_up<kFormat>(table_twice, packed + k / 2));
    }
  }
};

}  // namespace
