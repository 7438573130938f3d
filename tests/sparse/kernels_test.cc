// SPDX-License-Identifier: Apache-2.0
// The products of the kernel table: every instruction set against the scalar
// reference bit for bit, and the reference against double precision.
#include "lumen/sparse/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "tests/sparse/kernel_data.h"

namespace lumen::sparse {
namespace {

class SparseKernels : public PerIsaTest {};

INSTANTIATE_TEST_SUITE_P(Kernels, SparseKernels,
                         ::testing::ValuesIn(AvailableIsas()), NameOfIsa);

TEST_P(SparseKernels, TableNamesItsInstructionSet) {
  EXPECT_EQ(table().isa, GetParam());
}

TEST_P(SparseKernels, SpmmEqualsTheReference) {
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
                        expected.data(), Run::OfLanes(lanes), 0, 0, size.rows);
          table().spmm(rows.view(), rows.value.data(), b, x.data(),
                       actual.data(), Run::OfLanes(lanes), 0, 0, size.rows);
          ASSERT_TRUE(SameBits(expected, actual))
              << size.rows << "x" << size.columns << " lanes " << lanes << " "
              << ValuesName(values);
        }
      }
    }
  }
}

TEST_P(SparseKernels, SpmmInChunksOfRowsEqualsTheWhole) {
  Source source(2);
  const int64_t lanes = 48;
  const Rows rows = NewRows(source, 29, 40, lanes / 16, Values::kOrdinary);
  const auto x = source.Floats(40 * lanes, Values::kOrdinary);
  const auto bias = source.Floats(29, Values::kOrdinary);
  std::vector<float> whole(static_cast<size_t>(29 * lanes));
  table().spmm(rows.view(), rows.value.data(), bias.data(), x.data(),
               whole.data(), Run::OfLanes(lanes), 0, 0, 29);
  std::vector<float> chunks(whole.size(), kUntouched);
  for (int64_t r = 0; r < 29;) {
    const int64_t end = std::min<int64_t>(29, r + source.Int(0, 6));
    table().spmm(rows.view(), rows.value.data(), bias.data(), x.data(),
                 chunks.data(), Run::OfLanes(lanes), 0, r, end);
    // Rows past the range are left alone.
    if (end < 29) {
      EXPECT_EQ(chunks[static_cast<size_t>(end * lanes)], kUntouched);
    }
    r = end;
  }
  EXPECT_TRUE(SameBits(whole, chunks));
}

TEST_P(SparseKernels, SddmmEqualsTheReference) {
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

TEST_P(SparseKernels, SddmmReadsTilesOfSixteenLanesLikeOneWideTile) {
  Source source(12);
  const Size size = {9, 30};
  const Unit wide(source, size, 3, true, Values::kOrdinary);
  Unit narrow = wide;  // three tiles, a vector per column and row
  narrow.x_vectors = narrow.dy_vectors = 1;
  narrow.x_stride = size.columns * 16;
  narrow.dy_stride = size.rows * 16;
  for (int64_t g = 0; g < 3; ++g) {
    for (int64_t l = 0; l < 16; ++l) {
      for (int64_t k = 0; k < size.columns; ++k) {
        narrow.x[static_cast<size_t>((g * size.columns + k) * 16 + l)] =
            wide.x[static_cast<size_t>(k * 48 + g * 16 + l)];
      }
      for (int64_t r = 0; r < size.rows; ++r) {
        narrow.dy[static_cast<size_t>((g * size.rows + r) * 16 + l)] =
            wide.dy[static_cast<size_t>(r * 48 + g * 16 + l)];
      }
    }
  }
  const Rows rows =
      NewRows(source, size.rows, size.columns, 3, Values::kOrdinary);
  Rows narrow_rows = rows;
  for (int32_t& offset : narrow_rows.offset) offset /= 3;
  std::vector<float> expected(rows.value.size()), actual(expected);
  table().sddmm(rows.view(), wide.x_view(), wide.dy_view(), 3, 3, 0,
                expected.data(), 0, size.rows);
  table().sddmm(narrow_rows.view(), narrow.x_view(), narrow.dy_view(), 1, 3, 0,
                actual.data(), 0, size.rows);
  EXPECT_TRUE(SameBits(expected, actual));
}

TEST_P(SparseKernels, SddmmInChunksOfRowsEqualsTheWhole) {
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

TEST(Kernels, SpmmIsTheProductInDoublePrecision) {
  Source source(9);
  const int64_t lanes = 32;
  const Rows rows = NewRows(source, 40, 90, lanes / 16, Values::kOrdinary);
  const auto x = source.Floats(90 * lanes, Values::kOrdinary);
  const auto bias = source.Floats(40, Values::kOrdinary);
  std::vector<float> y(40 * lanes);
  Scalar().spmm(rows.view(), rows.value.data(), bias.data(), x.data(), y.data(),
                Run::OfLanes(lanes), 0, 0, 40);
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
