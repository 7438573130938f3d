// SPDX-License-Identifier: Apache-2.0
// The kernel table: one row per instruction set, the same bits from each.
//
// Everything is addressed in vectors of 16 lanes. A layer with a window is a
// linear layer whose nonzeros carry another address, so one set of kernels
// serves both.
//
// Canonical order of additions. Every row, block and thread count follows it,
// so results are equal, not close:
// - forward and dX: per output element and lane one fp32 accumulator from +0,
//   one fused multiply-add per nonzero in index order, the bias added last.
// - dW and bias gradients: a unit is a list of vectors. Per lane (0..15) one
//   accumulator from +0 and one fma per vector in order; then the 16-lane tree
//     for (step = 8; step; step /= 2) for (l < step) a[l] += a[l + step];
//   units are added to the gradient in order.
// - A dense kernel is the sparse one with every weight present.
#pragma once

#include <cstdint>
#include <span>

#include "lumen/core/philox.h"
#include "lumen/sparse/isa.h"

namespace lumen::sparse {

// Rows of nonzeros, each in one or more parts that follow one another. Part q
// of row r holds entries start[at]..end[at]-1, at = q * part_stride + r. Entry
// p has the value `value[p]` and reads the vector `offset[p]` of its input: for
// a linear layer over T lanes column * (T / 16), for a window see window.h.
// Gradients may lie in another order: those of the part begin at first[at], or
// without `first` at start[at].
struct RowView {
  const int64_t* start = nullptr;
  const int64_t* end = nullptr;
  const int32_t* offset = nullptr;
  const int64_t* first = nullptr;
  int64_t parts = 1;
  int64_t part_stride = 0;
};

// The weight of row r and entry i is weight[r * row_stride + entry[i]], and it
// reads the vector offset[i] of the input.
struct DenseView {
  const float* weight = nullptr;
  int64_t row_stride = 0;
  const int64_t* entry = nullptr;
  const int32_t* offset = nullptr;
  int64_t entries = 0;
};

// Which outputs of a row a product computes: `vectors` of them, vector v from
// inputs v * x_step further on, written v * y_step from the start of its row;
// rows start y_row apart. All in vectors. With `stream`, spmm writes past the
// caches where y is aligned to 64 bytes: for outputs so large that they would
// leave them before they are read.
struct Run {
  int64_t vectors = 1;
  int64_t x_step = 1;
  int64_t y_step = 1;
  int64_t y_row = 1;
  bool stream = false;

  // All lanes of a tile without a map.
  static Run OfLanes(int64_t lanes) {
    return {.vectors = lanes / 16, .y_row = lanes / 16};
  }
};

// Vectors of samples that a gradient is summed over before its tree.
struct Segment {
  const float* x = nullptr;   // where entry offsets count from
  const float* dy = nullptr;  // of row 0
  int64_t vectors = 0;
};
// Segments in order, not all of them empty; steps from vector to vector, and
// between the rows of dy, in vectors.
struct Unit {
  const Segment* segments = nullptr;
  int64_t count = 0;
  int64_t x_step = 1;
  int64_t dy_step = 1;
  int64_t dy_row = 1;
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

// For `accumulate` of spmm: the sums go on from y instead of +0, so that rows
// computed part by part have the bits of whole rows.
inline constexpr int kResume = 2;

struct KernelTable {
  Isa isa;

  // y[r][v] = bias[r] + sum over the nonzeros p of row r of value[p] *
  // x[offset[p] + v * x_step], for rows [row_begin, row_end). y is overwritten,
  // or with accumulate = 1 added to; or see kResume. `bias` may be null (then 0
  // is not added). Serves forward and, with the transposed rows, dX.
  void (*spmm)(RowView rows, const float* value, const float* bias,
               const float* x, float* y, Run run, int accumulate,
               int64_t row_begin, int64_t row_end);

  // dw (+)= tree over lanes of the sum over the unit of dy[r] * x[offset[p]],
  // for the nonzeros p of rows [row_begin, row_end), each at its place (see
  // RowView). accumulate = 0 overwrites.
  void (*sddmm)(RowView rows, Unit unit, int accumulate, float* dw,
                int64_t row_begin, int64_t row_end);

  // The same with every weight present; the bits equal spmm and sddmm on full
  // rows. dw is [rows][columns]; offset[k] belongs to column k.
  void (*dense)(DenseView rows, const float* bias, const float* x, float* y,
                Run run, int accumulate, int64_t row_begin, int64_t row_end);
  void (*dense_dw)(const int32_t* offset, int64_t columns, Unit unit,
                   int accumulate, float* dw, int64_t row_begin,
                   int64_t row_end);

  // db[r] (+)= tree over lanes of the sum over the unit (from +0, plain adds).
  void (*bias_gradient)(Unit unit, int accumulate, float* db, int64_t row_begin,
                        int64_t row_end);

  // y[c] = bias[c] + sum over i in [0, entries) of value[i] * row[index[i]][c],
  // for c in [0, columns): one fp32 accumulator from +0, one fma per entry in
  // order, the bias added last. Rows lie `columns` floats apart, of any
  // alignment. `bias` may be null (then 0 is not added). y is overwritten; it
  // overlaps nothing else.
  void (*sum_rows)(const int32_t* index, const float* value, int64_t entries,
                   const float* rows, int64_t columns, const float* bias,
                   float* y);

  // Sums over n vectors, lane by lane, for statistics. Pieces of 64 vectors are
  // summed in fp32 by four accumulators from +0, vector v in accumulator v mod
  // 4, then (0 + 1) + (2 + 3); pieces are added in order in double to sum[16].
  void (*lane_sum)(const float* x, int64_t n, double* sum);
  // Of (x - mean[lane])^2, one fma each.
  void (*lane_squares)(const float* x, const float* mean, int64_t n,
                       double* sum);
  // Of dy, and of dy * (x - mean[lane]), one fma each.
  void (*lane_products)(const float* dy, const float* x, const float* mean,
                        int64_t n, double* sum_dy, double* sum_product);
  // y = fma(x - mean, scale, shift) over n vectors, parameters per lane.
  void (*lane_affine)(const float* x, const float* mean, const float* scale,
                      const float* shift, float* y, int64_t n);
  // dx (+)= fma(a, dy, fma(b, x - mean, c)), parameters per lane.
  void (*lane_affine_gradient)(const float* dy, const float* x,
                               const float* mean, const float* a,
                               const float* b, const float* c, int accumulate,
                               float* dx, int64_t n);

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
  void (*sum)(const float* x, const float* y, float* z,
              int64_t n);                            // z = x + y
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
  // 6 x 16 independent chains of `rounds` fused multiply-adds, in registers:
  // the peak of a core. Writes their sum per lane, so that it is computed.
  void (*multiply_adds)(int64_t rounds, float* out);
  // mean = keep * mean + (1 - keep) * x, no fma.
  void (*average)(const float* x, float* mean, float keep, int64_t n);
};

// REQUIRES: this CPU runs `isa`.
const KernelTable& Kernels(Isa isa);

}  // namespace lumen::sparse
