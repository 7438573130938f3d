// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/panel.h"

#include <gtest/gtest.h>

namespace lumen {
namespace {

TEST(Shape, NamesItsDimensions) {
  EXPECT_EQ((Shape{.channels = 512}).ToString(), "512");
  EXPECT_EQ((Shape{64, 1, 28, 28}).ToString(), "64x28x28");
  EXPECT_EQ((Shape{8, 1, 1, 5}).ToString(), "8x1x5");
  EXPECT_EQ((Shape{3, 4, 5, 6}).ToString(), "3x4x5x6");
  EXPECT_EQ((Shape{3, 4, 5, 6}).elements(), 360);
  EXPECT_EQ((Shape{1 << 20, 1, 1 << 10, 1 << 10}).elements(), int64_t{1} << 40);
}

TEST(LaneLayout, UsesAsFewTilesAsPossible) {
  EXPECT_EQ(LaneLayout::For(64), (LaneLayout{64, 1, 64}));
  EXPECT_EQ(LaneLayout::For(128), (LaneLayout{128, 1, 128}));
  EXPECT_EQ(LaneLayout::For(129), (LaneLayout{129, 2, 80}));
  EXPECT_EQ(LaneLayout::For(256), (LaneLayout{256, 2, 128}));
  EXPECT_EQ(LaneLayout::For(1), (LaneLayout{1, 1, 16}));
  EXPECT_EQ(LaneLayout::For(100, 16), (LaneLayout{100, 7, 16}));
}

TEST(LaneLayout, NoSamplesMeansNoTiles) {
  const LaneLayout layout = LaneLayout::For(0);
  EXPECT_EQ(layout.tiles, 0);
  EXPECT_EQ(layout.total_lanes(), 0);
  EXPECT_EQ(layout.lane_use(), 0.0);
}

TEST(LaneLayout, HoldsEverySampleAndNoEmptyTile) {
  for (const int64_t max_lanes : {16, 32, 64, 128}) {
    for (int64_t samples = 1; samples < 3000; ++samples) {
      const LaneLayout layout = LaneLayout::For(samples, max_lanes);
      ASSERT_GE(layout.total_lanes(), samples);
      ASSERT_LT((layout.tiles - 1) * layout.lanes, samples)
          << samples << " " << max_lanes;
      ASSERT_EQ(layout.lanes % kVectorLanes, 0);
      ASSERT_LE(layout.lanes, max_lanes);
      ASSERT_GT(layout.lane_use(), 0.0);
      ASSERT_LE(layout.lane_use(), 1.0);
    }
  }
}

TEST(LaneLayoutDeathTest, LanesComeInVectors) {
  EXPECT_DEATH(LaneLayout::For(100, 100), "");
  EXPECT_DEATH(LaneLayout::For(-1), "");
}

TEST(Panel, TilesFollowOneAnother) {
  Panel panel;
  panel.shape = {.channels = 3, .height = 2, .width = 2};
  panel.layout = LaneLayout::For(130);
  EXPECT_EQ(panel.tile_size(), 12 * 80);
  EXPECT_EQ(panel.size(), 2 * 12 * 80);
  float value = 0;
  panel.data = &value;
  EXPECT_EQ(panel.tile(0), &value);
}

}  // namespace
}  // namespace lumen
