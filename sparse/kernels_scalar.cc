// SPDX-License-Identifier: Apache-2.0
// The reference: plain loops, one lane at a time, written independently of the
// vector kernels. Every other variant is compared with it bit for bit.
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "sparse/elementwise.inl"
#include "sparse/exp_poly.h"
#include "sparse/kernels_isa.h"

namespace lumen::sparse {
namespace {

constexpr int64_t kLanes = 16;

float Tree(float a[kLanes]) {
  for (int64_t step = kLanes / 2; step > 0; step /= 2) {
    for (int64_t l = 0; l < step; ++l) a[l] += a[l + step];
  }
  return a[0];
}

// Sum over the samples of a unit of x times dy.
float UnitDot(UnitView x, int64_t x_vector, UnitView dy, int64_t dy_vector,
              int64_t groups) {
  float a[kLanes] = {};
  for (int64_t g = 0; g < groups; ++g) {
    const float* xg = x.base + x_vector * kLanes + g * x.group_stride;
    const float* dg = dy.base + dy_vector * kLanes + g * dy.group_stride;
    for (int64_t l = 0; l < kLanes; ++l) a[l] = std::fma(dg[l], xg[l], a[l]);
  }
  return Tree(a);
}

void Put(float sum, int accumulate, float* to) {
  *to = accumulate ? *to + sum : sum;
}

void Spmm(RowView rows, const float* value, const float* bias, const float* x,
          float* y, int64_t lanes, int64_t row_begin, int64_t row_end) {
  for (int64_t r = row_begin; r < row_end; ++r) {
    for (int64_t l = 0; l < lanes; ++l) {
      float sum = 0;
      for (int64_t p = rows.start[r]; p < rows.start[r + 1]; ++p) {
        sum = std::fma(value[p], x[rows.offset[p] * kLanes + l], sum);
      }
      y[r * lanes + l] = bias ? sum + bias[r] : sum;
    }
  }
}

void Sddmm(RowView rows, UnitView x, UnitView dy, int64_t dy_row_vectors,
           int64_t groups, int accumulate, float* dw, int64_t row_begin,
           int64_t row_end) {
  for (int64_t r = row_begin; r < row_end; ++r) {
    for (int64_t p = rows.start[r]; p < rows.start[r + 1]; ++p) {
      Put(UnitDot(x, rows.offset[p], dy, r * dy_row_vectors, groups),
          accumulate, &dw[p]);
    }
  }
}

void DenseForward(const float* weight, const float* bias, const float* x,
                  float* y, int64_t columns, int64_t lanes, int64_t row_begin,
                  int64_t row_end) {
  for (int64_t r = row_begin; r < row_end; ++r) {
    for (int64_t l = 0; l < lanes; ++l) {
      float sum = 0;
      for (int64_t k = 0; k < columns; ++k) {
        sum = std::fma(weight[r * columns + k], x[k * lanes + l], sum);
      }
      y[r * lanes + l] = bias ? sum + bias[r] : sum;
    }
  }
}

void DenseDx(const float* weight, const float* dy, float* dx, int64_t rows,
             int64_t columns, int64_t lanes, int64_t column_begin,
             int64_t column_end) {
  for (int64_t k = column_begin; k < column_end; ++k) {
    for (int64_t l = 0; l < lanes; ++l) {
      float sum = 0;
      for (int64_t r = 0; r < rows; ++r) {
        sum = std::fma(weight[r * columns + k], dy[r * lanes + l], sum);
      }
      dx[k * lanes + l] = sum;
    }
  }
}

void DenseDw(UnitView x, int64_t x_column_vectors, UnitView dy,
             int64_t dy_row_vectors, int64_t groups, int accumulate, float* dw,
             int64_t columns, int64_t row_begin, int64_t row_end) {
  for (int64_t r = row_begin; r < row_end; ++r) {
    for (int64_t k = 0; k < columns; ++k) {
      Put(UnitDot(x, k * x_column_vectors, dy, r * dy_row_vectors, groups),
          accumulate, &dw[r * columns + k]);
    }
  }
}

void BiasGradient(UnitView dy, int64_t dy_row_vectors, int64_t groups,
                  int accumulate, float* db, int64_t row_begin,
                  int64_t row_end) {
  for (int64_t r = row_begin; r < row_end; ++r) {
    float a[kLanes] = {};
    for (int64_t g = 0; g < groups; ++g) {
      const float* dg =
          dy.base + r * dy_row_vectors * kLanes + g * dy.group_stride;
      for (int64_t l = 0; l < kLanes; ++l) a[l] += dg[l];
    }
    Put(Tree(a), accumulate, &db[r]);
  }
}

void Dropout(RandomKey key, uint32_t epoch, const uint64_t* sample,
             uint32_t threshold, float scale, const float* x, float* y,
             int64_t elements, int64_t stride) {
  for (int64_t l = 0; l < kLanes; ++l) {
    std::array<uint32_t, 4> words = {};
    for (int64_t e = 0; e < elements; ++e) {
      if (e % 8 == 0) {
        words = Draw(key, epoch, sample[l], static_cast<uint32_t>(e / 8));
      }
      const uint32_t word = words[static_cast<size_t>(e / 2 % 4)];
      const uint32_t half = e % 2 ? word >> 16 : word & 0xFFFF;
      const int64_t at = e * stride + l;
      y[at] = half >= threshold ? x[at] * scale : 0.0f;
    }
  }
}

// For x <= 0, or NaN: what a softmax asks for.
float ExpFloat(float x) {
  using namespace exp_poly;  // NOLINT
  if (x < kLowest) return 0.0f;
  if (x != x) return x;
  const float n = std::nearbyint(x * kLog2E);
  float r = std::fma(n, -kLn2High, x);
  r = std::fma(n, -kLn2Low, r);
  float sum = kCoefficient[0];
  for (int i = 1; i < 8; ++i) sum = std::fma(sum, r, kCoefficient[i]);
  const auto exponent = static_cast<uint32_t>(static_cast<int>(n) + 127) << 23;
  return sum * std::bit_cast<float>(exponent);
}

void Softmax(float* logits, int64_t classes, int64_t stride, float* max_out,
             float* sum_out) {
  for (int64_t l = 0; l < kLanes; ++l) {
    float largest = -std::numeric_limits<float>::infinity();
    for (int64_t c = 0; c < classes; ++c) {
      const float v = logits[c * stride + l];
      largest = largest > v ? largest : v;
    }
    float sum = 0;
    for (int64_t c = 0; c < classes; ++c) {
      float* v = &logits[c * stride + l];
      *v = ExpFloat(*v - largest);
      sum += *v;
    }
    for (int64_t c = 0; c < classes; ++c) logits[c * stride + l] /= sum;
    max_out[l] = largest;
    sum_out[l] = sum;
  }
}

double SumOfSquares(const float* x, int64_t n) {
  constexpr int64_t kUnit = 1024;
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += kUnit) {
    float a[kLanes] = {};
    for (int64_t i = begin; i < n && i < begin + kUnit; ++i) {
      a[i % kLanes] = std::fma(x[i], x[i], a[i % kLanes]);
    }
    sum += Tree(a);
  }
  return sum;
}

}  // namespace

const KernelTable kScalarKernels = {
    .isa = Isa::kScalar,
    .spmm = Spmm,
    .sddmm = Sddmm,
    .dense_forward = DenseForward,
    .dense_dx = DenseDx,
    .dense_dw = DenseDw,
    .bias_gradient = BiasGradient,
    .relu = Relu,
    .relu_backward = ReluBackward,
    .dropout = Dropout,
    .softmax = Softmax,
    .sgd = Sgd,
    .add = Add,
    .scale = Scale,
    .sum_of_squares = SumOfSquares,
    .all_finite = AllFinite,
    .adam = Adam,
    .average = Average,
};

}  // namespace lumen::sparse
