// SPDX-License-Identifier: Apache-2.0
// The sparse products of the kernel table: every instruction set against the
// scalar reference bit for bit, and the reference against double precision.
#include "lumen/sparse/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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
                        expected.data(), sparse::Run::OfLanes(lanes), 0, 0,
                        size.rows);
          table().spmm(rows.view(), rows.value.data(), b, x.data(),
                       actual.data(), sparse::Run::OfLanes(lanes), 0, 0,
                       size.rows);
          ASSERT_TRUE(SameBits(expected, actual))
              << size.rows << "x" << size.columns << " lanes " << lanes << " "
              << ValuesName(values);
        }
      }
    }
  }
}

TEST_P(SparseKernels, SpmmOverAnyRunEqualsTheReferenceAndTouchesNothingElse) {
  Source source(13);
  for (Values values : kAllValues) {
    for (Size size : {Size{5, 1}, Size{4, 16}, Size{7, 33}}) {
      for (int64_t vectors = 1; vectors <= 30; ++vectors) {
        for (int64_t steps = 0; steps < 9; ++steps) {
          const RunData data(source, size, vectors, 1 + steps / 3,
                             1 + steps % 3, values);
          const Rows rows =
              NewRows(source, size.rows, size.columns, data.x_vectors, values);
          const auto bias = source.Floats(size.rows, values);
          for (int accumulate : {0, 1}) {
            for (const float* b :
                 {bias.data(), static_cast<const float*>(nullptr)}) {
              auto expected = data.y, actual = data.y;
              Scalar().spmm(rows.view(), rows.value.data(), b, data.x.data(),
                            expected.data(), data.run, accumulate, 0,
                            size.rows);
              table().spmm(rows.view(), rows.value.data(), b, data.x.data(),
                           actual.data(), data.run, accumulate, 0, size.rows);
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
}

TEST_P(SparseKernels, SpmmInChunksOfRowsEqualsTheWhole) {
  Source source(2);
  const int64_t lanes = 48;
  const Rows rows = NewRows(source, 29, 40, lanes / 16, Values::kOrdinary);
  const auto x = source.Floats(40 * lanes, Values::kOrdinary);
  const auto bias = source.Floats(29, Values::kOrdinary);
  std::vector<float> whole(static_cast<size_t>(29 * lanes));
  table().spmm(rows.view(), rows.value.data(), bias.data(), x.data(),
               whole.data(), sparse::Run::OfLanes(lanes), 0, 0, 29);
  std::vector<float> chunks(whole.size(), kUntouched);
  for (int64_t r = 0; r < 29;) {
    const int64_t end = std::min<int64_t>(29, r + source.Int(0, 6));
    table().spmm(rows.view(), rows.value.data(), bias.data(), x.data(),
                 chunks.data(), sparse::Run::OfLanes(lanes), 0, r, end);
    // Rows past the range are left alone.
    if (end < 29) {
      EXPECT_EQ(chunks[static_cast<size_t>(end * lanes)], kUntouched);
    }
    r = end;
  }
  EXPECT_TRUE(SameBits(whole, chunks));
}

TEST_P(SparseKernels, SpmmInPartsOfRowsHasTheBitsOfWholeRows) {
  Source source(17);
  const Size size = {9, 60};
  for (Values values : kAllValues) {
    for (int64_t vectors : {1, 7, 14, 28}) {
      const RunData data(source, size, vectors, 2, 2, values);
      const Rows rows =
          NewRows(source, size.rows, size.columns, data.x_vectors, values);
      const auto bias = source.Floats(size.rows, values);
      auto whole = data.y, in_parts = data.y;
      Scalar().spmm(rows.view(), rows.value.data(), bias.data(), data.x.data(),
                    whole.data(), data.run, 0, 0, size.rows);
      // Each row cut anywhere, also into empty parts.
      const int parts = 4;
      std::vector<int64_t> start(rows.start.begin(), rows.start.end() - 1);
      for (int part = 0; part < parts; ++part) {
        std::vector<int64_t> end;
        for (size_t r = 0; r < start.size(); ++r) {
          const int64_t last = rows.start[r + 1];
          end.push_back(part + 1 == parts ? last
                                          : source.Int(start[r], last + 1));
        }
        table().spmm(
            {start.data(), end.data(), rows.offset.data()}, rows.value.data(),
            part + 1 == parts ? bias.data() : nullptr, data.x.data(),
            in_parts.data(), data.run, part == 0 ? 0 : kResume, 0, size.rows);
        start = end;
      }
      ASSERT_TRUE(SameBits(whole, in_parts))
          << vectors << " vectors " << ValuesName(values);
    }
  }
}

TEST_P(SparseKernels, RowsStoredPartByPartAreTheSameRows) {
  Source source(19);
  for (Values values : kAllValues) {
    for (int64_t vectors : {1, 8, 9}) {
      const Size size = {9, 90};
      const UnitData unit(source, size, vectors, Place::kMap, values);
      const Rows rows =
          NewRows(source, size.rows, size.columns, unit.x_vectors, values);
      const RowsInParts in_parts(source, rows, 3);
      const auto bias = source.Floats(size.rows, values);
      for (int accumulate : {0, 1}) {
        auto dw = source.Floats(rows.nnz(), values), expected_dw = dw;
        Scalar().sddmm(rows.view(), unit.view(), accumulate, expected_dw.data(),
                       0, size.rows);
        table().sddmm(in_parts.view, unit.view(), accumulate, dw.data(), 0,
                      size.rows);
        ASSERT_TRUE(SameBits(expected_dw, dw)) << vectors << " vectors";

        auto y = source.Floats(size.rows * vectors * 16, values), expected = y;
        const auto run = sparse::Run::OfLanes(vectors * 16);
        Scalar().spmm(rows.view(), rows.value.data(), bias.data(),
                      unit.x.data(), expected.data(), run, accumulate, 0,
                      size.rows);
        auto scalar = y;
        Scalar().spmm(in_parts.view, in_parts.value.data(), bias.data(),
                      unit.x.data(), scalar.data(), run, accumulate, 0,
                      size.rows);
        ASSERT_TRUE(SameBits(expected, scalar)) << vectors << " vectors";
        table().spmm(in_parts.view, in_parts.value.data(), bias.data(),
                     unit.x.data(), y.data(), run, accumulate, 0, size.rows);
        ASSERT_TRUE(SameBits(expected, y)) << vectors << " vectors";
      }
    }
  }
}

TEST_P(SparseKernels, SddmmEqualsTheReference) {
  Source source(3);
  for (Values values : kAllValues) {
    for (Size size : kSizes) {
      for (int64_t vectors = 1; vectors <= 8; ++vectors) {
        for (Place place : kAllPlaces) {
          const UnitData unit(source, size, vectors, place, values);
          const Rows rows =
              NewRows(source, size.rows, size.columns, unit.x_vectors, values);
          for (int accumulate : {0, 1}) {
            auto expected = source.Floats(rows.nnz(), values);
            auto actual = expected;
            Scalar().sddmm(rows.view(), unit.view(), accumulate,
                           expected.data(), 0, size.rows);
            table().sddmm(rows.view(), unit.view(), accumulate, actual.data(),
                          0, size.rows);
            ASSERT_TRUE(SameBits(expected, actual))
                << size.rows << "x" << size.columns << " vectors " << vectors
                << " accumulate " << accumulate << " " << ValuesName(values);
          }
        }
      }
    }
  }
}

// Rows of more than 64 entries: their accumulators wait in memory in parts.
TEST_P(SparseKernels, SddmmDoesNotDependOnHowAUnitIsCut) {
  Source source(14);
  for (Values values : kAllValues) {
    for (int64_t vectors = 1; vectors <= 70; ++vectors) {
      const Size size = vectors < 20 ? Size{4, 150} : Size{2, 64 + vectors % 3};
      UnitData unit(source, size, vectors,
                    kAllPlaces[static_cast<size_t>(vectors % 3)], values);
      const Rows rows =
          NewRows(source, size.rows, size.columns, unit.x_vectors, values);
      const auto before = source.Floats(rows.nnz(), values);
      const int accumulate = vectors / 2 % 2;
      auto expected = before;
      Scalar().sddmm(rows.view(), unit.view(), accumulate, expected.data(), 0,
                     size.rows);
      for (int64_t pieces = 1; pieces <= 9; ++pieces) {
        for (bool even : {true, false}) {
          if (even) {
            unit.CutEvenly(pieces);
          } else {
            unit.CutAnywhere(source, pieces);
          }
          auto actual = before;
          table().sddmm(rows.view(), unit.view(), accumulate, actual.data(), 0,
                        size.rows);
          ASSERT_TRUE(SameBits(expected, actual))
              << vectors << " vectors in " << pieces << " pieces, "
              << ValuesName(values);
        }
      }
    }
  }
}

TEST_P(SparseKernels, SddmmReadsTilesOfSixteenLanesLikeOneWideTile) {
  Source source(12);
  const Size size = {9, 30};
  const UnitData wide(source, size, 3, Place::kMap, Values::kOrdinary);
  UnitData narrow(source, size, 3, Place::kTiles, Values::kOrdinary);
  for (int64_t v = 0; v < 3; ++v) {
    for (int64_t l = 0; l < 16; ++l) {
      for (int64_t k = 0; k < size.columns; ++k) {
        narrow.x[static_cast<size_t>((v * narrow.x_step + k) * 16 + l)] =
            wide.X(k * wide.x_vectors, v, l);
      }
      for (int64_t r = 0; r < size.rows; ++r) {
        narrow.dy[static_cast<size_t>((v * narrow.dy_step + r) * 16 + l)] =
            wide.Dy(r, v, l);
      }
    }
  }
  narrow.Cut({0, 3});
  const Rows rows =
      NewRows(source, size.rows, size.columns, 3, Values::kOrdinary);
  Rows narrow_rows = rows;
  for (int32_t& offset : narrow_rows.offset) offset /= 3;
  std::vector<float> expected(rows.value.size()), actual(expected);
  table().sddmm(rows.view(), wide.view(), 0, expected.data(), 0, size.rows);
  table().sddmm(narrow_rows.view(), narrow.view(), 0, actual.data(), 0,
                size.rows);
  EXPECT_TRUE(SameBits(expected, actual));
}

TEST_P(SparseKernels, SddmmInChunksOfRowsEqualsTheWhole) {
  Source source(4);
  const Size size = {23, 31};
  UnitData unit(source, size, 20, Place::kMap, Values::kOrdinary);
  unit.CutEvenly(2);
  const Rows rows = NewRows(source, size.rows, size.columns, unit.x_vectors,
                            Values::kOrdinary);
  const auto before = source.Floats(rows.nnz(), Values::kOrdinary);
  auto whole = before;
  table().sddmm(rows.view(), unit.view(), 1, whole.data(), 0, size.rows);
  auto chunks = before;
  for (int64_t r = 0; r < size.rows; r += 5) {
    table().sddmm(rows.view(), unit.view(), 1, chunks.data(), r,
                  std::min(size.rows, r + 5));
  }
  EXPECT_TRUE(SameBits(whole, chunks));
}

TEST(Kernels, SpmmIsTheProductInDoublePrecision) {
  Source source(9);
  const Size size = {40, 90};
  for (int accumulate : {0, 1}) {
    const RunData data(source, size, 5, 2, 3, Values::kOrdinary);
    const Rows rows = NewRows(source, size.rows, size.columns, data.x_vectors,
                              Values::kOrdinary);
    const auto bias = source.Floats(size.rows, Values::kOrdinary);
    auto y = data.y;
    Scalar().spmm(rows.view(), rows.value.data(), bias.data(), data.x.data(),
                  y.data(), data.run, accumulate, 0, size.rows);
    for (int64_t i = 0; i < std::ssize(y); ++i) {
      const auto at = static_cast<size_t>(i);
      const int64_t r = i / (data.run.y_row * 16), l = i % 16;
      const int64_t v = i / 16 % data.run.y_row / data.run.y_step;
      if (i / 16 % data.run.y_row % data.run.y_step || v >= data.run.vectors) {
        EXPECT_EQ(y[at], data.y[at]);
        continue;
      }
      double sum = bias[static_cast<size_t>(r)];
      if (accumulate) sum += data.y[at];
      double scale = 2;
      const int64_t begin = rows.start[static_cast<size_t>(r)];
      const int64_t end = rows.start[static_cast<size_t>(r + 1)];
      for (int64_t p = begin; p < end; ++p) {
        const auto entry = static_cast<size_t>(p);
        const int64_t from = rows.offset[entry] + v * data.run.x_step;
        const double term = double{rows.value[entry]} *
                            data.x[static_cast<size_t>(from * 16 + l)];
        sum += term;
        scale += std::abs(term);
      }
      EXPECT_NEAR(y[at], sum, Bound(scale, end - begin));
    }
  }
}

TEST(Kernels, SddmmIsTheProductInDoublePrecision) {
  Source source(10);
  const Size size = {12, 50};
  for (Place place : kAllPlaces) {
    UnitData unit(source, size, 6, place, Values::kOrdinary);
    unit.CutEvenly(2);
    const Rows rows = NewRows(source, size.rows, size.columns, unit.x_vectors,
                              Values::kOrdinary);
    std::vector<float> dw(rows.value.size(), 1.0f);
    Scalar().sddmm(rows.view(), unit.view(), 1, dw.data(), 0, size.rows);
    for (int64_t r = 0; r < size.rows; ++r) {
      for (int64_t p = rows.start[static_cast<size_t>(r)];
           p < rows.start[static_cast<size_t>(r + 1)]; ++p) {
        double sum = 1, scale = 1;
        for (int64_t i = 0; i < unit.vectors * 16; ++i) {
          const double term = double{unit.X(rows.offset[static_cast<size_t>(p)],
                                            i / 16, i % 16)} *
                              unit.Dy(r, i / 16, i % 16);
          sum += term;
          scale += std::abs(term);
        }
        EXPECT_NEAR(dw[static_cast<size_t>(p)], sum,
                    Bound(scale, unit.vectors + 4));
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
  const Segment segment = {nullptr, dy.data(), 1};
  const Unit unit = {.segments = &segment, .count = 1};
  Scalar().bias_gradient(unit, 0, &db, 0, 1);
  EXPECT_EQ(db, 1.0f);
  // Lanes 0 and 1 meet last: the one is lost in 1e8.
  dy[8] = 0;
  dy[9] = -1e8f;
  Scalar().bias_gradient(unit, 0, &db, 0, 1);
  EXPECT_EQ(db, 0.0f);
  // One fma per nonzero in index order, then the bias, then what was there.
  Rows rows{.rows = 1, .columns = 3, .start = {0, 3}, .offset = {0, 1, 2}};
  rows.value = {1e8f, 1.0f, -1e8f};
  const std::vector<float> x(48, 1.0f);
  std::vector<float> y(16, 1e8f);
  const float bias = 0.25f;
  Scalar().spmm(rows.view(), rows.value.data(), &bias, x.data(), y.data(),
                sparse::Run(), 0, 0, 1);
  EXPECT_EQ(y[0], 0.25f);
  y[0] = 1e-3f;
  Scalar().spmm(rows.view(), rows.value.data(), &bias, x.data(), y.data(),
                sparse::Run(), 1, 0, 1);
  EXPECT_EQ(y[0], 1e-3f + 0.25f);
}

}  // namespace
}  // namespace lumen::sparse
