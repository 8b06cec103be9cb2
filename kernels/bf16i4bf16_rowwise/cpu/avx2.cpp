// The body for CPUs with AVX2 and FMA.

#include <immintrin.h>

#include "rowwise.h"

namespace {

struct Avx2 {
  static constexpr int64_t kStep = 16;
  static constexpr int kFewRows = 4;
  // Of sixteen registers, four rows of two columns take eight for sums, four for weights and two for activations.
  static constexpr int few_columns(int rows) { return rows == 1 ? 4 : 2; }
  static constexpr int kRows = 4;
  static constexpr int kColumns = 2;

  using Sum = __m256;
  // Eight float32 of even k, and eight of odd k.
  struct Weights {
    __m256 even;
    __m256 odd;
  };
  using Activations = Weights;

  // Eight float8, each in the lower byte of a word of 32 bits. The eight that are not normal are multiples of 2^-9.
  static __m256 widen_float8(__m256i words) {
    const __m256i magnitude = _mm256_and_si256(words, _mm256_set1_epi32(0x7F));
    const __m256i sign = _mm256_slli_epi32(_mm256_and_si256(words, _mm256_set1_epi32(0x80)), 24);
    const __m256i normal = _mm256_add_epi32(_mm256_slli_epi32(magnitude, 20), _mm256_set1_epi32((127 - 7) << 23));
    const __m256 tiny = _mm256_mul_ps(_mm256_cvtepi32_ps(magnitude), _mm256_set1_ps(0x1p-9f));
    const __m256 is_normal = _mm256_castsi256_ps(_mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(7)));
    const __m256i is_nan = _mm256_cmpeq_epi32(magnitude, _mm256_set1_epi32(0x7F));
    const __m256i bits = _mm256_castps_si256(_mm256_blendv_ps(tiny, _mm256_castsi256_ps(normal), is_normal));
    const __m256i number = _mm256_blendv_epi8(bits, _mm256_set1_epi32(0x7FC00000), is_nan);
    return _mm256_castsi256_ps(_mm256_or_si256(number, sign));
  }

  // Sixteen values of a byte each, in pairs: the even one in the lower half of a word of 32 bits.
  template <Format kFormat>
  static Weights decode_bytes(const int8_t* stored) {
    const __m256i pairs = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(stored)));
    const __m256i odd = _mm256_srai_epi32(pairs, 16);
    if constexpr (kFormat == Format::kFloat8) {
      return {widen_float8(pairs), widen_float8(odd)};
    }
    return {_mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(pairs, 16), 16)), _mm256_cvtepi32_ps(odd)};
  }

  // The lower halves of such numbers are zero.
  template <Format kFormat>
  static void widen(const int8_t* stored, uint16_t* values) {
    const Weights weights = decode_bytes<kFormat>(stored);
    const __m256i even = _mm256_srli_epi32(_mm256_castps_si256(weights.even), 16);
    const __m256i pairs = _mm256_or_si256(even, _mm256_castps_si256(weights.odd));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(values), pairs);
  }

  // Eight bytes to eight words of 32 bits: the sign of the upper four bits is spread, that of the lower ones by shifts.
  template <Format kFormat>
  static Weights decode(const int8_t* packed) {
    if constexpr (values_per_byte(kFormat) == 1) {
      return decode_bytes<kFormat>(packed);
    }
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(packed));
    const __m256i words = _mm256_cvtepi8_epi32(_mm_xor_si128(bytes, _mm_set1_epi8(static_cast<char>(kFlip<kFormat>))));
    const __m256i even = _mm256_srai_epi32(_mm256_slli_epi32(words, 28), 28);
    return {_mm256_cvtepi32_ps(even), _mm256_cvtepi32_ps(_mm256_srai_epi32(words, 4))};
  }

  // A pair of bfloat16 is a word: the even one's bits move up, the odd one's are there already.
  static Activations load(const uint16_t* input) {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(input));
    const __m256i odd = _mm256_and_si256(words, _mm256_set1_epi32(static_cast<int>(0xFFFF0000)));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(words, 16)), _mm256_castsi256_ps(odd)};
  }

  static Sum multiply_add(Sum sum, const Weights& weights, const Activations& activations) {
    sum = _mm256_fmadd_ps(weights.even, activations.even, sum);
    return _mm256_fmadd_ps(weights.odd, activations.odd, sum);
  }

  static Sum scaled_add(Sum total, float scale, Sum sum) { return _mm256_fmadd_ps(_mm256_set1_ps(scale), sum, total); }

  static float add_up(Sum sum) {
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
  }

  // Eight float32 to the nearest bfloat16, ties to the even one, in the lower half of each word; a NaN stays a NaN.
  static __m256i round(__m256 values) {
    const __m256i bits = _mm256_castps_si256(values);
    const __m256i is_odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(is_odd, _mm256_set1_epi32(0x7FFF)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
    const __m256 is_nan = _mm256_cmp_ps(values, values, _CMP_UNORD_Q);
    return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(is_nan)), 16);
  }

  // The sixteen weights of a group, the lower bytes of all before the upper bytes of all.
  static __m256i make_table(float scale, float zero_point) {
    const __m256 scales = _mm256_set1_ps(scale);
    const __m256 zero_points = _mm256_set1_ps(zero_point);
    const __m256i low = round(_mm256_fmadd_ps(_mm256_loadu_ps(kValues), scales, zero_points));
    const __m256i high = round(_mm256_fmadd_ps(_mm256_loadu_ps(kValues + 8), scales, zero_points));
    const __m256i weights = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), _MM_SHUFFLE(3, 1, 2, 0));
    const __m128i apart = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    const __m256i bytes = _mm256_shuffle_epi8(weights, _mm256_broadcastsi128_si256(apart));
    return _mm256_permute4x64_epi64(bytes, _MM_SHUFFLE(3, 1, 2, 0));
  }

  template <Format kFormat>
  static void dequantize(const int8_t* packed, int64_t count, float scale, float zero_point, uint16_t* weight) {
    const __m256i table = make_table(scale, zero_point);
    const __m128i lower = _mm256_castsi256_si128(table);
    const __m128i upper = _mm256_extracti128_si256(table, 1);
    const __m128i mask = _mm_set1_epi8(0xF);
    for (int64_t k = 0; k < count; k += kGroupStep) {
      const __m128i stored = _mm_loadu_si128(reinterpret_cast<const __m128i*>(packed + k / 2));
      const __m128i both = _mm_xor_si128(stored, _mm_set1_epi8(static_cast<char>(kFlip<kFormat>)));
      const __m128i even = _mm_and_si128(both, mask);
      const __m128i odd = _mm_and_si128(_mm_srli_epi16(both, 4), mask);
      const __m128i low = _mm_unpacklo_epi8(_mm_shuffle_epi8(lower, even), _mm_shuffle_epi8(upper, even));
      const __m128i low_odd = _mm_unpacklo_epi8(_mm_shuffle_epi8(lower, odd), _mm_shuffle_epi8(upper, odd));
      const __m128i high = _mm_unpackhi_epi8(_mm_shuffle_epi8(lower, even), _mm_shuffle_epi8(upper, even));
      const __m128i high_odd = _mm_unpackhi_epi8(_mm_shuffle_epi8(lower, odd), _mm_shuffle_epi8(upper, odd));
      __m128i* to = reinterpret_cast<__m128i*>(weight + k);
      _mm_storeu_si128(to, _mm_unpacklo_epi16(low, low_odd));
      _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(low, low_odd));
      _mm_storeu_si128(to + 2, _mm_unpacklo_epi16(high, high_odd));
      _mm_storeu_si128(to + 3, _mm_unpackhi_epi16(high, high_odd));
    }
  }
};

}  // namespace

namespace ao_kernels {

const CpuBody kAvx2Body = make_body<Avx2>("AVX2", 4, kAnyRows);

}  // namespace ao_kernels
