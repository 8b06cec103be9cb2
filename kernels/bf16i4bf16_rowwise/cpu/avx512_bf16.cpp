// The body for CPUs with AVX-512 and its instructions for bfloat16: pairs of products are added in one.

#include "avx512.h"

namespace {

struct Avx512Bfloat16 : Avx512Vectors {
  static constexpr int kFewRows = 3;

  using Weights = __m512bh;
  using Activations = __m512bh;

  // The bfloat16 of each four-bit pattern, in which every q is exact.
  static constexpr uint16_t kPatterns[16] = {0x0000, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0, 0x40C0, 0x40E0,
                                             0xC100, 0xC0E0, 0xC0C0, 0xC0A0, 0xC080, 0xC040, 0xC000, 0xBF80};

  template <Format kFormat>
  static Weights decode(const int8_t* packed) {
    if constexpr (values_per_byte(kFormat) == 1) {
      return reinterpret_cast<Weights>(widen_bytes<kFormat>(packed));
    }
    const __m256i patterns = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kPatterns));
    return reinterpret_cast<Weights>(look_up<kFormat>(_mm512_broadcast_i64x4(patterns), packed));
  }

  static Activations load(const uint16_t* input) { return reinterpret_cast<Activations>(_mm512_loadu_si512(input)); }

  static Sum multiply_add(Sum sum, Weights weights, Activations activations) {
    return _mm512_dpbf16_ps(sum, weights, activations);
  }
};

}  // namespace

namespace ao_kernels {

const CpuBody kAvx512Bfloat16Body = make_body<Avx512Bfloat16>("AVX-512 BF16", 3, kAnyRows);

// Where torch's matrix product has AMX, its tiles win earlier: on a Xeon, 2026-11-28, 33 rows handed over took 0.98
// times as long as 16 rows by panels, and what dequantizing costs is the same for any number of them.
const CpuBody kAmxBody = make_body<Avx512Bfloat16>("AVX-512 BF16 and AMX", 3, 15);

}  // namespace ao_kernels
