// SPDX-License-Identifier: Apache-2.0
// The products of the kernel table: every instruction set against the scalar
// reference bit for bit, and the reference against double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "lumen/sparse/kernels.h"
#include "tests/sparse/kernel_data.h"

namespace lumen::sparse {
namespace {

constexpr Values kAllValues[] = {Values::kOrdinary, Values::kFinite,
                                 Values::kAny};
// Shapes that end inside, at and after every block the kernels work in.
struct Size {
  int64_t rows;
  int64_t columns;
};
constexpr Size kSizes[] = {{1, 1},  {1, 37},  {5, 1},   {4, 16}, {3, 17},
                           {9, 15}, {16, 33}, {13, 70}, {0, 4},  {7, 0}};
// Written before each call, so that an element left alone is seen.
constexpr float kUntouched = 12345.0f;

class PerIsa : public ::testing::TestWithParam<Isa> {
 protected:
  const KernelTable& table() const { return Kernels(GetParam()); }
};

std::string NameOf(const ::testing::TestParamInfo<Isa>& info) {
  return std::string(IsaName(info.param));
}

INSTANTIATE_TEST_SUITE_P(Kernels, PerIsa, ::testing::ValuesIn(AvailableIsas()),
                         NameOf);

TEST_P(PerIsa, TableNamesItsInstructionSet) {
  EXPECT_EQ(table().isa, GetParam());
}

TEST_P(PerIsa, SpmmEqualsTheReference) {
  Source source(1);
  for (Values values : kAllValues) {
    for (Size size : kSizes) {
      for (int64_t lanes = 16; lanes <= 128; lanes += 16) {
        const Rows rows =
            NewRows(source, size.rows, size.columns, lanes / 16, values);
        const auto x = source.Floats(size.columns * lanes, values);
        const auto bias = source.Floats(size.rows, values);
        for (const float* b :
             {bias.data(), static_cast<const float*>(nullptr)}) {
          std::vector<float> expected(static_cast<size_t>(size.rows * lanes),
                                      kUntouched);
          auto actual = expected;
          Scalar().spmm(rows.view(), rows.value.data(), b, x.data(),
                        expected.data(), lanes, 0, size.rows);
          table().spmm(rows.view(), rows.value.data(), b, x.data(),
                       actual.data(), lanes, 0, size.rows);
          ASSERT_TRUE(SameBits(expected, actual))
              << size.rows << "x" << size.columns << " lanes " << lanes << " "
              << ValuesName(values);
        }
      }
    }
  }
}

TEST_P(PerIsa, SpmmInChunksOfRowsEqualsTheWhole) {
  Source source(2);
  const int64_t lanes = 48;
  const Rows rows = NewRows(source, 29, 40, lanes / 16, Values::kOrdinary);
  const auto x = source.Floats(40 * lanes, Values::kOrdinary);
  const auto bias = source.Floats(29, Values::kOrdinary);
  std::vector<float> whole(static_cast<size_t>(29 * lanes));
  table().spmm(rows.view(), rows.value.data(), bias.data(), x.data(),
               whole.data(), lanes, 0, 29);
  std::vector<float> chunks(whole.size(), kUntouched);
  for (int64_t r = 0; r < 29;) {
    const int64_t end = std::min<int64_t>(29, r + source.Int(0, 6));
    table().spmm(rows.view(), rows.value.data(), bias.data(), x.data(),
                 chunks.data(), lanes, r, end);
    // Rows past the range are left alone.
    if (end < 29) {
      EXPECT_EQ(chunks[static_cast<size_t>(end * lanes)], kUntouched);
    }
    r = end;
  }
  EXPECT_TRUE(SameBits(whole, chunks));
}

// x and dy of a unit: inside one tile (stride 16) or over tiles of 16 lanes.
struct Unit {
  std::vector<float> x, dy;
  int64_t x_vectors, dy_vectors;  // per column or row
  int64_t x_stride, dy_stride;

  Unit(Source& source, Size size, int64_t groups, bool contiguous,
       Values values) {
    x_vectors = dy_vectors = contiguous ? groups : 1;
    x_stride = contiguous ? 16 : size.columns * 16 + 32;
    dy_stride = contiguous ? 16 : size.rows * 16 + 16;
    x = source.Floats(size.columns * x_vectors * 16 + groups * x_stride,
                      values);
    dy =
        source.Floats(size.rows * dy_vectors * 16 + groups * dy_stride, values);
  }
  UnitView x_view() const { return {x.data(), x_stride}; }
  UnitView dy_view() const { return {dy.data(), dy_stride}; }
};

TEST_P(PerIsa, SddmmEqualsTheReference) {
  Source source(3);
  for (Values values : kAllValues) {
    for (Size size : kSizes) {
      for (int64_t groups = 1; groups <= 8; ++groups) {
        for (bool contiguous : {true, false}) {
          const Unit unit(source, size, groups, contiguous, values);
          const Rows rows =
              NewRows(source, size.rows, size.columns, unit.x_vectors, values);
          for (int accumulate : {0, 1}) {
            auto expected = source.Floats(rows.nnz(), values);
            auto actual = expected;
            Scalar().sddmm(rows.view(), unit.x_view(), unit.dy_view(),
                           unit.dy_vectors, groups, accumulate, expected.data(),
                           0, size.rows);
            table().sddmm(rows.view(), unit.x_view(), unit.dy_view(),
                          unit.dy_vectors, groups, accumulate, actual.data(), 0,
                          size.rows);
            ASSERT_TRUE(SameBits(expected, actual))
                << size.rows << "x" << size.columns << " groups " << groups
                << " contiguous " << contiguous << " accumulate " << accumulate
                << " " << ValuesName(values);
          }
        }
      }
    }
  }
}

TEST_P(PerIsa, SddmmInChunksOfRowsEqualsTheWhole) {
  Source source(4);
  const Size size = {23, 31};
  const Unit unit(source, size, 4, true, Values::kOrdinary);
  const Rows rows = NewRows(source, size.rows, size.columns, unit.x_vectors,
                            Values::kOrdinary);
  const auto before = source.Floats(rows.nnz(), Values::kOrdinary);
  auto whole = before;
  table().sddmm(rows.view(), unit.x_view(), unit.dy_view(), unit.dy_vectors, 4,
                1, whole.data(), 0, size.rows);
  auto chunks = before;
  for (int64_t r = 0; r < size.rows; r += 5) {
    table().sddmm(rows.view(), unit.x_view(), unit.dy_view(), unit.dy_vectors,
                  4, 1, chunks.data(), r, std::min(size.rows, r + 5));
  }
  EXPECT_TRUE(SameBits(whole, chunks));
}

TEST_P(PerIsa, DenseEqualsTheReference) {
  Source source(5);
  for (Values values : kAllValues) {
    for (Size size : kSizes) {
      for (int64_t lanes = 16; lanes <= 128; lanes += 16) {
        const auto w = source.Floats(size.rows * size.columns, values);
        const auto bias = source.Floats(size.rows, values);
        const auto x = source.Floats(size.columns * lanes, values);
        const auto dy = source.Floats(size.rows * lanes, values);
        for (const float* b :
             {bias.data(), static_cast<const float*>(nullptr)}) {
          std::vector<float> expected(dy.size(), kUntouched);
          auto actual = expected;
          Scalar().dense_forward(w.data(), b, x.data(), expected.data(),
                                 size.columns, lanes, 0, size.rows);
          table().dense_forward(w.data(), b, x.data(), actual.data(),
                                size.columns, lanes, 0, size.rows);
          ASSERT_TRUE(SameBits(expected, actual))
              << size.rows << "x" << size.columns << " lanes " << lanes << " "
              << ValuesName(values);
        }
        std::vector<float> expected(x.size(), kUntouched);
        auto actual = expected;
        Scalar().dense_dx(w.data(), dy.data(), expected.data(), size.rows,
                          size.columns, lanes, 0, size.columns);
        table().dense_dx(w.data(), dy.data(), actual.data(), size.rows,
                         size.columns, lanes, 0, size.columns);
        ASSERT_TRUE(SameBits(expected, actual))
            << size.rows << "x" << size.columns << " lanes " << lanes << " "
            << ValuesName(values);
      }
    }
  }
}

TEST_P(PerIsa, DenseDwEqualsTheReference) {
  Source source(6);
  for (Values values : kAllValues) {
    for (Size size : kSizes) {
      for (int64_t groups = 1; groups <= 8; ++groups) {
        for (bool contiguous : {true, false}) {
          const Unit unit(source, size, groups, contiguous, values);
          for (int accumulate : {0, 1}) {
            auto expected = source.Floats(size.rows * size.columns, values);
            auto actual = expected;
            Scalar().dense_dw(unit.x_view(), unit.x_vectors, unit.dy_view(),
                              unit.dy_vectors, groups, accumulate,
                              expected.data(), size.columns, 0, size.rows);
            table().dense_dw(unit.x_view(), unit.x_vectors, unit.dy_view(),
                             unit.dy_vectors, groups, accumulate, actual.data(),
                             size.columns, 0, size.rows);
            ASSERT_TRUE(SameBits(expected, actual))
                << size.rows << "x" << size.columns << " groups " << groups;
            expected = source.Floats(size.rows, values);
            actual = expected;
            Scalar().bias_gradient(unit.dy_view(), unit.dy_vectors, groups,
                                   accumulate, expected.data(), 0, size.rows);
            table().bias_gradient(unit.dy_view(), unit.dy_vectors, groups,
                                  accumulate, actual.data(), 0, size.rows);
            ASSERT_TRUE(SameBits(expected, actual))
                << size.rows << " rows, groups " << groups;
          }
        }
      }
    }
  }
}

TEST_P(PerIsa, DenseInChunksEqualsTheWhole) {
  Source source(7);
  const Size size = {21, 26};
  const int64_t lanes = 80;
  const auto w = source.Floats(size.rows * size.columns, Values::kOrdinary);
  const auto x = source.Floats(size.columns * lanes, Values::kOrdinary);
  const auto dy = source.Floats(size.rows * lanes, Values::kOrdinary);
  std::vector<float> whole(dy.size()), chunks(dy.size());
  table().dense_forward(w.data(), nullptr, x.data(), whole.data(), size.columns,
                        lanes, 0, size.rows);
  for (int64_t r = 0; r < size.rows; r += 5) {
    table().dense_forward(w.data(), nullptr, x.data(), chunks.data(),
                          size.columns, lanes, r, std::min(size.rows, r + 5));
  }
  EXPECT_TRUE(SameBits(whole, chunks));
  std::vector<float> whole_dx(x.size()), chunks_dx(x.size());
  table().dense_dx(w.data(), dy.data(), whole_dx.data(), size.rows,
                   size.columns, lanes, 0, size.columns);
  for (int64_t c = 0; c < size.columns; c += 7) {
    table().dense_dx(w.data(), dy.data(), chunks_dx.data(), size.rows,
                     size.columns, lanes, c, std::min(size.columns, c + 7));
  }
  EXPECT_TRUE(SameBits(whole_dx, chunks_dx));
}

TEST_P(PerIsa, DenseIsTheSparseKernelOnFullRows) {
  Source source(8);
  for (Values values : {Values::kOrdinary, Values::kFinite}) {
    for (int64_t lanes : {16, 64, 112, 128}) {
      const Size size = {11, 35};
      const Rows rows =
          NewFullRows(source, size.rows, size.columns, lanes / 16, values);
      const auto x = source.Floats(size.columns * lanes, values);
      const auto dy = source.Floats(size.rows * lanes, values);
      const auto bias = source.Floats(size.rows, values);
      std::vector<float> sparse(dy.size()), dense(dy.size());
      table().spmm(rows.view(), rows.value.data(), bias.data(), x.data(),
                   sparse.data(), lanes, 0, size.rows);
      table().dense_forward(rows.value.data(), bias.data(), x.data(),
                            dense.data(), size.columns, lanes, 0, size.rows);
      EXPECT_TRUE(SameBits(sparse, dense));

      std::vector<float> sparse_dw(rows.value.size()), dense_dw(sparse_dw);
      const UnitView x_view = {x.data(), 16}, dy_view = {dy.data(), 16};
      table().sddmm(rows.view(), x_view, dy_view, lanes / 16, lanes / 16, 0,
                    sparse_dw.data(), 0, size.rows);
      table().dense_dw(x_view, lanes / 16, dy_view, lanes / 16, lanes / 16, 0,
                       dense_dw.data(), size.columns, 0, size.rows);
      EXPECT_TRUE(SameBits(sparse_dw, dense_dw));
    }
  }
}

// |error| of n chained fp32 operations on terms whose magnitudes sum to
// `scale`.
double Bound(double scale, int64_t n) {
  return scale * static_cast<double>(n + 2) * 0x1p-24 + 1e-30;
}

TEST(Kernels, SpmmIsTheProductInDoublePrecision) {
  Source source(9);
  const int64_t lanes = 32;
  const Rows rows = NewRows(source, 40, 90, lanes / 16, Values::kOrdinary);
  const auto x = source.Floats(90 * lanes, Values::kOrdinary);
  const auto bias = source.Floats(40, Values::kOrdinary);
  std::vector<float> y(40 * lanes);
  Scalar().spmm(rows.view(), rows.value.data(), bias.data(), x.data(), y.data(),
                lanes, 0, 40);
  for (int64_t r = 0; r < 40; ++r) {
    for (int64_t l = 0; l < lanes; ++l) {
      double sum = bias[static_cast<size_t>(r)], scale = std::abs(sum);
      const int64_t begin = rows.start[static_cast<size_t>(r)];
      const int64_t end = rows.start[static_cast<size_t>(r + 1)];
      for (int64_t p = begin; p < end; ++p) {
        const double term = double{rows.value[static_cast<size_t>(p)]} *
                            x[static_cast<size_t>(
                                rows.offset[static_cast<size_t>(p)] * 16 + l)];
        sum += term;
        scale += std::abs(term);
      }
      EXPECT_NEAR(y[static_cast<size_t>(r * lanes + l)], sum,
                  Bound(scale, end - begin));
    }
  }
}

TEST(Kernels, SddmmIsTheProductInDoublePrecision) {
  Source source(10);
  const Size size = {12, 50};
  for (bool contiguous : {true, false}) {
    const int64_t groups = 6;
    const Unit unit(source, size, groups, contiguous, Values::kOrdinary);
    const Rows rows = NewRows(source, size.rows, size.columns, unit.x_vectors,
                              Values::kOrdinary);
    std::vector<float> dw(rows.value.size(), 1.0f);
    Scalar().sddmm(rows.view(), unit.x_view(), unit.dy_view(), unit.dy_vectors,
                   groups, 1, dw.data(), 0, size.rows);
    for (int64_t r = 0; r < size.rows; ++r) {
      for (int64_t p = rows.start[static_cast<size_t>(r)];
           p < rows.start[static_cast<size_t>(r + 1)]; ++p) {
        double sum = 1, scale = 1;
        for (int64_t g = 0; g < groups; ++g) {
          for (int64_t l = 0; l < 16; ++l) {
            const double term =
                double{unit.x[static_cast<size_t>(
                    rows.offset[static_cast<size_t>(p)] * 16 +
                    g * unit.x_stride + l)]} *
                unit.dy[static_cast<size_t>(r * unit.dy_vectors * 16 +
                                            g * unit.dy_stride + l)];
            sum += term;
            scale += std::abs(term);
          }
        }
        EXPECT_NEAR(dw[static_cast<size_t>(p)], sum, Bound(scale, groups + 4));
      }
    }
  }
}

TEST(Kernels, DenseDxIsTheTransposedProductInDoublePrecision) {
  Source source(11);
  const int64_t rows = 37, columns = 19, lanes = 16;
  const auto w = source.Floats(rows * columns, Values::kOrdinary);
  const auto dy = source.Floats(rows * lanes, Values::kOrdinary);
  std::vector<float> dx(columns * lanes);
  Scalar().dense_dx(w.data(), dy.data(), dx.data(), rows, columns, lanes, 0,
                    columns);
  for (int64_t k = 0; k < columns; ++k) {
    for (int64_t l = 0; l < lanes; ++l) {
      double sum = 0, scale = 0;
      for (int64_t r = 0; r < rows; ++r) {
        const double term = double{w[static_cast<size_t>(r * columns + k)]} *
                            dy[static_cast<size_t>(r * lanes + l)];
        sum += term;
        scale += std::abs(term);
      }
      EXPECT_NEAR(dx[static_cast<size_t>(k * lanes + l)], sum,
                  Bound(scale, rows));
    }
  }
}

// The order of additions is a contract: checkpoints hold its bits.
TEST(Kernels, AdditionsFollowTheCanonicalOrder) {
  // Lanes 0 and 8 meet first, so 1e8 - 1e8 leaves the small lane exact.
  std::vector<float> dy(16, 0.0f);
  dy[0] = 1e8f;
  dy[8] = -1e8f;
  dy[1] = 1.0f;
  float db = 0;
  Scalar().bias_gradient({dy.data(), 16}, 1, 1, 0, &db, 0, 1);
  EXPECT_EQ(db, 1.0f);
  // Lanes 0 and 1 meet last: the one is lost in 1e8.
  dy[8] = 0;
  dy[9] = -1e8f;
  Scalar().bias_gradient({dy.data(), 16}, 1, 1, 0, &db, 0, 1);
  EXPECT_EQ(db, 0.0f);
  // One fma per nonzero in index order, the bias last.
  Rows rows{.rows = 1, .columns = 3, .start = {0, 3}, .offset = {0, 1, 2}};
  rows.value = {1e8f, 1.0f, -1e8f};
  const std::vector<float> x(48, 1.0f);
  std::vector<float> y(16);
  const float bias = 0.25f;
  Scalar().spmm(rows.view(), rows.value.data(), &bias, x.data(), y.data(), 16,
                0, 1);
  EXPECT_EQ(y[0], 0.25f);
}

}  // namespace
}  // namespace lumen::sparse
