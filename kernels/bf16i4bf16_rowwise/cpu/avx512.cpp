// The body for CPUs with AVX-512 (F, BW, DQ and VL) but without its instructions for bfloat16.

#include "avx512.h"

namespace {

struct Avx512 : Avx512Vectors {
  static constexpr int kFewRows = 2;

  // Sixteen float32 of even k, and sixteen of odd k.
  struct Weights {
    __m512 even;
    __m512 odd;
  };
  using Activations = Weights;

  // An index of this lookup has four bits, so what lies above them need not be cleared.
  template <Format kFormat>
  static Weights decode(const int8_t* packed) {
    if constexpr (values_per_byte(kFormat) == 1) {
      return split(widen_bytes<kFormat>(packed));
    }
    const __m512 values = _mm512_loadu_ps(kValues);
    const __m512i bytes = load_bytes<kFormat>(packed);
    return {_mm512_permutexvar_ps(bytes, values), _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), values)};
  }

  static Activations load(const uint16_t* input) { return split(_mm512_loadu_si512(input)); }

  // A pair of bfloat16 is a word: the even one's bits move up, the odd one's are there already.
  static Activations split(__m512i words) {
    const __m512i odd = _mm512_and_si512(words, _mm512_set1_epi32(static_cast<int>(0xFFFF0000)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(words, 16)), _mm512_castsi512_ps(odd)};
  }

  static Sum multiply_add(Sum sum, const Weights& weights, const Activations& activations) {
    sum = _mm512_fmadd_ps(weights.even, activations.even, sum);
    return _mm512_fmadd_ps(weights.odd, activations.odd, sum);
  }
};

}  // namespace

namespace ao_kernels {

const CpuBody kAvx512Body = make_body<Avx512>("AVX-512", 2, kAnyRows);

}  // namespace ao_kernels
