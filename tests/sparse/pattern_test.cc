// SPDX-License-Identifier: Apache-2.0
#include "lumen/sparse/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "lumen/core/error.h"
#include "tests/sparse/kernel_data.h"

namespace lumen::sparse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

RandomKey Key(uint32_t item) { return NewRandomKey(7, Stream::kMask, item); }

std::vector<int64_t> AllPositions(const Pattern& pattern) {
  std::vector<int64_t> positions(static_cast<size_t>(pattern.nnz()));
  pattern.Positions(0, positions);
  return positions;
}

// Made ready for the kernels of a linear layer.
KernelRows Linear(Pattern pattern, int64_t lanes,
                  const Parallel& parallel = Parallel()) {
  const auto addressing =
      Addressing::OfLinear(pattern.rows(), pattern.columns(), lanes);
  return KernelRows(std::move(pattern), addressing, parallel);
}

Pattern Small() {
  // . 1 . 1
  // . . . .
  // 1 1 . .
  return PatternFromPositions(3, 4, std::vector<int64_t>{1, 3, 8, 9});
}

struct Size {
  int64_t rows, columns, nnz;
};
// Below, at and above half full, where drawing turns from ones to zeros.
constexpr Size kSizes[] = {{1, 1, 0},       {1, 1, 1},      {5, 7, 0},
                           {5, 7, 3},       {5, 7, 35},     {5, 7, 34},
                           {64, 10, 64},    {7, 130, 1},    {5, 64, 160},
                           {5, 64, 200},    {33, 65, 1000}, {200, 33, 999},
                           {3, 1000, 1500}, {1000, 1, 500}};

TEST(Pattern, RandomHasExactlyTheNonzerosSpreadEvenlyOverRows) {
  for (const Size& size : kSizes) {
    const Pattern p =
        NewRandomPattern(Key(1), size.rows, size.columns, size.nnz, Parallel());
    EXPECT_EQ(p.nnz(), size.nnz);
    EXPECT_EQ(p.rows(), size.rows);
    EXPECT_EQ(p.columns(), size.columns);
    int64_t fewest = size.columns, most = 0;
    for (int64_t r = 0; r < size.rows; ++r) {
      const auto begin = p.row_start()[static_cast<size_t>(r)];
      const auto end = p.row_start()[static_cast<size_t>(r + 1)];
      fewest = std::min(fewest, end - begin);
      most = std::max(most, end - begin);
      // Strictly ascending.
      for (int64_t i = begin + 1; i < end; ++i) {
        EXPECT_LT(p.column()[static_cast<size_t>(i - 1)],
                  p.column()[static_cast<size_t>(i)]);
      }
    }
    EXPECT_LE(most - fewest, 1);
  }
}

TEST(Pattern, RandomIsTheSameOnAnyNumberOfThreads) {
  for (const Size& size : kSizes) {
    const auto make = [&](int threads) {
      return NewRandomPattern(Key(2), size.rows, size.columns, size.nnz,
                              Parallel(threads));
    };
    const Pattern one = make(1);
    EXPECT_TRUE(one == make(2));
    EXPECT_TRUE(one == make(3));
  }
}

TEST(Pattern, RandomDependsOnTheKey) {
  const Pattern a = NewRandomPattern(Key(1), 50, 50, 250, Parallel());
  const Pattern b = NewRandomPattern(Key(2), 50, 50, 250, Parallel());
  EXPECT_FALSE(a == b);
}

TEST(Pattern, RandomColumnsAreUniform) {
  constexpr int64_t kColumns = 20;
  const Pattern p =
      NewRandomPattern(Key(3), 20000, kColumns, 60000, Parallel());
  std::vector<int64_t> count(kColumns);
  for (int32_t c : p.column()) ++count[static_cast<size_t>(c)];
  // Expected 3000 each, standard deviation about 50.
  for (int64_t n : count) EXPECT_NEAR(static_cast<double>(n), 3000, 300);
}

TEST(Pattern, PositionsRoundTrip) {
  for (const Size& size : kSizes) {
    const Pattern p =
        NewRandomPattern(Key(4), size.rows, size.columns, size.nnz, Parallel());
    const auto positions = AllPositions(p);
    EXPECT_TRUE(std::is_sorted(positions.begin(), positions.end()));
    EXPECT_TRUE(p == PatternFromPositions(size.rows, size.columns, positions));
    EXPECT_TRUE(p == p.Clone());
    // Any part of them.
    for (int64_t begin = 0; begin < p.nnz(); begin += 1 + p.nnz() / 7) {
      std::vector<int64_t> part(
          static_cast<size_t>(std::min<int64_t>(5, p.nnz() - begin)));
      p.Positions(begin, part);
      EXPECT_TRUE(
          std::equal(part.begin(), part.end(), positions.begin() + begin));
    }
    p.Positions(p.nnz(), {});
  }
}

TEST(Pattern, FromPositionsAbove32Bits) {
  const int64_t side = 100000;
  const std::vector<int64_t> positions = {7, side * side / 2, side * side - 1};
  const Pattern p = PatternFromPositions(side, side, positions);
  EXPECT_EQ(AllPositions(p), positions);
}

TEST(Pattern, FromPositionsRefusesDisorderAndRange) {
  const auto message = [](const std::vector<int64_t>& positions) {
    try {
      PatternFromPositions(3, 4, positions);
    } catch (const SpecError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message({1, 1}), HasSubstr("position 1; expected ascending"));
  EXPECT_THAT(message({5, 2}), HasSubstr("position 2"));
  EXPECT_THAT(message({-1}), HasSubstr("position -1"));
  EXPECT_THAT(message({0, 12}), HasSubstr("below 12"));
  EXPECT_EQ(message({}), "no error");
}

TEST(Pattern, DensityOfNothingIsZero) {
  EXPECT_EQ(Pattern().density(), 0.0);
  EXPECT_DOUBLE_EQ(Small().density(), 4.0 / 12);
}

TEST(KernelRows, OffsetsAndTransposeByHand) {
  const KernelRows rows = Linear(Small(), 32);
  EXPECT_EQ(rows.nnz(), 4);
  const RowView forward = rows.forward();
  EXPECT_THAT(std::vector<int64_t>(forward.start, forward.start + 4),
              ElementsAre(0, 2, 2, 4));
  EXPECT_THAT(std::vector<int32_t>(forward.offset, forward.offset + 4),
              ElementsAre(2, 6, 0, 2));  // column * 2 vectors
  const RowView transposed = rows.transposed();
  EXPECT_THAT(std::vector<int64_t>(transposed.start, transposed.start + 5),
              ElementsAre(0, 1, 3, 3, 4));
  EXPECT_THAT(std::vector<int32_t>(transposed.offset, transposed.offset + 4),
              ElementsAre(4, 0, 4, 0));  // row * 2 vectors, ascending
}

TEST(KernelRows, TransposedValuesFollowTheirWeights) {
  KernelRows rows = Linear(Small(), 16);
  const std::vector<float> value = {10, 11, 12, 13};
  rows.Refresh(value, Parallel());
  EXPECT_THAT(
      std::vector<float>(rows.transposed_value(), rows.transposed_value() + 4),
      ElementsAre(12, 10, 13, 11));
}

TEST(KernelRows, TransposeIsExactOnRandomPatternsAndAnyThreads) {
  for (const Size& size : kSizes) {
    const Pattern pattern =
        NewRandomPattern(Key(5), size.rows, size.columns, size.nnz, Parallel());
    std::map<std::pair<int64_t, int64_t>, float> wanted;
    std::vector<float> value(static_cast<size_t>(size.nnz));
    std::iota(value.begin(), value.end(), 1.0f);
    const auto positions = AllPositions(pattern);
    for (size_t i = 0; i < value.size(); ++i) {
      wanted[{positions[i] % size.columns, positions[i] / size.columns}] =
          value[i];
    }
    for (int threads : {1, 3}) {
      for (int64_t lanes : {16, 128}) {
        KernelRows rows = Linear(pattern.Clone(), lanes, Parallel(threads));
        rows.Refresh(value, Parallel(threads));
        std::map<std::pair<int64_t, int64_t>, float> found;
        const RowView t = rows.transposed();
        std::vector<int64_t> last(static_cast<size_t>(size.columns), -1);
        ForEntries(t, size.columns, [&](int64_t c, int64_t, int64_t p) {
          EXPECT_LT(last[static_cast<size_t>(c)], t.offset[p]);
          last[static_cast<size_t>(c)] = t.offset[p];
          found[{c, t.offset[p] / (lanes / 16)}] = rows.transposed_value()[p];
        });
        EXPECT_EQ(found, wanted);
        EXPECT_TRUE(rows.ToPattern() == pattern);
        std::vector<int64_t> again(positions.size());
        rows.Positions(0, again);
        EXPECT_EQ(again, positions);
      }
    }
  }
}

TEST(KernelRows, ChunksCoverTheRowsWithAboutEqualWork) {
  for (const Size& size : kSizes) {
    const KernelRows rows = Linear(
        NewRandomPattern(Key(6), size.rows, size.columns, size.nnz, Parallel()),
        16);
    for (int64_t chunks : {1, 2, 3, 8, 64}) {
      for (bool transposed : {false, true}) {
        const auto bounds = transposed ? rows.TransposedChunks(chunks)
                                       : rows.ForwardChunks(chunks);
        const RowView view = transposed ? rows.transposed() : rows.forward();
        const int64_t end = transposed ? size.columns : size.rows;
        ASSERT_EQ(std::ssize(bounds), chunks + 1);
        EXPECT_EQ(bounds.front(), 0);
        EXPECT_EQ(bounds.back(), end);
        EXPECT_TRUE(std::is_sorted(bounds.begin(), bounds.end()));
        std::vector<int64_t> start(static_cast<size_t>(end) + 1, 0);
        ForEntries(view, end, [&](int64_t r, int64_t, int64_t) {
          ++start[static_cast<size_t>(r) + 1];
        });
        const int64_t longest_row = std::ranges::max(start);
        for (size_t r = 1; r < start.size(); ++r) start[r] += start[r - 1];
        for (size_t c = 1; c < bounds.size(); ++c) {
          const int64_t work = start[static_cast<size_t>(bounds[c])] -
                               start[static_cast<size_t>(bounds[c - 1])];
          EXPECT_LE(work, size.nnz / chunks + longest_row + 1)
              << size.rows << "x" << size.columns << " " << size.nnz << " in "
              << chunks;
        }
      }
    }
  }
}

TEST(KernelRows, MemoryIsSixteenBytesPerNonzero) {
  EXPECT_EQ(KernelRows::MemoryBytes(Addressing::OfLinear(10, 20, 64), 100),
            1600 + 2 * 88 + 2 * 168);
}

TEST(Distribute, UniformGivesEveryLayerTheDensity) {
  const LayerSize layers[] = {{.rows = 100, .columns = 200},
                              {.rows = 50, .columns = 100}};
  EXPECT_THAT(DistributeNonzeros(Distribution::kUniform, 0.1, layers),
              ElementsAre(2000, 500));
}

TEST(Distribute, ExcludedLayersAreFullAndOutsideTheBudget) {
  const LayerSize layers[] = {{.rows = 100, .columns = 200},
                              {.rows = 10, .columns = 100, .excluded = true}};
  for (auto distribution : {Distribution::kUniform, Distribution::kErk}) {
    EXPECT_THAT(DistributeNonzeros(distribution, 0.1, layers),
                ElementsAre(2000, 1000));
  }
}

TEST(Distribute, ErkIsProportionalToTheSidesOverTheirProduct) {
  const LayerSize layers[] = {{.rows = 1000, .columns = 1000},
                              {.rows = 1000, .columns = 100}};
  const auto n = DistributeNonzeros(Distribution::kErk, 0.1, layers);
  const double d0 = static_cast<double>(n[0]) / 1e6;
  const double d1 = static_cast<double>(n[1]) / 1e5;
  EXPECT_NEAR(d1 / d0, (1100.0 / 1e5) / (2000.0 / 1e6), 1e-3);
  EXPECT_NEAR(static_cast<double>(n[0] + n[1]), 110000, 1);
}

TEST(Distribute, ErkOfConvolutionsUsesTheWindow) {
  const LayerSize layers[] = {
      {.rows = 64, .columns = 64 * 9, .window = 9, .window_sides = 6},
      {.rows = 256, .columns = 256 * 9, .window = 9, .window_sides = 6}};
  const auto n = DistributeNonzeros(Distribution::kErk, 0.1, layers);
  const double d0 = static_cast<double>(n[0]) / (64 * 64 * 9);
  const double d1 = static_cast<double>(n[1]) / (256 * 256 * 9);
  const double wanted = (134.0 / (64 * 64 * 9)) / (518.0 / (256.0 * 256 * 9));
  EXPECT_NEAR(d0 / d1, wanted, 1e-3);
}

TEST(Distribute, ErkCapsLayersAtFullAndKeepsTheTotal) {
  const LayerSize layers[] = {{.rows = 2000, .columns = 2000},
                              {.rows = 500, .columns = 600},
                              {.rows = 10, .columns = 20}};
  for (double density : {0.02, 0.1, 0.3, 0.7, 0.95, 1.0}) {
    const auto n = DistributeNonzeros(Distribution::kErk, density, layers);
    int64_t total = 0;
    for (size_t i = 0; i < n.size(); ++i) {
      EXPECT_GE(n[i], 1);
      EXPECT_LE(n[i], layers[i].rows * layers[i].columns);
      total += n[i];
    }
    EXPECT_NEAR(static_cast<double>(total), density * 4300200, 2) << density;
    if (density >= 0.1) {
      EXPECT_EQ(n[2], 200) << density;
    }
  }
}

TEST(Distribute, EveryLayerKeepsAtLeastOneWeight) {
  const LayerSize small_and_large[] = {{.rows = 3, .columns = 3},
                                       {.rows = 1000, .columns = 1000}};
  for (auto kind : {Distribution::kUniform, Distribution::kErk}) {
    for (double density : {0.0, 1e-9, 0.5, 1.0}) {
      const auto nonzeros = DistributeNonzeros(kind, density, small_and_large);
      EXPECT_GE(nonzeros[0], 1);
      EXPECT_LE(nonzeros[0], 9);
      EXPECT_GE(nonzeros[1], 1);
      EXPECT_LE(nonzeros[1], 1000000);
    }
  }
  const LayerSize layers[] = {{.rows = 1000, .columns = 1000},
                              {.rows = 2, .columns = 2}};
  EXPECT_THAT(DistributeNonzeros(Distribution::kUniform, 1e-4, layers),
              ElementsAre(100, 1));
  EXPECT_THAT(DistributeNonzeros(Distribution::kUniform, 0.1, {}),
              ElementsAre());
}

}  // namespace
}  // namespace lumen::sparse
