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

// A weight [rows][columns] as forward and as dX read it.
DenseRows Forward(const std::vector<float>& w, Size size, int64_t vectors) {
  return {w.data(), size.columns, size.columns, 1, vectors};
}
DenseRows Transposed(const std::vector<float>& w, Size size, int64_t vectors) {
  return {w.data(), 1, size.rows, size.columns, vectors};
}

std::vector<int32_t> Offsets(int64_t columns, int64_t vectors) {
  std::vector<int32_t> offset(static_cast<size_t>(columns));
  for (size_t k = 0; k < offset.size(); ++k) {
    offset[k] = static_cast<int32_t>(k) * static_cast<int32_t>(vectors);
  }
  return offset;
}

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
        const sparse::Run run = sparse::Run::OfLanes(lanes);
        const DenseRows forward = Forward(w, size, lanes / 16);
        const DenseRows transposed = Transposed(w, size, lanes / 16);
        for (const float* b :
             {bias.data(), static_cast<const float*>(nullptr)}) {
          std::vector<float> expected(dy.size(), kUntouched);
          auto actual = expected;
          Scalar().dense(forward.view, b, x.data(), expected.data(), run, 0, 0,
                         size.rows);
          table().dense(forward.view, b, x.data(), actual.data(), run, 0, 0,
                        size.rows);
          ASSERT_TRUE(SameBits(expected, actual))
              << size.rows << "x" << size.columns << " lanes " << lanes << " "
              << ValuesName(values);
        }
        std::vector<float> expected(x.size(), kUntouched);
        auto actual = expected;
        Scalar().dense(transposed.view, nullptr, dy.data(), expected.data(),
                       run, 0, 0, size.columns);
        table().dense(transposed.view, nullptr, dy.data(), actual.data(), run,
                      0, 0, size.columns);
        ASSERT_TRUE(SameBits(expected, actual))
            << size.rows << "x" << size.columns << " lanes " << lanes << " "
            << ValuesName(values);
      }
    }
  }
}

TEST_P(DenseKernels, OverAnyRunEqualsTheReferenceAndTouchesNothingElse) {
  Source source(15);
  for (Values values : kAllValues) {
    for (Size size : {Size{5, 1}, Size{4, 16}, Size{7, 33}}) {
      for (int64_t vectors = 1; vectors <= 30; ++vectors) {
        for (int64_t steps = 0; steps < 9; ++steps) {
          const RunData data(source, size, vectors, 1 + steps / 3,
                             1 + steps % 3, values);
          const auto w = source.Floats(size.rows * size.columns, values);
          const auto bias = source.Floats(size.rows, values);
          // Forward and transposed, with and without bias, in turn.
          const bool turned = (vectors + steps) % 2;
          DenseRows rows = Forward(w, size, data.x_vectors);
          if (turned) {
            // w is [columns][rows]: row r and entry i at i * rows + r.
            rows =
                DenseRows(w.data(), 1, size.columns, size.rows, data.x_vectors);
          }
          const float* b = steps % 2 ? bias.data() : nullptr;
          for (int accumulate : {0, 1}) {
            auto expected = data.y, actual = data.y;
            Scalar().dense(rows.view, b, data.x.data(), expected.data(),
                           data.run, accumulate, 0, size.rows);
            table().dense(rows.view, b, data.x.data(), actual.data(), data.run,
                          accumulate, 0, size.rows);
            ASSERT_TRUE(SameBits(expected, actual))
                << size.rows << "x" << size.columns << " vectors " << vectors
                << " steps " << data.run.x_step << " " << data.run.y_step
                << " accumulate " << accumulate << " " << ValuesName(values);
          }
        }
      }
    }
  }
}

TEST_P(DenseKernels, GradientsEqualTheReference) {
  Source source(6);
  for (Values values : kAllValues) {
    for (Size size : kSizes) {
      for (int64_t vectors = 1; vectors <= 8; ++vectors) {
        for (Place place : kAllPlaces) {
          const UnitData unit(source, size, vectors, place, values);
          const auto offset = Offsets(size.columns, unit.x_vectors);
          for (int accumulate : {0, 1}) {
            auto expected = source.Floats(size.rows * size.columns, values);
            auto actual = expected;
            Scalar().dense_dw(offset.data(), size.columns, unit.view(),
                              accumulate, expected.data(), 0, size.rows);
            table().dense_dw(offset.data(), size.columns, unit.view(),
                             accumulate, actual.data(), 0, size.rows);
            ASSERT_TRUE(SameBits(expected, actual))
                << size.rows << "x" << size.columns << " vectors " << vectors;
            expected = source.Floats(size.rows, values);
            actual = expected;
            Scalar().bias_gradient(unit.view(), accumulate, expected.data(), 0,
                                   size.rows);
            table().bias_gradient(unit.view(), accumulate, actual.data(), 0,
                                  size.rows);
            ASSERT_TRUE(SameBits(expected, actual))
                << size.rows << " rows, vectors " << vectors;
          }
        }
      }
    }
  }
}

TEST_P(DenseKernels, GradientsDoNotDependOnHowAUnitIsCut) {
  Source source(16);
  for (Values values : kAllValues) {
    for (int64_t vectors = 1; vectors <= 70; ++vectors) {
      const Size size = vectors < 20 ? Size{3, 150} : Size{2, 64 + vectors % 3};
      UnitData unit(source, size, vectors,
                    kAllPlaces[static_cast<size_t>(vectors % 3)], values);
      const auto offset = Offsets(size.columns, unit.x_vectors);
      const auto dw = source.Floats(size.rows * size.columns, values);
      const auto db = source.Floats(size.rows, values);
      const int accumulate = vectors / 2 % 2;
      auto expected_dw = dw, expected_db = db;
      Scalar().dense_dw(offset.data(), size.columns, unit.view(), accumulate,
                        expected_dw.data(), 0, size.rows);
      Scalar().bias_gradient(unit.view(), accumulate, expected_db.data(), 0,
                             size.rows);
      for (int64_t pieces = 1; pieces <= 9; ++pieces) {
        unit.CutAnywhere(source, pieces);
        auto actual_dw = dw, actual_db = db;
        table().dense_dw(offset.data(), size.columns, unit.view(), accumulate,
                         actual_dw.data(), 0, size.rows);
        table().bias_gradient(unit.view(), accumulate, actual_db.data(), 0,
                              size.rows);
        ASSERT_TRUE(SameBits(expected_dw, actual_dw))
            << vectors << " vectors in " << pieces << " pieces";
        ASSERT_TRUE(SameBits(expected_db, actual_db))
            << vectors << " vectors in " << pieces << " pieces";
      }
    }
  }
}

TEST_P(DenseKernels, InChunksEqualsTheWhole) {
  Source source(7);
  const Size size = {21, 26};
  const int64_t lanes = 80;
  const sparse::Run run = sparse::Run::OfLanes(lanes);
  const auto w = source.Floats(size.rows * size.columns, Values::kOrdinary);
  const auto x = source.Floats(size.columns * lanes, Values::kOrdinary);
  const auto dy = source.Floats(size.rows * lanes, Values::kOrdinary);
  const DenseRows forward = Forward(w, size, lanes / 16);
  const DenseRows transposed = Transposed(w, size, lanes / 16);
  std::vector<float> whole(dy.size()), chunks(dy.size());
  table().dense(forward.view, nullptr, x.data(), whole.data(), run, 0, 0,
                size.rows);
  for (int64_t r = 0; r < size.rows; r += 5) {
    table().dense(forward.view, nullptr, x.data(), chunks.data(), run, 0, r,
                  std::min(size.rows, r + 5));
  }
  EXPECT_TRUE(SameBits(whole, chunks));
  std::vector<float> whole_dx(x.size()), chunks_dx(x.size());
  table().dense(transposed.view, nullptr, dy.data(), whole_dx.data(), run, 0, 0,
                size.columns);
  for (int64_t c = 0; c < size.columns; c += 7) {
    table().dense(transposed.view, nullptr, dy.data(), chunks_dx.data(), run, 0,
                  c, std::min(size.columns, c + 7));
  }
  EXPECT_TRUE(SameBits(whole_dx, chunks_dx));
}

TEST_P(DenseKernels, IsTheSparseKernelOnFullRows) {
  Source source(8);
  for (Values values : {Values::kOrdinary, Values::kFinite}) {
    for (int64_t vectors : {1, 4, 7, 8, 14, 28}) {
      const Size size = {11, 75};
      const UnitData unit(source, size, vectors, Place::kStrided, values);
      const Rows rows =
          NewFullRows(source, size.rows, size.columns, unit.x_vectors, values);
      const DenseRows full = Forward(rows.value, size, unit.x_vectors);
      const auto bias = source.Floats(size.rows, values);
      const sparse::Run run = {
          .vectors = vectors, .x_step = 2, .y_row = vectors};
      std::vector<float> sparse(static_cast<size_t>(size.rows * vectors * 16)),
          dense(sparse);
      table().spmm(rows.view(), rows.value.data(), bias.data(), unit.x.data(),
                   sparse.data(), run, 0, 0, size.rows);
      table().dense(full.view, bias.data(), unit.x.data(), dense.data(), run, 0,
                    0, size.rows);
      EXPECT_TRUE(SameBits(sparse, dense));

      std::vector<float> sparse_dw(rows.value.size()), dense_dw(sparse_dw);
      table().sddmm(rows.view(), unit.view(), 0, sparse_dw.data(), 0,
                    size.rows);
      table().dense_dw(Offsets(size.columns, unit.x_vectors).data(),
                       size.columns, unit.view(), 0, dense_dw.data(), 0,
                       size.rows);
      EXPECT_TRUE(SameBits(sparse_dw, dense_dw));
    }
  }
}

TEST(DenseReference, DxIsTheTransposedProductInDoublePrecision) {
  Source source(11);
  const Size size = {37, 19};
  const int64_t lanes = 16;
  const auto w = source.Floats(size.rows * size.columns, Values::kOrdinary);
  const auto dy = source.Floats(size.rows * lanes, Values::kOrdinary);
  std::vector<float> dx(static_cast<size_t>(size.columns * lanes));
  Scalar().dense(Transposed(w, size, 1).view, nullptr, dy.data(), dx.data(),
                 sparse::Run::OfLanes(lanes), 0, 0, size.columns);
  for (int64_t k = 0; k < size.columns; ++k) {
    for (int64_t l = 0; l < lanes; ++l) {
      double sum = 0, scale = 0;
      for (int64_t r = 0; r < size.rows; ++r) {
        const double term =
            double{w[static_cast<size_t>(r * size.columns + k)]} *
            dy[static_cast<size_t>(r * lanes + l)];
        sum += term;
        scale += std::abs(term);
      }
      EXPECT_NEAR(dx[static_cast<size_t>(k * lanes + l)], sum,
                  Bound(scale, size.rows));
    }
  }
}

}  // namespace
}  // namespace lumen::sparse
