// SPDX-License-Identifier: Apache-2.0
// AVX-512: one register holds the 16 lanes.
#include <immintrin.h>

#include "sparse/elementwise.inl"
#include "sparse/exp_poly.h"
#include "sparse/kernels_isa.h"

#define LUMEN_INLINE_LAMBDA __attribute__((always_inline))
#define LUMEN_KERNEL_TABLE kAvx512Kernels
#define LUMEN_MORE_VECTORS(function, ...) \
  case 9:                                 \
    function<9>(__VA_ARGS__);             \
    break;                                \
  case 10:                                \
    function<10>(__VA_ARGS__);            \
    break;                                \
  case 11:                                \
    function<11>(__VA_ARGS__);            \
    break;                                \
  case 12:                                \
    function<12>(__VA_ARGS__);            \
    break;                                \
  case 13:                                \
    function<13>(__VA_ARGS__);            \
    break;                                \
  case 14:                                \
    function<14>(__VA_ARGS__);            \
    break;

namespace lumen::sparse {
namespace {

constexpr Isa kIsa = Isa::kAvx512;
constexpr int64_t kRunVectors = 14;  // of 32 registers
constexpr int64_t kChains = 8;
constexpr int kDenseRows = 4;  // 16 of 32 registers accumulate
constexpr int kDenseVectors = 4;

using Vec = __m512;

inline Vec Zero() { return _mm512_setzero_ps(); }
inline Vec Load(const float* p) { return _mm512_loadu_ps(p); }
inline void Store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
// The first n of 16 lanes; the others are not touched, and load as zero.
inline __mmask16 FirstLanes(int64_t n) {
  return static_cast<__mmask16>((1u << n) - 1);
}
inline Vec LoadFirst(const float* p, int64_t n) {
  return _mm512_maskz_loadu_ps(FirstLanes(n), p);
}
inline void StoreFirst(float* p, Vec v, int64_t n) {
  _mm512_mask_storeu_ps(p, FirstLanes(n), v);
}
inline Vec Set1(float f) { return _mm512_set1_ps(f); }
inline Vec Fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline Vec Add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
inline Vec Sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
inline Vec Mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
inline Vec Div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
inline Vec Max(Vec a, Vec b) { return _mm512_max_ps(a, b); }

// A 16x16 transposition with an addition at each of its four levels: halves,
// quarters, pairs, neighbours, as the tree demands. Entries are fetched in the
// order that leaves lane p with entry p.
template <class Dot>
inline __attribute__((always_inline)) Vec TreeSums(const Dot& dot) {
  Vec y[2];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    Vec x[2];
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      Vec w[2];
#pragma GCC unroll 2
      for (int k = 0; k < 2; ++k) {
        // Slot m = 4q + r of the network ends in lane 4r + q.
        const int m = 8 * i + 4 * j + 2 * k;
        const Vec a = dot(4 * (m % 4) + m / 4);
        const Vec b = dot(4 * ((m + 1) % 4) + (m + 1) / 4);
        w[k] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44),
                             _mm512_shuffle_f32x4(a, b, 0xEE));
      }
      x[j] = _mm512_add_ps(_mm512_shuffle_f32x4(w[0], w[1], 0x88),
                           _mm512_shuffle_f32x4(w[0], w[1], 0xDD));
    }
    y[i] = _mm512_add_ps(_mm512_shuffle_ps(x[0], x[1], 0x44),
                         _mm512_shuffle_ps(x[0], x[1], 0xEE));
  }
  return _mm512_add_ps(_mm512_shuffle_ps(y[0], y[1], 0x88),
                       _mm512_shuffle_ps(y[0], y[1], 0xDD));
}

// 16 words of 32 bits.
using Words = __m512i;

inline Words SetWords(uint32_t word) {
  return _mm512_set1_epi32(static_cast<int>(word));
}
inline Words LoadWords(const uint32_t* p) { return _mm512_loadu_si512(p); }
inline Words Xor(Words a, Words b) { return _mm512_xor_si512(a, b); }
// The products of even and of odd words, put together again.
inline void Multiply(Words a, Words b, Words* high, Words* low) {
  constexpr __mmask16 kOdd = 0xAAAA;
  const Words even = _mm512_mul_epu32(a, b);
  const Words odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), b);
  *high = _mm512_mask_mov_epi32(_mm512_srli_epi64(even, 32), kOdd, odd);
  *low = _mm512_mask_mov_epi32(even, kOdd, _mm512_slli_epi64(odd, 32));
}
inline Words LowHalf(Words a) { return _mm512_and_si512(a, SetWords(0xFFFF)); }
inline Words HighHalf(Words a) { return _mm512_srli_epi32(a, 16); }
// v where half >= threshold, else +0. REQUIRES: both below 2^31.
inline Vec Keep(Words half, Words threshold, Vec v) {
  return _mm512_maskz_mov_ps(_mm512_cmpge_epi32_mask(half, threshold), v);
}

inline Vec ExpOfNonPositive(Vec x) {
  using namespace exp_poly;  // NOLINT
  const Vec n = _mm512_roundscale_ps(_mm512_mul_ps(x, Set1(kLog2E)), 0x08);
  Vec r = Fma(n, Set1(-kLn2High), x);
  r = Fma(n, Set1(-kLn2Low), r);
  Vec sum = Set1(kCoefficient[0]);
#pragma GCC unroll 7
  for (int i = 1; i < 8; ++i) sum = Fma(sum, r, Set1(kCoefficient[i]));
  const __m512i exponent = _mm512_slli_epi32(
      _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23);
  const Vec e = _mm512_mul_ps(sum, _mm512_castsi512_ps(exponent));
  const Vec positive = _mm512_mask_mov_ps(
      e, _mm512_cmp_ps_mask(x, Set1(kLowest), _CMP_LT_OQ), Zero());
  return _mm512_mask_mov_ps(positive, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q),
                            x);
}

}  // namespace
}  // namespace lumen::sparse

#include "sparse/kernels.inl"
