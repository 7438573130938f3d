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

// Sum over the vectors of a unit of x times dy.
float UnitDot(const Unit& unit, int64_t x_vector, int64_t row) {
  float a[kLanes] = {};
  for (int64_t s = 0; s < unit.count; ++s) {
    const Segment& segment = unit.segments[s];
    for (int64_t v = 0; v < segment.vectors; ++v) {
      const float* x = segment.x + (x_vector + v * unit.x_step) * kLanes;
      const float* dy =
          segment.dy + (row * unit.dy_row + v * unit.dy_step) * kLanes;
      for (int64_t l = 0; l < kLanes; ++l) a[l] = std::fma(dy[l], x[l], a[l]);
    }
  }
  return Tree(a);
}

void Put(float sum, int accumulate, float* to) {
  *to = accumulate ? *to + sum : sum;
}

void Spmm(RowView rows, const float* value, const float* bias, const float* x,
          float* y, Run run, int accumulate, int64_t row_begin,
          int64_t row_end) {
  for (int64_t r = row_begin; r < row_end; ++r) {
    for (int64_t v = 0; v < run.vectors; ++v) {
      for (int64_t l = 0; l < kLanes; ++l) {
        float* to = &y[(r * run.y_row + v * run.y_step) * kLanes + l];
        float sum = accumulate == kResume ? *to : 0;
        for (int64_t q = 0; q < rows.parts; ++q) {
          const int64_t at = q * rows.part_stride + r;
          for (int64_t p = rows.start[at]; p < rows.end[at]; ++p) {
            const int64_t from = rows.offset[p] + v * run.x_step;
            sum = std::fma(value[p], x[from * kLanes + l], sum);
          }
        }
        Put(bias ? sum + bias[r] : sum, accumulate == 1, to);
      }
    }
  }
}

void Sddmm(RowView rows, Unit unit, int accumulate, float* dw,
           int64_t row_begin, int64_t row_end) {
  for (int64_t r = row_begin; r < row_end; ++r) {
    for (int64_t q = 0; q < rows.parts; ++q) {
      const int64_t at = q * rows.part_stride + r;
      const int64_t begin = rows.start[at];
      float* to = dw + (rows.first ? rows.first[at] : begin);
      for (int64_t p = begin; p < rows.end[at]; ++p) {
        Put(UnitDot(unit, rows.offset[p], r), accumulate, to++);
      }
    }
  }
}

void Dense(DenseView rows, const float* bias, const float* x, float* y, Run run,
           int accumulate, int64_t row_begin, int64_t row_end) {
  for (int64_t r = row_begin; r < row_end; ++r) {
    for (int64_t v = 0; v < run.vectors; ++v) {
      for (int64_t l = 0; l < kLanes; ++l) {
        float sum = 0;
        for (int64_t i = 0; i < rows.entries; ++i) {
          const int64_t from = rows.offset[i] + v * run.x_step;
          sum = std::fma(rows.weight[r * rows.row_stride + rows.entry[i]],
                         x[from * kLanes + l], sum);
        }
        Put(bias ? sum + bias[r] : sum, accumulate,
            &y[(r * run.y_row + v * run.y_step) * kLanes + l]);
      }
    }
  }
}

void DenseDw(const int32_t* offset, int64_t columns, Unit unit, int accumulate,
             float* dw, int64_t row_begin, int64_t row_end) {
  for (int64_t r = row_begin; r < row_end; ++r) {
    for (int64_t k = 0; k < columns; ++k) {
      Put(UnitDot(unit, offset[k], r), accumulate, &dw[r * columns + k]);
    }
  }
}

void BiasGradient(Unit unit, int accumulate, float* db, int64_t row_begin,
                  int64_t row_end) {
  for (int64_t r = row_begin; r < row_end; ++r) {
    float a[kLanes] = {};
    for (int64_t s = 0; s < unit.count; ++s) {
      const Segment& segment = unit.segments[s];
      for (int64_t v = 0; v < segment.vectors; ++v) {
        const float* dy =
            segment.dy + (r * unit.dy_row + v * unit.dy_step) * kLanes;
        for (int64_t l = 0; l < kLanes; ++l) a[l] += dy[l];
      }
    }
    Put(Tree(a), accumulate, &db[r]);
  }
}

void SumRows(const int32_t* index, const float* value, int64_t entries,
             const float* rows, int64_t columns, const float* bias, float* y) {
  for (int64_t c = 0; c < columns; ++c) {
    float sum = 0;
    for (int64_t i = 0; i < entries; ++i) {
      sum = std::fma(value[i], rows[index[i] * columns + c], sum);
    }
    y[c] = bias ? sum + bias[c] : sum;
  }
}

constexpr int64_t kPiece = 64;  // vectors summed in fp32

// sum[l] += the terms of n vectors; add(vector, lane, so_far) returns the sum.
template <class AddTerm>
void SumPieces(int64_t n, double* sum, const AddTerm& add) {
  for (int64_t l = 0; l < kLanes; ++l) {
    for (int64_t begin = 0; begin < n; begin += kPiece) {
      float a[4] = {};
      for (int64_t v = begin; v < n && v < begin + kPiece; ++v) {
        a[v % 4] = add(v, l, a[v % 4]);
      }
      sum[l] += static_cast<double>((a[0] + a[1]) + (a[2] + a[3]));
    }
  }
}

void LaneSum(const float* x, int64_t n, double* sum) {
  SumPieces(n, sum, [=](int64_t v, int64_t l, float so_far) {
    return so_far + x[v * kLanes + l];
  });
}

void LaneSquares(const float* x, const float* mean, int64_t n, double* sum) {
  SumPieces(n, sum, [=](int64_t v, int64_t l, float so_far) {
    const float d = x[v * kLanes + l] - mean[l];
    return std::fma(d, d, so_far);
  });
}

void LaneProducts(const float* dy, const float* x, const float* mean, int64_t n,
                  double* sum_dy, double* sum_product) {
  LaneSum(dy, n, sum_dy);
  SumPieces(n, sum_product, [=](int64_t v, int64_t l, float so_far) {
    return std::fma(dy[v * kLanes + l], x[v * kLanes + l] - mean[l], so_far);
  });
}

void LaneAffine(const float* x, const float* mean, const float* scale,
                const float* shift, float* y, int64_t n) {
  for (int64_t i = 0; i < n * kLanes; ++i) {
    const int64_t l = i % kLanes;
    y[i] = std::fma(x[i] - mean[l], scale[l], shift[l]);
  }
}

void LaneAffineGradient(const float* dy, const float* x, const float* mean,
                        const float* a, const float* b, const float* c,
                        int accumulate, float* dx, int64_t n) {
  for (int64_t i = 0; i < n * kLanes; ++i) {
    const int64_t l = i % kLanes;
    const float rest = std::fma(b[l], x[i] - mean[l], c[l]);
    Put(std::fma(a[l], dy[i], rest), accumulate, &dx[i]);
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

void MultiplyAdds(int64_t rounds, float* out) {
  for (int l = 0; l < kLanes; ++l) {
    float chain[6];
    for (float& value : chain) value = out[l];
    for (int64_t r = 0; r < rounds; ++r) {
      for (float& value : chain) value = std::fma(value, 0.5f, 1.0f);
    }
    out[l] = chain[0];
    for (int c = 1; c < 6; ++c) out[l] += chain[c];
  }
}

}  // namespace

const KernelTable kScalarKernels = {
    .isa = Isa::kScalar,
    .spmm = Spmm,
    .sddmm = Sddmm,
    .dense = Dense,
    .dense_dw = DenseDw,
    .bias_gradient = BiasGradient,
    .sum_rows = SumRows,
    .lane_sum = LaneSum,
    .lane_squares = LaneSquares,
    .lane_products = LaneProducts,
    .lane_affine = LaneAffine,
    .lane_affine_gradient = LaneAffineGradient,
    .relu = Relu,
    .relu_backward = ReluBackward,
    .dropout = Dropout,
    .softmax = Softmax,
    .sgd = Sgd,
    .add = Add,
    .sum = Sum,
    .scale = Scale,
    .sum_of_squares = SumOfSquares,
    .all_finite = AllFinite,
    .adam = Adam,
    .multiply_adds = MultiplyAdds,
    .average = Average,
};

}  // namespace lumen::sparse
