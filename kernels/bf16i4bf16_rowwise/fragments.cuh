// What a lane holds for the tensor cores: the decoded weight, the activations in the order that fits it, one product.
//
// The picture, for mma.m16n8k16. Lane 4 g + t holds, of the weight's rows (our columns) g and g + 8, the words whose
// eight int4 values are at k .. k + 7. A shift by 4 i and a mask give the pair (q[k + i], q[k + i + 4]); two such pairs
// of a row are what the lane must hold of 16 values along K. The instruction adds over all 16, so their order does not
// matter as long as the activations come in the same one: per eight k, [0, 4, 1, 5, 2, 6, 3, 7].

#pragma once

#include "bf16i4bf16_rowwise.cuh"

#ifdef __CUDACC__
#define AO_DEVICE __device__ __forceinline__
#else
#define AO_DEVICE inline
#endif

// Loops over a tile's parts keep their values in registers, so they must be unrolled; where that would need more
// registers than there are, they must not.
#ifdef __CUDACC__
#define AO_UNROLL _Pragma("unroll")
#define AO_NO_UNROLL _Pragma("unroll 1")
#else
#define AO_UNROLL
#define AO_NO_UNROLL
#endif

namespace ao_kernels {

constexpr int kLanes = 32;           // a warp's threads
constexpr int kWordValues = 8;       // int4 values in 32 bits
constexpr int kTileColumns = 16;     // M of mma.m16n8k16: columns of the product, rows of the weight
constexpr int kTileRows = 8;         // N of mma.m16n8k16: rows of the product
constexpr int kHalves = 2;           // a word's eight values feed two mma, four lanes' words 2 x 16 values along K
constexpr int kGroupsOfLanes = 8;    // the g of a lane
constexpr int kLanesInGroup = 4;     // the t of a lane
constexpr uint32_t kAllLanes = ~0u;  // every lane takes part in an exchange
constexpr int kLaneStepWidth = 32;   // values along K of four lanes' words
constexpr int kStepBytes = 16;       // of one column: four lanes' words

static_assert(kUnit == kLaneStepWidth, "four lanes' words are the smallest group");

// Values that 32 bits of a register hold, in fours: what one 128-bit load brings.
struct alignas(16) Words4 {
  uint32_t word[4];
};

// One lane's part of a 16 x 8 product: columns g and g + 8 (values 0, 1 and 2, 3), rows 2 t and 2 t + 1.
struct Accumulator {
  float value[4];
};

// The 16 x 16 operand: pairs of column g, of g + 8, then the second pairs of both.
struct WeightFragment {
  uint32_t pair[4];
};

// The 16 x 8 operand: two pairs of row g.
struct InputFragment {
  uint32_t pair[2];
};

// A value for each lane of a warp: a register on a GPU, an array on a host.
#ifdef __CUDACC__
template <typename T>
struct PerLane {
  T own;
  AO_DEVICE T& operator[](int) { return own; }
  AO_DEVICE const T& operator[](int) const { return own; }
};
#else
template <typename T>
struct PerLane {
  T all[kLanes];
  T& operator[](int lane) { return all[lane]; }
  const T& operator[](int lane) const { return all[lane]; }
};
#endif

// The lanes to loop over: this thread's own on a GPU, all of them on a host.
struct Lanes {
  struct Iterator {
    int lane;
    AO_DEVICE int operator*() const { return lane; }
    AO_DEVICE void operator++() { ++lane; }
    AO_DEVICE bool operator!=(const Iterator& other) const { return lane != other.lane; }
  };
  int first;
  int last;
  AO_DEVICE Iterator begin() const { return {first}; }
  AO_DEVICE Iterator end() const { return {last}; }
};

AO_DEVICE Lanes lanes() {
#ifdef __CUDACC__
  const int own = threadIdx.x % kLanes;
  return {own, own + 1};
#else
  return {0, kLanes};
#endif
}

// Two bfloat16 in a register, the first in the low half.
AO_DEVICE uint32_t as_pair(BFloat16 low, BFloat16 high) {
  return low.bits | static_cast<uint32_t>(high.bits) << 16;
}

AO_DEVICE float low_of(uint32_t pair) {
  return to_float(BFloat16{static_cast<uint16_t>(pair)});
}

AO_DEVICE float high_of(uint32_t pair) {
  return to_float(BFloat16{static_cast<uint16_t>(pair >> 16)});
}

// Rounds two float32 to a pair.
AO_DEVICE uint32_t round_to_pair(float low, float high) {
#ifdef __CUDACC__
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return as_pair(to_bfloat16(low), to_bfloat16(high));
#endif
}

// Subtracts two pairs.
AO_DEVICE uint32_t subtract_pairs(uint32_t left, uint32_t right) {
#ifdef __CUDACC__
  uint32_t pair;
  asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(pair) : "r"(left), "r"(right));
  return pair;
#else
  return round_to_pair(low_of(left) - low_of(right), high_of(left) - high_of(right));
#endif
}

// left * right + added, for two pairs, rounded once.
AO_DEVICE uint32_t multiply_add_pairs(uint32_t left, uint32_t right, uint32_t added) {
#ifdef __CUDACC__
  uint32_t pair;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(pair) : "r"(left), "r"(right), "r"(added));
  return pair;
#else
  return round_to_pair(fmaf(low_of(left), low_of(right), low_of(added)),
                       fmaf(high_of(left), high_of(right), high_of(added)));
#endif
}

constexpr uint32_t kNibbles = 0x000F000F;  // one int4 in the low bits of each half
constexpr uint32_t kBiased = 0x43084308;   // xor makes the bfloat16 128 + (q + 8): 0x4300 is 128, and its last place 1
constexpr uint32_t kBias = 0x43084308;     // the pair (136, 136)
constexpr float kBiasValue = 136;
constexpr uint32_t kOnes = 0x3F803F80;  // the pair (1, 1)

// (word & mask) ^ flipped, in one instruction: the compiler would take two, each with a constant in it.
AO_DEVICE uint32_t mask_and_flip(uint32_t word, uint32_t mask, uint32_t flipped) {
#ifdef __CUDACC__
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0x6A;" : "=r"(result) : "r"(word), "r"(mask), "r"(flipped));  // (F0 & CC) ^ AA
  return result;
#else
  return (word & mask) ^ flipped;
#endif
}

// The pair (136 + q[i], 136 + q[i + 4]) of a word's eight values, exact.
AO_DEVICE uint32_t biased_pair(uint32_t word, int i) {
  return mask_and_flip(word >> (4 * i), kNibbles, kBiased);
}

// The pair (q[i], q[i + 4]), exact.
AO_DEVICE uint32_t decode_pair(uint32_t word, int i) {
  return subtract_pairs(biased_pair(word, i), kBias);
}

// What a lane feeds for columns g and g + 8, each value 136 too large: the half's two pairs of each one's word.
AO_DEVICE WeightFragment biased(uint32_t word, uint32_t word_below, int half) {
  const int i = 2 * half;
  return {{biased_pair(word, i), biased_pair(word_below, i), biased_pair(word, i + 1), biased_pair(word_below, i + 1)}};
}

// The same, each value as it is.
AO_DEVICE WeightFragment decode(uint32_t word, uint32_t word_below, int half) {
  const int i = 2 * half;
  return {{decode_pair(word, i), decode_pair(word_below, i), decode_pair(word, i + 1), decode_pair(word_below, i + 1)}};
}

// The low halves of two registers as a pair, and the high ones.
AO_DEVICE uint32_t low_halves(uint32_t first, uint32_t second) {
#ifdef __CUDACC__
  return __byte_perm(first, second, 0x5410);
#else
  return (first & 0xFFFF) | second << 16;
#endif
}

AO_DEVICE uint32_t high_halves(uint32_t first, uint32_t second) {
#ifdef __CUDACC__
  return __byte_perm(first, second, 0x7632);
#else
  return first >> 16 | (second & 0xFFFF0000);
#endif
}

// Eight activations from the order of K into that of the pairs: [0, 4, 1, 5, 2, 6, 3, 7].
AO_DEVICE Words4 interleave(const Words4& x) {
  return {{low_halves(x.word[0], x.word[2]), high_halves(x.word[0], x.word[2]), low_halves(x.word[1], x.word[3]),
           high_halves(x.word[1], x.word[3])}};
}

AO_DEVICE InputFragment half_of(const Words4& interleaved, int half) {
  return {{interleaved.word[2 * half], interleaved.word[2 * half + 1]}};
}

// sum += weight * input, for a warp's 16 x 8 sums over 16 values along K.
AO_DEVICE void multiply_add(PerLane<Accumulator>& sum, const PerLane<WeightFragment>& weight,
                            const PerLane<InputFragment>& input) {
#ifdef __CUDACC__
  float (&c)[4] = sum.own.value;
  const uint32_t (&a)[4] = weight.own.pair;
  const uint32_t (&b)[2] = input.own.pair;
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  // Where PTX places what a lane holds: a pair at k = 2 t, or 8 further for the second pair of a row.
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int column = lane / kLanesInGroup + kGroupsOfLanes * (i / 2);
      const int row = 2 * (lane % kLanesInGroup) + i % 2;
      for (int t = 0; t < kLanesInGroup; ++t) {
        const WeightFragment& a = weight[column % kGroupsOfLanes * kLanesInGroup + t];
        const InputFragment& b = input[row * kLanesInGroup + t];
        for (int second = 0; second < 2; ++second) {
          const uint32_t left = a.pair[2 * second + column / kGroupsOfLanes], right = b.pair[second];
          sum[lane].value[i] += low_of(left) * low_of(right) + high_of(left) * high_of(right);
        }
      }
    }
  }
#endif
}

// Loads eight bfloat16 in one instruction, or gives zeros: without a branch, so that many loads are under way at once.
AO_DEVICE Words4 load_input_if(bool is_there, const BFloat16* at) {
  Words4 words = {};
#ifdef __CUDACC__
  asm volatile(
      "{\n.reg .pred is_there;\nsetp.ne.s32 is_there, %5, 0;\n"
      "@is_there ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
      : "+r"(words.word[0]), "+r"(words.word[1]), "+r"(words.word[2]), "+r"(words.word[3])
      : "l"(at), "r"(static_cast<int>(is_there)));
#else
  if (is_there) {
    memcpy(&words, at, sizeof(words));
  }
#endif
  return words;
}

// Loads a scale, or gives zero, without a branch too.
AO_DEVICE float load_if(bool is_there, const float* at) {
  float value = 0;
#ifdef __CUDACC__
  asm volatile("{\n.reg .pred is_there;\nsetp.ne.s32 is_there, %2, 0;\n@is_there ld.global.f32 %0, [%1];\n}"
               : "+f"(value)
               : "l"(at), "r"(static_cast<int>(is_there)));
#else
  value = is_there ? *at : value;
#endif
  return value;
}

AO_DEVICE BFloat16 load_if(bool is_there, const BFloat16* at) {
  BFloat16 value = {};
#ifdef __CUDACC__
  asm volatile("{\n.reg .pred is_there;\nsetp.ne.s32 is_there, %2, 0;\n@is_there ld.global.u16 %0, [%1];\n}"
               : "+h"(value.bits)
               : "l"(at), "r"(static_cast<int>(is_there)));
#else
  value = is_there ? *at : value;
#endif
  return value;
}

// Loads 16 bytes from shared memory in one instruction; a barrier before it tells that they are there.
AO_DEVICE Words4 load_shared(const Words4& at) {
#ifdef __CUDACC__
  Words4 words;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.word[0]), "=r"(words.word[1]), "=r"(words.word[2]), "=r"(words.word[3])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(&at))));
  return words;
#else
  return at;
#endif
}

// Starts a copy of 4, 8 or 16 bytes into shared memory, past the registers, and 16 past the L1 cache too: of fewer, the
// neighbours in the same 32 bytes follow. The L2 cache fetches the 128 bytes around them: the next copies want them.
template <typename T>
AO_DEVICE void copy_async(T* to, const void* from) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "what one instruction copies");
#ifdef __CUDACC__
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  if constexpr (sizeof(T) == 16) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(sizeof(T))
                 : "memory");
  }
#else
  memcpy(to, from, sizeof(*to));
#endif
}

// Closes the group of copies that this thread has started.
AO_DEVICE void commit_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until all but the youngest kPending groups of this thread's copies are there.
template <int kPending>
AO_DEVICE void wait_for_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

// What a lane of the warp holds.
AO_DEVICE float value_of_lane(const PerLane<float>& value, int lane) {
#ifdef __CUDACC__
  return __shfl_sync(kAllLanes, value.own, lane);
#else
  return value[lane];
#endif
}

#ifdef __CUDACC__

// Fetches the bytes around an address into the L2 cache, where all that is written later arrives too.
AO_DEVICE void prefetch_to_l2(const void* at) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

// Waits until the kernel before this one on the stream has ended and what it stored can be read. Without it, this one,
// which may be started earlier, would read too soon.
AO_DEVICE void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel on the stream start where it asks for that: it waits for the end of this one by itself.
AO_DEVICE void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#endif

// Divides by a number that is known before the launch: exact while (value + 1) * divisor <= 2^32.
struct Divisor {
  uint32_t multiplier;

  AO_HOST_DEVICE int divide(int value) const {
    return static_cast<int>(static_cast<uint64_t>(static_cast<uint32_t>(value) + 1) * multiplier >> 32);
  }
};

AO_HOST_DEVICE inline Divisor divisor_of(int64_t number) {
  return {static_cast<uint32_t>(UINT32_MAX / number)};
}

// A product of one row and one column from the definition, for sums that left the range of float32 on the way: infinite
// activations give here what they give in torch's linear, where s * sum(q x) + z * sum(x) may give inf - inf.
template <typename Scale>
AO_HOST_DEVICE float sum_by_definition(const RowwiseProblem<Scale>& problem, int64_t row, int64_t column) {
  const int8_t* weight = problem.weight + column * (problem.depth / 2);
  const BFloat16* input = problem.input + row * problem.depth;
  float sum = 0;
  for (int64_t k = 0; k < problem.depth && sum == sum; ++k) {
    const int q = decode_int4(weight[k / 2] >> (4 * (k % 2)));
    sum = fmaf(dequantize(problem, column, k, q), to_float(input[k]), sum);
  }
  return sum;
}

}  // namespace ao_kernels
