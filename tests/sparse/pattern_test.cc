// SPDX-License-Identifier: Apache-2.0
#include "lumen/sparse/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "lumen/core/error.h"

namespace lumen::sparse {
namespace {

const RandomKey kKey = NewRandomKey(1, Stream::kMask, 0);

std::vector<int64_t> AllPositions(const Pattern& pattern) {
  std::vector<int64_t> positions(static_cast<size_t>(pattern.nnz()));
  pattern.Positions(0, positions);
  return positions;
}

TEST(RandomPattern, HasExactlyTheNonzerosSpreadOverTheRows) {
  for (auto [rows, columns, nnz] :
       {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1},
        {1, 1, 0},
        {10, 10, 100},
        {10, 10, 99},
        {7, 130, 1},
        {33, 65, 1000},
        {100, 1000, 5000},
        {5, 64, 200}}) {
    const Pattern p = NewRandomPattern(kKey, rows, columns, nnz, Parallel(1));
    ASSERT_EQ(p.nnz(), nnz);
    const auto start = p.row_start();
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t count = start[r + 1] - start[r];
      ASSERT_GE(count, nnz / rows);
      ASSERT_LE(count, (nnz + rows - 1) / rows);
    }
  }
}

TEST(RandomPattern, DependsOnTheKeyAndNotOnTheThreads) {
  const Pattern p = NewRandomPattern(kKey, 300, 200, 6000, Parallel(1));
  for (int threads : {2, 3}) {
    EXPECT_TRUE(p == NewRandomPattern(kKey, 300, 200, 6000, Parallel(threads)));
  }
  EXPECT_FALSE(p == NewRandomPattern(NewRandomKey(2, Stream::kMask, 0), 300,
                                     200, 6000, Parallel(1)));
}

TEST(RandomPattern, ColumnsAreUniform) {
  const Pattern p = NewRandomPattern(kKey, 20000, 50, 200000, Parallel(2));
  std::vector<int> hits(50);
  for (int32_t column : p.column()) ++hits[column];
  // 4000 expected, standard deviation 57.
  for (int count : hits) EXPECT_NEAR(count, 4000, 300);
}

TEST(Pattern, PositionsRoundTrip) {
  const Pattern p = NewRandomPattern(kKey, 40, 30, 333, Parallel(1));
  EXPECT_TRUE(p == PatternFromPositions(40, 30, AllPositions(p)));
  std::vector<int64_t> part(50);
  p.Positions(100, part);
  const std::vector<int64_t> all = AllPositions(p);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 100));
  EXPECT_TRUE(p == p.Clone());
  EXPECT_DOUBLE_EQ(p.density(), 333 / 1200.0);
}

TEST(Pattern, DisorderedOrStrayPositionsAreErrors) {
  for (std::vector<int64_t> bad :
       {std::vector<int64_t>{3, 2}, {3, 3}, {12}, {-1}}) {
    EXPECT_THROW(PatternFromPositions(3, 4, bad), SpecError);
  }
  EXPECT_EQ(PatternFromPositions(3, 4, std::vector<int64_t>{}).nnz(), 0);
}

TEST(KernelRows, TransposeHoldsTheSameWeights) {
  for (int64_t lanes : {16, 64, 128}) {
    const Pattern p = NewRandomPattern(kKey, 31, 57, 400, Parallel(1));
    const std::vector<int64_t> positions = AllPositions(p);
    KernelRows rows(p.Clone(), lanes, Parallel(2));
    std::vector<float> value(400);
    std::iota(value.begin(), value.end(), 1.0f);
    rows.RefreshTransposed(value, Parallel(2));
    const int64_t vectors = lanes / 16;
    std::map<int64_t, float> expected, found;
    for (size_t i = 0; i < positions.size(); ++i) {
      expected[positions[i]] = value[i];
    }
    const RowView t = rows.transposed();
    for (int64_t c = 0; c < 57; ++c) {
      for (int64_t q = t.start[c]; q < t.start[c + 1]; ++q) {
        if (q > t.start[c]) {
          ASSERT_GT(t.offset[q], t.offset[q - 1]);
        }
        found[t.offset[q] / vectors * 57 + c] = rows.transposed_value()[q];
      }
    }
    EXPECT_EQ(found, expected);
    EXPECT_TRUE(rows.ToPattern() == p);
    std::vector<int64_t> again(positions.size());
    rows.Positions(0, again);
    EXPECT_EQ(again, positions);
  }
}

TEST(KernelRows, ChunksCoverAllRowsInOrder) {
  const KernelRows rows(NewRandomPattern(kKey, 31, 57, 400, Parallel(1)), 16,
                        Parallel(1));
  for (int64_t chunks : {1, 2, 7, 100}) {
    for (const auto& bounds :
         {rows.ForwardChunks(chunks), rows.TransposedChunks(chunks)}) {
      ASSERT_EQ(static_cast<int64_t>(bounds.size()), chunks + 1);
      EXPECT_EQ(bounds.front(), 0);
      EXPECT_TRUE(std::is_sorted(bounds.begin(), bounds.end()));
    }
    EXPECT_EQ(rows.ForwardChunks(chunks).back(), 31);
    EXPECT_EQ(rows.TransposedChunks(chunks).back(), 57);
  }
}

TEST(Distribute, UniformGivesEveryLayerItsDensity) {
  const std::vector<LayerSize> layers = {
      {.rows = 100, .columns = 50},
      {.rows = 10, .columns = 100},
      {.rows = 10, .columns = 10, .excluded = true}};
  EXPECT_THAT(DistributeNonzeros(Distribution::kUniform, 0.1, layers),
              testing::ElementsAre(500, 100, 100));
}

TEST(Distribute, ErkGivesSmallLayersMoreAndCapsThem) {
  const std::vector<LayerSize> layers = {{.rows = 1024, .columns = 784},
                                         {.rows = 1024, .columns = 1024},
                                         {.rows = 10, .columns = 1024}};
  const auto nonzeros = DistributeNonzeros(Distribution::kErk, 0.1, layers);
  // The head would exceed density 1 and is full; the rest share what is left
  // in proportion to rows + columns (Evci et al. 2020).
  EXPECT_EQ(nonzeros[2], 10240);
  const double budget = 0.1 * (1024 * 784 + 1024 * 1024 + 10240) - 10240;
  EXPECT_NEAR(nonzeros[0], budget * 1808 / (1808 + 2048), 1);
  EXPECT_NEAR(nonzeros[1], budget * 2048 / (1808 + 2048), 1);
}

TEST(Distribute, NoLayerIsEmptyOrOverfull) {
  const std::vector<LayerSize> layers = {{.rows = 3, .columns = 3},
                                         {.rows = 1000, .columns = 1000}};
  for (auto kind : {Distribution::kUniform, Distribution::kErk}) {
    for (double density : {0.0, 1e-9, 0.5, 1.0}) {
      const auto nonzeros = DistributeNonzeros(kind, density, layers);
      EXPECT_GE(nonzeros[0], 1);
      EXPECT_LE(nonzeros[0], 9);
      EXPECT_GE(nonzeros[1], 1);
      EXPECT_LE(nonzeros[1], 1000000);
    }
  }
}

}  // namespace
}  // namespace lumen::sparse
