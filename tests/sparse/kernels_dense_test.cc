// SPDX-License-Identifier: Apache-2.0
// The dense rows of the kernel table: every instruction set against the scalar
// reference bit for bit, and against the sparse kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "lumen/sparse/kernels.h"
#include "tests/sparse/kernel_data.h"

namespace lumen::sparse {
namespace {

class DenseKernels : public PerIsaTest {};

INSTANTIATE_TEST_SUITE_P(Kernels, DenseKernels,
                         ::testing::ValuesIn(AvailableIsas()), NameOfIsa);

TEST_P(DenseKernels, EqualsTheReference) {
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

TEST_P(DenseKernels, DwEqualsTheReference) {
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

TEST_P(DenseKernels, InChunksEqualsTheWhole) {
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

TEST_P(DenseKernels, IsTheSparseKernelOnFullRows) {
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

TEST(DenseReference, DxIsTheTransposedProductInDoublePrecision) {
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

}  // namespace
}  // namespace lumen::sparse
