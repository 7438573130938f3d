// SPDX-License-Identifier: Apache-2.0
// What pooling and joining layers do at ties, NaNs and bad shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "layer_bench.h"
#include "lumen/core/error.h"

namespace lumen::nn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Shape Map(int64_t channels, int64_t height, int64_t width) {
  return {.channels = channels, .height = height, .width = width};
}

// One layer on one sample of one channel.
struct Pool {
  Pool(const std::string& type, const std::string& keys, Shape shape,
       const std::vector<float>& x)
      : bench(NewLayer(type, {keys, {shape}}), {shape}, 1) {
    for (size_t e = 0; e < x.size(); ++e) {
      bench.x[0]->At(0, static_cast<int64_t>(e)) = x[e];
    }
    bench.Forward();
  }
  std::vector<float> Outputs() { return Sample(bench.y.get()); }
  std::vector<float> Gradients(const std::vector<float>& dy) {
    for (size_t e = 0; e < dy.size(); ++e) {
      bench.dy->At(0, static_cast<int64_t>(e)) = dy[e];
    }
    bench.Backward();
    return Sample(bench.dx[0].get());
  }
  static std::vector<float> Sample(OwnedPanel* panel) {
    std::vector<float> values;
    for (int64_t e = 0; e < panel->panel.shape.elements(); ++e) {
      values.push_back(panel->At(0, e));
    }
    return values;
  }
  LayerBench bench;
};

TEST(MaxPool, TheFirstOfEqualPixelsGetsTheGradient) {
  Pool pool("max_pool", R"("window": [2])", Map(1, 2, 4),
            {1, 3, 2, 2,  //
             3, 3, 2, 2});
  EXPECT_THAT(pool.Outputs(), ElementsAre(3, 2));
  EXPECT_THAT(pool.Gradients({5, 7}), ElementsAre(0, 5, 7, 0,  //
                                                  0, 0, 0, 0));
}

TEST(MaxPool, OverlappingWindowsAddTheirGradients) {
  Pool pool("max_pool", R"("window": [1, 3], "stride": [1])", Map(1, 1, 5),
            {1, 2, 9, 4, 3});
  EXPECT_THAT(pool.Outputs(), ElementsAre(9, 9, 9));
  EXPECT_THAT(pool.Gradients({1, 2, 4}), ElementsAre(0, 0, 7, 0, 0));
}

TEST(MaxPool, PaddingIsBelowEveryNumber) {
  Pool pool("max_pool", R"("window": [3], "stride": [2], "padding": [1])",
            Map(1, 2, 2), {-5, -kInfinity, -7, -6});
  EXPECT_THAT(pool.Outputs(), ElementsAre(-5));
  EXPECT_THAT(pool.Gradients({2}), ElementsAre(2, 0, 0, 0));
  Pool lowest("max_pool", R"("window": [1, 2])", Map(1, 1, 2),
              {-kInfinity, -kInfinity});
  EXPECT_THAT(lowest.Outputs(), ElementsAre(-kInfinity));
  EXPECT_THAT(lowest.Gradients({2}), ElementsAre(2, 0));
}

TEST(MaxPool, ANanIsSeen) {
  for (size_t at = 0; at < 4; ++at) {
    std::vector<float> x = {1, 2, 3, 4};
    x[at] = kNan;
    Pool pool("max_pool", R"("window": [2])", Map(1, 2, 2), x);
    EXPECT_TRUE(std::isnan(pool.Outputs()[0])) << at;
    std::vector<float> expected(4, 0.0f);
    expected[at] = 1;
    EXPECT_EQ(pool.Gradients({1}), expected);
  }
}

TEST(MaxPool, ARowLeftOverIsLeftOut) {
  Pool pool("max_pool", R"("window": [2])", Map(1, 3, 3),
            {1, 2, 9,  //
             3, 4, 9,  //
             9, 9, 9});
  EXPECT_THAT(pool.Outputs(), ElementsAre(4));
}

TEST(AvgPool, PaddingCountsAsZeros) {
  Pool pool("avg_pool", R"("window": [2], "padding": [1])", Map(1, 2, 2),
            {4, 8, 12, 16});
  EXPECT_THAT(pool.Outputs(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(pool.Gradients({4, 8, 12, 16}), ElementsAre(1, 2, 3, 4));
}

TEST(AvgPool, ANanIsSeen) {
  Pool pool("avg_pool", R"("window": [1, 2])", Map(1, 1, 2), {1, kNan});
  EXPECT_TRUE(std::isnan(pool.Outputs()[0]));
}

TEST(GlobalPool, IsTheMeanOfAllPixels) {
  Pool pool("global_pool", "", Map(2, 2, 2), {1, 2, 3, 4, 10, 20, 30, 40});
  EXPECT_THAT(pool.Outputs(), ElementsAre(2.5f, 25));
  EXPECT_THAT(pool.Gradients({4, 8}), ElementsAre(1, 1, 1, 1, 2, 2, 2, 2));
}

TEST(Concat, ChannelsFollowOneAnotherInTheOrderOfTheInputs) {
  const std::vector<Shape> shapes = {Map(1, 1, 2), Map(2, 1, 2)};
  LayerBench bench(NewLayer("concat", {"", shapes}), shapes, 17);
  EXPECT_EQ(bench.layer->output_shape(), Map(3, 1, 2));
  bench.Forward();
  bench.Backward();
  for (int64_t s : {0, 16}) {
    for (int64_t e = 0; e < 6; ++e) {
      const size_t input = e < 2 ? 0 : 1;
      const int64_t of = e < 2 ? e : e - 2;
      EXPECT_EQ(bench.y->At(s, e), bench.x[input]->At(s, of));
      EXPECT_EQ(bench.dx[input]->At(s, of), bench.dy->At(s, e));
    }
  }
}

std::string ErrorOf(const std::string& type, const Example& example) {
  try {
    NewLayer(type, example);
  } catch (const SpecError& error) {
    return error.what();
  }
  return "";
}

TEST(Pool, ErrorsSayWhereWhatAndWhatWasExpected) {
  for (const char* type : {"max_pool", "avg_pool"}) {
    const std::string where = std::string("test.json:2: ") + type + " \"it\": ";
    EXPECT_EQ(ErrorOf(type, {R"("window": [3])", {Map(2, 2, 5)}}),
              where +
                  "input is 2x2x5 and the window spans 3; expected a "
                  "window no larger than input and padding");
    EXPECT_EQ(
        ErrorOf(type, {R"("window": [3], "padding": [2])", {Map(2, 5, 5)}}),
        where +
            "padding 2 for a window of 3; expected at most half of "
            "it");
    EXPECT_THAT(ErrorOf(type, {R"("window": [2])",
                               {{.depth = 2, .height = 4, .width = 4}}}),
                HasSubstr("expected channels, height and width"));
    EXPECT_THAT(ErrorOf(type, {R"("window": [2, 2, 2])", {Map(1, 4, 4)}}),
                HasSubstr("3 numbers; expected one, or rows and columns"));
  }
}

TEST(Concat, ErrorsSayWhereWhatAndWhatWasExpected) {
  EXPECT_EQ(ErrorOf("concat", {"", {Map(2, 3, 4), Map(1, 3, 5)}}),
            "test.json:2: concat \"it\": inputs are 2x3x4 and 1x3x5; expected "
            "equal depths, heights and widths");
  EXPECT_EQ(ErrorOf("concat", {"", {Map(2, 3, 4)}}),
            "test.json:2: concat \"it\": 1 inputs; expected two or more in "
            "\"from\"");
}

TEST(GroupNorm, GroupsThatDoNotDivideAreAnError) {
  EXPECT_EQ(ErrorOf("group_norm", {R"("groups": 4)", {Map(6, 3, 4)}}),
            "test.json:2: group_norm \"it\": 4 groups of 6 channels; expected "
            "groups to divide the channels");
}

TEST(GroupNorm, ASampleDoesNotSeeTheOthers) {
  const Shape shape = Map(4, 2, 3);
  LayerBench one(NewLayer("group_norm", {R"("groups": 2)", {shape}}), {shape},
                 1);
  LayerBench many(NewLayer("group_norm", {R"("groups": 2)", {shape}}), {shape},
                  20);
  for (int64_t e = 0; e < shape.elements(); ++e) {
    many.x[0]->At(18, e) = one.x[0]->At(0, e);
    many.dy->At(18, e) = one.dy->At(0, e);
  }
  for (LayerBench* bench : {&one, &many}) {
    bench->Forward();
    bench->Backward();
  }
  for (int64_t e = 0; e < shape.elements(); ++e) {
    EXPECT_EQ(many.y->At(18, e), one.y->At(0, e));
    EXPECT_EQ(many.dx[0]->At(18, e), one.dx[0]->At(0, e));
  }
}

}  // namespace
}  // namespace lumen::nn
