// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/permutation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace lumen {
namespace {

RandomKey Key(uint64_t seed) { return NewRandomKey(seed, Stream::kOrder, 0); }

std::vector<int64_t> Order(uint64_t seed, uint32_t epoch, int64_t size) {
  const Permutation permutation(Key(seed), epoch, size);
  std::vector<int64_t> order;
  for (int64_t i = 0; i < size; ++i) order.push_back(permutation(i));
  return order;
}

TEST(Permutation, EveryIndexOccursOnce) {
  for (const int64_t size :
       {0, 1, 2, 3, 4, 5, 10, 16, 17, 1000, 65536, 65537, 100000}) {
    for (const uint32_t epoch : {0, 1}) {
      std::vector<bool> seen(static_cast<size_t>(size));
      for (const int64_t index : Order(1, epoch, size)) {
        ASSERT_GE(index, 0);
        ASSERT_LT(index, size);
        ASSERT_FALSE(seen[static_cast<size_t>(index)]) << index << " " << size;
        seen[static_cast<size_t>(index)] = true;
      }
    }
  }
}

TEST(Permutation, EpochsAndSeedsDiffer) {
  EXPECT_EQ(Order(1, 0, 1000), Order(1, 0, 1000));
  EXPECT_NE(Order(1, 0, 1000), Order(1, 1, 1000));
  EXPECT_NE(Order(1, 0, 1000), Order(2, 0, 1000));
}

TEST(Permutation, LargeRangesNeedNoMemory) {
  const int64_t size = (int64_t{1} << 40) + 7;
  const Permutation permutation(Key(1), 0, size);
  for (const int64_t index : {int64_t{0}, int64_t{1} << 33, size - 1}) {
    EXPECT_GE(permutation(index), 0);
    EXPECT_LT(permutation(index), size);
  }
}

// Where each index lands over many epochs, by a chi-square test: 99 degrees of
// freedom exceed 172 with probability 1e-5. The draws never change.
TEST(Permutation, EveryPlaceIsEquallyLikely) {
  constexpr int kSize = 10;
  constexpr int kEpochs = 20000;
  std::vector<int> counts(kSize * kSize);
  for (uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
    const auto order = Order(3, epoch, kSize);
    for (int64_t i = 0; i < kSize; ++i) {
      ++counts[static_cast<size_t>(i * kSize + order[static_cast<size_t>(i)])];
    }
  }
  const double expected = static_cast<double>(kEpochs) / kSize;
  double chi_square = 0;
  for (const int count : counts) {
    chi_square += (count - expected) * (count - expected) / expected;
  }
  EXPECT_LT(chi_square, 172);
}

// Neighbours end up a third of the range apart on average, as they should.
TEST(Permutation, NeighboursAreScattered) {
  constexpr int64_t kSize = 60000;
  const auto order = Order(1, 0, kSize);
  double sum = 0;
  for (size_t i = 1; i < order.size(); ++i) {
    sum += static_cast<double>(std::abs(order[i] - order[i - 1]));
  }
  EXPECT_NEAR(sum / (kSize - 1) / kSize, 1.0 / 3, 0.01);
}

// Resume and other machines need the same order.
TEST(Permutation, OrderNeverChanges) {
  EXPECT_EQ(Order(1, 0, 10),
            (std::vector<int64_t>{8, 9, 7, 3, 6, 2, 4, 0, 5, 1}));
}

}  // namespace
}  // namespace lumen
