// SPDX-License-Identifier: Apache-2.0
// AVX2 and FMA: two registers hold the 16 lanes.
#include <immintrin.h>

#include "sparse/elementwise.inl"
#include "sparse/exp_poly.h"
#include "sparse/kernels_isa.h"

#define LUMEN_INLINE_LAMBDA __attribute__((always_inline))
#define LUMEN_KERNEL_TABLE kAvx2Kernels
#define LUMEN_MORE_VECTORS(function, ...)

namespace lumen::sparse {
namespace {

constexpr Isa kIsa = Isa::kAvx2;
constexpr int64_t kRunVectors = 8;  // two registers each, two spilled
constexpr int64_t kChains = 4;
constexpr int kDenseRows = 3;  // 12 of 16 registers accumulate
constexpr int kDenseVectors = 2;

struct Vec {
  __m256 low;
  __m256 high;
};

inline Vec Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline Vec Load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
inline void Store(float* p, Vec v) {
  _mm256_storeu_ps(p, v.low);
  _mm256_storeu_ps(p + 8, v.high);
}
// The first n of 16 lanes; the others are not touched, and load as zero.
inline __m256i FirstLanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Vec LoadFirst(const float* p, int64_t n) {
  return {_mm256_maskload_ps(p, FirstLanes(n)),
          _mm256_maskload_ps(p + 8, FirstLanes(n - 8))};
}
inline void StoreFirst(float* p, Vec v, int64_t n) {
  _mm256_maskstore_ps(p, FirstLanes(n), v.low);
  _mm256_maskstore_ps(p + 8, FirstLanes(n - 8), v.high);
}
inline Vec Set1(float f) { return {_mm256_set1_ps(f), _mm256_set1_ps(f)}; }
inline Vec Fma(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low),
          _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Vec Add(Vec a, Vec b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
inline Vec Sub(Vec a, Vec b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
inline Vec Mul(Vec a, Vec b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
inline Vec Div(Vec a, Vec b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
inline Vec Max(Vec a, Vec b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}

// Eight entries: halves are added first, then an 8x8 transposition with an
// addition per level. Slot m = 2q + r of the network ends in lane 4r + q.
template <class Dot>
inline __attribute__((always_inline)) __m256 EightSums(const Dot& dot,
                                                       int first) {
  __m256 y[2];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    __m256 x[2];
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      const int m = 4 * i + 2 * j;
      const Vec a = dot(first + 4 * (m % 2) + m / 2);
      const Vec b = dot(first + 4 * ((m + 1) % 2) + (m + 1) / 2);
      const __m256 a8 = _mm256_add_ps(a.low, a.high);
      const __m256 b8 = _mm256_add_ps(b.low, b.high);
      x[j] = _mm256_add_ps(_mm256_permute2f128_ps(a8, b8, 0x20),
                           _mm256_permute2f128_ps(a8, b8, 0x31));
    }
    y[i] = _mm256_add_ps(_mm256_shuffle_ps(x[0], x[1], 0x44),
                         _mm256_shuffle_ps(x[0], x[1], 0xEE));
  }
  return _mm256_add_ps(_mm256_shuffle_ps(y[0], y[1], 0x88),
                       _mm256_shuffle_ps(y[0], y[1], 0xDD));
}

template <class Dot>
inline __attribute__((always_inline)) Vec TreeSums(const Dot& dot) {
  const __m256 low = EightSums(dot, 0);
  return {low, EightSums(dot, 8)};
}

// 16 words of 32 bits.
struct Words {
  __m256i low;
  __m256i high;
};

inline Words SetWords(uint32_t word) {
  const __m256i all = _mm256_set1_epi32(static_cast<int>(word));
  return {all, all};
}
inline Words LoadWords(const uint32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
inline Words Xor(Words a, Words b) {
  return {_mm256_xor_si256(a.low, b.low), _mm256_xor_si256(a.high, b.high)};
}
// The products of even and of odd words, put together again.
inline void MultiplyHalf(__m256i a, __m256i b, __m256i* high, __m256i* low) {
  const __m256i even = _mm256_mul_epu32(a, b);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), b);
  *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
  *low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
}
inline void Multiply(Words a, Words b, Words* high, Words* low) {
  MultiplyHalf(a.low, b.low, &high->low, &low->low);
  MultiplyHalf(a.high, b.high, &high->high, &low->high);
}
inline Words LowHalf(Words a) {
  const __m256i mask = _mm256_set1_epi32(0xFFFF);
  return {_mm256_and_si256(a.low, mask), _mm256_and_si256(a.high, mask)};
}
inline Words HighHalf(Words a) {
  return {_mm256_srli_epi32(a.low, 16), _mm256_srli_epi32(a.high, 16)};
}
// v where half >= threshold, else +0. REQUIRES: both below 2^31.
inline Vec Keep(Words half, Words threshold, Vec v) {
  const __m256i low = _mm256_cmpgt_epi32(threshold.low, half.low);
  const __m256i high = _mm256_cmpgt_epi32(threshold.high, half.high);
  return {_mm256_andnot_ps(_mm256_castsi256_ps(low), v.low),
          _mm256_andnot_ps(_mm256_castsi256_ps(high), v.high)};
}

inline __m256 ExpHalf(__m256 x) {
  using namespace exp_poly;  // NOLINT
  const __m256 n =
      _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(kLog2E)),
                      _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-kLn2High), x);
  r = _mm256_fmadd_ps(n, _mm256_set1_ps(-kLn2Low), r);
  __m256 sum = _mm256_set1_ps(kCoefficient[0]);
#pragma GCC unroll 7
  for (int i = 1; i < 8; ++i) {
    sum = _mm256_fmadd_ps(sum, r, _mm256_set1_ps(kCoefficient[i]));
  }
  const __m256i exponent = _mm256_slli_epi32(
      _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
  const __m256 e = _mm256_mul_ps(sum, _mm256_castsi256_ps(exponent));
  const __m256 positive =
      _mm256_blendv_ps(e, _mm256_setzero_ps(),
                       _mm256_cmp_ps(x, _mm256_set1_ps(kLowest), _CMP_LT_OQ));
  return _mm256_blendv_ps(positive, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

inline Vec ExpOfNonPositive(Vec x) { return {ExpHalf(x.low), ExpHalf(x.high)}; }

}  // namespace
}  // namespace lumen::sparse

#include "sparse/kernels.inl"
