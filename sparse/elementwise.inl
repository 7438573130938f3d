// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels as plain loops, compiled once per instruction set by the
// file that includes this. Without contraction and reassociation (global flags)
// the compiler's vector code has the bits of the scalar code.
#include <cmath>
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
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = dy[i];  // read always: no branch
    dx[i] = y[i] > 0 ? gradient : 0.0f;
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

// z may be x or y.
void Sum(const float* x, const float* y, float* z, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) z[i] = x[i] + y[i];
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

void Adam(float* __restrict w, float* __restrict m, float* __restrict v,
          const float* __restrict g, const AdamStep& step, float decay,
          float shrink, int64_t n) {
  const AdamStep s = step;  // no store to w can change it
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = g[i] + decay * w[i];
    m[i] = s.keep_mean * m[i] + s.take_mean * gradient;
    v[i] = s.keep_square * v[i] + s.take_square * gradient * gradient;
    const float size = std::sqrt(v[i]) * s.root_scale + s.epsilon;
    w[i] = shrink * w[i] - s.rate * m[i] / size;
  }
}

void Average(const float* __restrict x, float* __restrict mean, float keep,
             int64_t n) {
  // Exact for keep >= 0.5, so that equal values stay what they are.
  const float take = 1.0f - keep;
  for (int64_t i = 0; i < n; ++i) mean[i] = keep * mean[i] + take * x[i];
}

}  // namespace
}  // namespace lumen::sparse
