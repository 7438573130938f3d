// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/philox.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace lumen {
namespace {

using Words = std::array<uint32_t, 4>;

// philox4x32-10 in the known-answer file of Random123 (kat_vectors).
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EveryPartOfTheCounterMatters) {
  std::set<Words> seen;
  int64_t draws = 0;
  for (const uint64_t seed : {uint64_t{1}, uint64_t{1} << 32}) {
    for (const Stream stream : {Stream::kOrder, Stream::kInit}) {
      for (const uint32_t item : {0, 1}) {
        const RandomKey key = NewRandomKey(seed, stream, item);
        for (const uint32_t epoch : {0, 1}) {
          for (const uint64_t sample :
               {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
            for (const uint32_t element : {0, 1}) {
              seen.insert(Draw(key, epoch, sample, element));
              ++draws;
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(static_cast<int64_t>(seen.size()), draws);
}

// Streams are part of the mathematics: a change breaks every resume.
TEST(Philox, DrawsNeverChange) {
  const RandomKey key = NewRandomKey(1, Stream::kMask, 2);
  EXPECT_EQ(key.key, (std::array<uint32_t, 2>{1832274618, 2009480290}));
  EXPECT_EQ(Draw(key, 3, 4, 5),
            (Words{2241528144, 3066512135, 1713365700, 1577693279}));
}

TEST(Philox, UnitFloatsAreBelowOneAndEven) {
  EXPECT_EQ(UnitFloat(0), 0.0f);
  EXPECT_LT(UnitFloat(0xffffffff), 1.0f);
  const RandomKey key = NewRandomKey(7, Stream::kDropout, 0);
  double sum = 0;
  constexpr uint32_t kDraws = 100000;
  for (uint32_t i = 0; i < kDraws; ++i) {
    for (const uint32_t word : Draw(key, 0, 0, i)) sum += UnitFloat(word);
  }
  // Six standard deviations of the mean of 400000 draws.
  EXPECT_NEAR(sum / (4.0 * kDraws), 0.5, 6 * 0.2887 / 632.5);
}

}  // namespace
}  // namespace lumen
