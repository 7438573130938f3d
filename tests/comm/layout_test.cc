// SPDX-License-Identifier: Apache-2.0
// Regions, owners, hosts, buckets and the shard tree: pure functions.
#include "../../comm/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../comm/tree.h"
#include "lumen/core/error.h"

namespace lumen::comm {
namespace {

using testing::ElementsAre;

TEST(Layout, RegionsDifferByAtMostOneAndEndAtTheLength) {
  EXPECT_THAT(RegionBounds(10, 4), ElementsAre(0, 3, 6, 8, 10));
  EXPECT_THAT(RegionBounds(0, 4), ElementsAre(0));
  EXPECT_THAT(RegionBounds(3, 64), ElementsAre(0, 1, 2, 3));
  const int64_t long_bucket = 5'000'000'007;  // above 2^32
  const auto bounds = RegionBounds(long_bucket, 64);
  ASSERT_EQ(bounds.size(), 65u);
  EXPECT_EQ(bounds.back(), long_bucket);
  for (size_t g = 1; g < bounds.size(); ++g) {
    const int64_t size = bounds[g] - bounds[g - 1];
    EXPECT_TRUE(size == long_bucket / 64 || size == long_bucket / 64 + 1);
  }
}

TEST(Layout, RegionsGrowWithWhatAShardSends) {
  ExchangeOptions options;
  options.shards = 8;
  const auto regions = [&](double density) {
    const std::string text = std::to_string(density);
    options.spec = Json::Parse(
        "{\"regions\": null, \"compressor\": {\"type\": "
        "\"topk\", \"density\": " +
            text + ", \"out_density\": null}}",
        "test");
    return ResolvedRegions(options, 4'000'000);
  };
  EXPECT_EQ(regions(0.0001), 8);   // 400 entries: never fewer than shards
  EXPECT_EQ(regions(0.0005), 24);  // 2000 entries, a multiple of 8
  EXPECT_EQ(regions(0.01), 64);
  options.shards = 100;
  EXPECT_EQ(regions(0.01), 100);
}

TEST(Layout, EveryShardHasOneHostAndEveryRegionOneOwner) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const int items : {9, 16, 64, 65}) {
      std::vector<int> hosted;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto mine = HostedShards(items, ranks, rank);
        EXPECT_TRUE(std::ssize(mine) == items / ranks ||
                    std::ssize(mine) == items / ranks + 1);
        for (const int s : mine) {
          hosted.push_back(s);
          EXPECT_EQ(RegionOwner(s, items, ranks), rank);
        }
      }
      for (int s = 0; s < items; ++s) EXPECT_EQ(hosted.at(s), s);
    }
  }
}

TEST(Layout, FewRegionsLeaveRanksWithoutOne) {
  EXPECT_EQ(RegionOwner(0, 2, 7), 0);
  EXPECT_EQ(RegionOwner(1, 2, 7), 1);
}

std::vector<int64_t> Sizes(const std::vector<Bucket>& buckets) {
  std::vector<int64_t> sizes;
  int64_t covered = 0;
  for (const Bucket& b : buckets) {
    EXPECT_EQ(b.begin, covered);
    covered = b.end;
    sizes.push_back(b.size());
  }
  return sizes;
}

TEST(Layout, BucketsEndAtTensorsAndCutLargeOnes) {
  const auto sizes = [](std::vector<int64_t> tensors, int64_t bucket) {
    return Sizes(NewBuckets(tensors, bucket));
  };
  EXPECT_THAT(sizes({}, 10), ElementsAre());
  EXPECT_THAT(sizes({0, 0}, 10), ElementsAre());
  EXPECT_THAT(sizes({4, 4, 4, 10, 1}, 10), ElementsAre(8, 4, 10, 1));
  EXPECT_THAT(sizes({3, 25, 1, 9}, 10), ElementsAre(3, 9, 8, 9, 9));
  EXPECT_THAT(sizes({3'000'000'000}, 1 << 30),
              ElementsAre(1'000'000'000, 1'000'000'000, 1'000'000'000));
}

// Dotted with its exact formula: the tree as text.
std::string Text(TreeNode node, int shards) {
  if (node.level == 0) return std::to_string(node.index);
  const auto left = Text(node.left(), shards);
  if (!node.has_right(shards)) return left;
  return "(" + left + "+" + Text(node.right(), shards) + ")";
}

TEST(Tree, NeighboursPairUpAndALoneLastNodeIsPassedUp) {
  EXPECT_EQ(Text(TreeRoot(1), 1), "0");
  EXPECT_EQ(Text(TreeRoot(2), 2), "(0+1)");
  EXPECT_EQ(Text(TreeRoot(3), 3), "((0+1)+2)");
  EXPECT_EQ(Text(TreeRoot(5), 5), "(((0+1)+(2+3))+4)");
  EXPECT_EQ(Text(TreeRoot(7), 7), "(((0+1)+(2+3))+((4+5)+6))");
}

TEST(Tree, TheCoversOfAllRanksPartitionTheShards) {
  for (int shards = 1; shards <= 20; ++shards) {
    for (int ranks = 1; ranks <= shards; ++ranks) {
      int next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Range hosted = Share(shards, ranks, rank);
        for (const TreeNode& node :
             TreeCover(shards, static_cast<int>(hosted.begin),
                       static_cast<int>(hosted.end))) {
          EXPECT_EQ(node.begin(), next);
          next = node.end(shards);
        }
        EXPECT_EQ(next, hosted.end);
      }
    }
  }
}

ExchangeOptions Large() {
  ExchangeOptions options;
  options.shards = 8;
  const int64_t tensors[] = {6'000'000'000, 3, 5'000'000'000};
  options.parameters = 11'000'000'003;
  options.buckets = NewBuckets(tensors, 4194304);
  options.spec = Json::Object();
  options.spec.Set("regions", Json());
  return options;
}

TEST(Layout, OwnedEntriesCoverMoreThan2To32ParametersExactly) {
  const ExchangeOptions options = Large();
  for (const int ranks : {1, 3, 7, 8}) {
    const Layout layout(options, ranks);
    int64_t covered = 0;
    for (int b = 0; b < layout.buckets(); ++b) {
      for (int rank = 0; rank < ranks; ++rank) {
        const Range part = layout.OwnedEntries(b, rank);
        ASSERT_EQ(layout.bucket(b).begin + part.begin, covered);
        covered += part.size();
      }
    }
    EXPECT_EQ(covered, options.parameters);
    int64_t owned = 0;
    for (int rank = 0; rank < ranks; ++rank) owned += layout.OwnedSize(rank);
    EXPECT_EQ(owned, options.parameters);
  }
}

TEST(Layout, MoreRanksThanShardsIsAnErrorWithTheFix) {
  try {
    Layout(Large(), 9);
    FAIL();
  } catch (const SpecError& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("train.shards: 8 shards for 9 ranks"));
  }
}

}  // namespace
}  // namespace lumen::comm
