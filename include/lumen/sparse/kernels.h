// SPDX-License-Identifier: Apache-2.0
// The kernel table: one row per instruction set, the same bits from each.
//
// Canonical order of additions. Every row, block and thread count follows it,
// so results are equal, not close:
// - forward and dX: per output element and lane one fp32 accumulator from +0,
// one
//   fused multiply-add per nonzero in index order, the bias added last.
// - dW and bias gradients: a unit is the lanes of one tile layout unit, that is
//   `groups` vectors of 16 samples. Per lane (0..15) one accumulator from +0
//   and one fma per group in order; then the 16-lane tree
//     for (step = 8; step; step /= 2) for (l < step) a[l] += a[l + step];
//   units are added to the gradient in order.
// - A dense kernel is the sparse one with every weight present.
#pragma once

#include <cstdint>
#include <span>

#include "lumen/core/philox.h"
#include "lumen/sparse/isa.h"

namespace lumen::sparse {

// Rows of nonzeros. Row r holds entries start[r]..start[r+1]-1. `offset` is the
// address of the input row in vectors of 16 lanes, relative to the panel tile:
// for a linear layer column * (T / 16). Ascending inside a row.
struct RowView {
  const int64_t* start = nullptr;
  const int32_t* offset = nullptr;
};

// Where the groups (vectors of 16 lanes) of one reduction unit lie: group g of
// input vector v starts at base + (v * 16) + g * group_stride floats. Inside
// one tile of T lanes group_stride is 16 and v is offset-scaled by T / 16; with
// 16-lane tiles it is the tile size.
struct UnitView {
  const float* base = nullptr;
  int64_t group_stride = 0;
};

// The numbers of one Adam step that are the same for all weights.
struct AdamStep {
  float keep_mean = 0;    // beta1
  float take_mean = 0;    // 1 - beta1
  float keep_square = 0;  // beta2
  float take_square = 0;  // 1 - beta2
  float rate = 0;         // lr / (1 - beta1^t)
  float root_scale = 0;   // 1 / sqrt(1 - beta2^t)
  float epsilon = 0;
};

struct KernelTable {
  Isa isa;

  // y[r][lanes] = bias[r] + sum over the nonzeros p of row r of
  // value[p] * x[offset[p] * 16 + lane], for r in [row_begin, row_end). y is
  // overwritten; row r starts at y + r * lanes. `bias` may be null (then 0 is
  // not added). lanes is a multiple of 16, at most 128.
  // Serves forward and, with the transposed rows, dX.
  void (*spmm)(RowView rows, const float* value, const float* bias,
               const float* x, float* y, int64_t lanes, int64_t row_begin,
               int64_t row_end);

  // dw[p] (+)= tree over lanes of sum over groups of dy[r] * x[offset[p]], for
  // the nonzeros of rows [row_begin, row_end). Row r of dy is vector
  // r * dy_row_vectors of its view. accumulate = 0 overwrites.
  void (*sddmm)(RowView rows, UnitView x, UnitView dy, int64_t dy_row_vectors,
                int64_t groups, int accumulate, float* dw, int64_t row_begin,
                int64_t row_end);

  // The same three for a dense row-major weight [rows][columns]; input column k
  // is vector k * (lanes / 16) of x. The bits equal spmm / sddmm on full rows.
  void (*dense_forward)(const float* weight, const float* bias, const float* x,
                        float* y, int64_t columns, int64_t lanes,
                        int64_t row_begin, int64_t row_end);
  // dx[k] = sum over rows r in order of weight[r][k] * dy[r], for columns
  // [column_begin, column_end).
  void (*dense_dx)(const float* weight, const float* dy, float* dx,
                   int64_t rows, int64_t columns, int64_t lanes,
                   int64_t column_begin, int64_t column_end);
  void (*dense_dw)(UnitView x, int64_t x_column_vectors, UnitView dy,
                   int64_t dy_row_vectors, int64_t groups, int accumulate,
                   float* dw, int64_t columns, int64_t row_begin,
                   int64_t row_end);

  // db[r] (+)= tree over lanes of the sum over groups (from +0, plain adds).
  void (*bias_gradient)(UnitView dy, int64_t dy_row_vectors, int64_t groups,
                        int accumulate, float* db, int64_t row_begin,
                        int64_t row_end);

  // Element-wise over n floats (any n, any alignment of 4 bytes).
  // y = x > 0 ? x : +0 (NaN stays NaN).
  void (*relu)(const float* x, float* y, int64_t n);
  // dx = y > 0 ? dy : +0.
  void (*relu_backward)(const float* y, const float* dy, float* dx, int64_t n);

  // Inverted dropout of one vector of 16 samples: for elements e in [0,
  // elements) and lanes l, word w = Draw(key, epoch, sample[l], e / 8) halves
  // in order (word e/2%4, low half first for even e); kept iff that 16-bit half
  // >= threshold; y = kept ? x * scale : +0. x and y advance by `stride` floats
  // per element. Used again for the backward pass (x = dy).
  void (*dropout)(RandomKey key, uint32_t epoch, const uint64_t* sample,
                  uint32_t threshold, float scale, const float* x, float* y,
                  int64_t elements, int64_t stride);

  // Softmax over `classes` vectors of 16 lanes (stride floats apart), in place:
  // logits in, probabilities out. max_out[16] gets the maxima, sum_out[16] the
  // sums of exp(logit - max) in class order. exp is our own, |error| < 2 ulp.
  void (*softmax)(float* logits, int64_t classes, int64_t stride,
                  float* max_out, float* sum_out);

  // Optimizer and exchange passes over n floats.
  // SGD with momentum as PyTorch defines it: g += decay * w; v = mu * v + g
  // (v = g when first); d = nesterov ? g + mu * v : v; w -= lr * d. No fma. g
  // is not changed. v may be null when mu is 0.
  void (*sgd)(float* w, float* v, const float* g, float lr, float mu,
              float decay, int nesterov, int first, int64_t n);
  void (*add)(const float* x, float* y, int64_t n);  // y += x
  void (*scale)(float factor, float* x, int64_t n);  // x *= factor
  // Sum of squares: units of 1024 elements, 16 fp32 lanes with fma, the tree
  // above, units added in double in order.
  double (*sum_of_squares)(const float* x, int64_t n);
  // 1 when every element is finite.
  int (*all_finite)(const float* x, int64_t n);

  // One step of Adam over n floats (Kingma and Ba 2015), no fma:
  //   g += decay * w; m = keep_mean * m + take_mean * g;
  //   v = keep_square * v + take_square * g * g;
  //   w = shrink * w - rate * m / (sqrt(v) * root_scale + epsilon).
  // g is not changed. Adam has shrink 1, AdamW has decay 0.
  void (*adam)(float* w, float* m, float* v, const float* g,
               const AdamStep& step, float decay, float shrink, int64_t n);
  // mean = keep * mean + (1 - keep) * x, no fma.
  void (*average)(const float* x, float* mean, float keep, int64_t n);
};

// REQUIRES: this CPU runs `isa`.
const KernelTable& Kernels(Isa isa);

}  // namespace lumen::sparse
