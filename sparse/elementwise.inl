// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels as plain loops, compiled once per instruction set by the
// file that includes this. Without contraction and reassociation (global flags)
// the compiler's vector code has the bits of the scalar code.
#include <cstdint>

#include "lumen/sparse/kernels.h"

namespace lumen::sparse {
namespace {

// x, y, dy and dx may be the same memory: every element is read before its
// place is written, hence ivdep instead of restrict.
void Relu(const float* x, float* y, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] <= 0 ? 0.0f : x[i];
}

void ReluBackward(const float* y, const float* dy, float* dx, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) dx[i] = y[i] > 0 ? dy[i] : 0.0f;
}

// Philox4x32-10 of core/philox.h in 16 lanes that differ in the sample only.
void PhiloxLanes(RandomKey key, uint32_t epoch, const uint64_t* sample,
                 uint32_t element, uint32_t word[4][16]) {
  uint32_t c0[16], c1[16], c2[16], c3[16];
  for (int l = 0; l < 16; ++l) {
    c0[l] = element;
    c1[l] = static_cast<uint32_t>(sample[l]);
    c2[l] = static_cast<uint32_t>(sample[l] >> 32);
    c3[l] = epoch;
  }
  uint32_t k[2];
  __builtin_memcpy(k, &key, sizeof(k));
  uint32_t k0 = k[0], k1 = k[1];
  for (int round = 0; round < 10; ++round) {
    for (int l = 0; l < 16; ++l) {
      const uint64_t a = uint64_t{0xD2511F53} * c0[l];
      const uint64_t b = uint64_t{0xCD9E8D57} * c2[l];
      c0[l] = static_cast<uint32_t>(b >> 32) ^ c1[l] ^ k0;
      c1[l] = static_cast<uint32_t>(b);
      c2[l] = static_cast<uint32_t>(a >> 32) ^ c3[l] ^ k1;
      c3[l] = static_cast<uint32_t>(a);
    }
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  for (int l = 0; l < 16; ++l) {
    word[0][l] = c0[l];
    word[1][l] = c1[l];
    word[2][l] = c2[l];
    word[3][l] = c3[l];
  }
}

void Dropout(RandomKey key, uint32_t epoch, const uint64_t* sample,
             uint32_t threshold, float scale, const float* x, float* y,
             int64_t elements, int64_t stride) {
  uint32_t word[4][16];
  for (int64_t e = 0; e < elements; ++e) {
    if (e % 8 == 0) {
      PhiloxLanes(key, epoch, sample, static_cast<uint32_t>(e / 8), word);
    }
    const uint32_t* words = word[e / 2 % 4];
    const int shift = e % 2 ? 16 : 0;
#pragma GCC ivdep
    for (int l = 0; l < 16; ++l) {
      const uint32_t half = words[l] >> shift & 0xFFFF;
      const float value = x[e * stride + l] * scale;
      y[e * stride + l] = half >= threshold ? value : 0.0f;
    }
  }
}

void Sgd(float* __restrict w, float* __restrict v, const float* __restrict g,
         float lr, float mu, float decay, int nesterov, int first, int64_t n) {
  if (v == nullptr) {
    for (int64_t i = 0; i < n; ++i) w[i] -= lr * (g[i] + decay * w[i]);
    return;
  }
  // At the first step what v holds, even a NaN, is overwritten.
  if (nesterov) {
    for (int64_t i = 0; i < n; ++i) {
      const float gradient = g[i] + decay * w[i];
      v[i] = first ? gradient : mu * v[i] + gradient;
      w[i] -= lr * (gradient + mu * v[i]);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const float gradient = g[i] + decay * w[i];
      v[i] = first ? gradient : mu * v[i] + gradient;
      w[i] -= lr * v[i];
    }
  }
}

void Add(const float* __restrict x, float* __restrict y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

void Scale(float factor, float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

int AllFinite(const float* x, int64_t n) {
  // The exponent of infinities and NaN is all ones.
  uint32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    __builtin_memcpy(&bits, x + i, sizeof(bits));
    const uint32_t magnitude = bits & 0x7FFFFFFF;
    largest = largest > magnitude ? largest : magnitude;
  }
  return largest < 0x7F800000;
}

}  // namespace
}  // namespace lumen::sparse
