// SPDX-License-Identifier: Apache-2.0
#include "lumen/comm/compressor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <new>
#include <numeric>

#include "lumen/core/buffer.h"
#include "lumen/core/philox.h"

namespace lumen::comm {
namespace {

using testing::ElementsAre;

// The definition: sort by magnitude bits, ties by index, take k.
std::vector<int32_t> Definition(const std::vector<float>& x, int64_t k) {
  std::vector<int32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int32_t i) {
    return std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFF;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return key(a) > key(b); });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

std::vector<int32_t> Select(const std::vector<float>& x, int64_t k,
                            int threads = 1) {
  std::vector<int32_t> position = {7, 7, 7};
  SelectLargest(Parallel(threads), x, k, &position);
  return position;
}

std::vector<float> Random(uint32_t seed, int64_t n, int levels) {
  std::vector<float> x(n);
  for (int64_t i = 0; i < n; ++i) {
    const auto draw = Philox({static_cast<uint32_t>(i), seed, 0, 0}, {1, 2});
    float value = UnitFloat(draw[0]) - 0.5f;
    if (levels) value = std::floor(value * static_cast<float>(levels));
    x[i] = value * std::ldexp(1.0f, static_cast<int>(draw[1] % 8));
  }
  return x;
}

TEST(Compressor, KeptEntriesIsAtLeastOneAndAtMostAll) {
  EXPECT_EQ(KeptEntries(0.01, 0), 0);
  EXPECT_EQ(KeptEntries(0, 5), 1);
  EXPECT_EQ(KeptEntries(0.01, 1), 1);
  EXPECT_EQ(KeptEntries(0.01, 149), 1);
  EXPECT_EQ(KeptEntries(0.01, 150), 2);
  EXPECT_EQ(KeptEntries(1, 150), 150);
  EXPECT_EQ(KeptEntries(7, 150), 150);
  EXPECT_EQ(KeptEntries(0.5, int64_t{1} << 40), int64_t{1} << 39);
}

TEST(Compressor, TiesGoToTheLowestIndex) {
  const std::vector<float> x = {1, -2, 2, 1, -2, 2, -1};
  EXPECT_THAT(Select(x, 1), ElementsAre(1));
  EXPECT_THAT(Select(x, 3), ElementsAre(1, 2, 4));
  EXPECT_THAT(Select(x, 5), ElementsAre(0, 1, 2, 4, 5));
  EXPECT_THAT(Select(x, 7), ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

TEST(Compressor, TiesAreCutByIndexOnlyAtExactlyEqualMagnitude) {
  // An overshoot must not favour low indices: the last bit decides.
  std::vector<float> x(10000, 1.0f);
  for (int64_t i = 5000; i < 10000; ++i) x[i] = std::nextafter(1.0f, 2.0f);
  const auto position = Select(x, 6000);
  EXPECT_EQ(std::count_if(position.begin(), position.end(),
                          [](int32_t p) { return p >= 5000; }),
            5000);
  EXPECT_EQ(position[999], 999);
  EXPECT_EQ(position[1000], 5000);
}

TEST(Compressor, ZerosFillUpWhenThereAreTooFewNonzeros) {
  EXPECT_THAT(Select(std::vector<float>(40, 0.0f), 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(Select({0, 0, 5, -0.0f, 0, -1}, 4), ElementsAre(0, 1, 2, 5));
}

TEST(Compressor, NoEntriesAndAllEntriesAreLegal) {
  EXPECT_THAT(Select({}, 0), ElementsAre());
  EXPECT_THAT(Select({1, 2}, 0), ElementsAre());
  EXPECT_THAT(Select({1, 2}, 2), ElementsAre(0, 1));
}

TEST(Compressor, NanSortsAboveInfinityAndDenormalsCount) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_THAT(Select({0, tiny, nan, 1, -inf}, 1), ElementsAre(2));
  EXPECT_THAT(Select({0, tiny, nan, 1, -inf}, 2), ElementsAre(2, 4));
  EXPECT_THAT(Select({0, tiny, nan, 1, -inf}, 4), ElementsAre(1, 2, 3, 4));
}

TEST(Compressor, EqualsTheDefinitionForAnyDataAndThreads) {
  for (const int64_t n : {1, 2, 15, 16, 17, 1000, 30000, 300000}) {
    for (const int levels : {0, 2, 50}) {
      const auto x = Random(static_cast<uint32_t>(n + levels), n, levels);
      for (const double density : {0.0, 0.001, 0.01, 0.3, 0.999}) {
        const int64_t k = KeptEntries(density, n);
        const auto expected = Definition(x, k);
        EXPECT_EQ(Select(x, k), expected) << n << " " << k << " " << levels;
        EXPECT_EQ(Select(x, k, 3), expected) << n << " " << k << " " << levels;
      }
    }
  }
}

TEST(Compressor, ASampleThatMisleadsChangesNothing) {
  const int64_t n = 200000;
  for (const float sampled : {0.0f, 1e-20f, 100.0f}) {
    auto x = Random(5, n, 0);
    for (int64_t i = 0; i < n; i += 64) x[i] = sampled;  // what is looked at
    for (const int64_t k : {1, 20, 2000, 3125, 3126, 100000, 199999}) {
      EXPECT_EQ(Select(x, k), Definition(x, k)) << sampled << " " << k;
    }
  }
}

TEST(Compressor, FewNonzerosAmongManyZerosAreFound) {
  const int64_t n = 200000;
  std::vector<float> x(n);
  for (int64_t i = 0; i < 100; ++i)
    x[i * 1999 + 3] = static_cast<float>(i - 50);
  for (const int64_t k : {1, 50, 98, 99, 100, 101, 5000, 199999}) {
    EXPECT_EQ(Select(x, k), Definition(x, k)) << k;
  }
}

TEST(Compressor, PositionsUpToTwoToThe31AreExact) {
  Buffer<float> x;
  try {
    x = Buffer<float>((int64_t{1} << 31) - 1);  // zeros; few pages are written
  } catch (const std::bad_alloc&) {
    GTEST_SKIP() << "needs 8 GiB of address space";
  }
  const int32_t expected[] = {5, (1 << 24) + 1, (1 << 24) + 2,
                              (int32_t{1} << 30) + 3,
                              std::numeric_limits<int32_t>::max() - 1};
  for (const int32_t p : expected) x[p] = 1e-3f;
  std::vector<int32_t> position;
  SelectLargest(Parallel(1), x.span(), 5, &position);
  EXPECT_THAT(position, testing::ElementsAreArray(expected));
}

// Every row of the table keeps its promises on awkward input.
TEST(Compressor, EveryRowSelectsAscendingPositionsInRange) {
  for (const CompressorRow& row : Compressors()) {
    Json spec = Resolve(Json::Object(), row.keys);
    spec.Set("type", Json(std::string(row.type)));
    const auto compressor = NewCompressor(spec);
    for (const int64_t n : {0, 1, 3, 100, 20000}) {
      const auto x = Random(3, n, 3);
      for (const int64_t kept :
           {compressor->KeptOfShard(n), compressor->KeptOfRegion(n)}) {
        ASSERT_TRUE(kept >= std::min<int64_t>(n, 1) && kept <= n);
        std::vector<int32_t> position;
        compressor->Select(Parallel(2), x, kept, &position);
        ASSERT_EQ(std::ssize(position), kept);
        for (int64_t i = 0; i < kept; ++i) {
          EXPECT_TRUE(position[i] >= 0 && position[i] < n);
          if (i > 0) {
            EXPECT_LT(position[i - 1], position[i]);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace lumen::comm
