// SPDX-License-Identifier: Apache-2.0
#include "lumen/nn/loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "numeric_gradient.h"

namespace lumen::nn {
namespace {

TEST(LossTable, EveryRowPassesTheNumericGradient) {
  for (const LossRow& row : LossTable()) {
    SCOPED_TRACE(row.type);
    std::string loss = "{\"type\": \"" + std::string(row.type) + "\"";
    if (row.type == "softmax_cross_entropy")
      loss += ", \"label_smoothing\": 0.2";
    Network network(
        "{\"layers\": [{\"type\": \"linear\", \"units\": 4}], \"loss\": " +
            loss + "}}",
        {6}, 4, 20, NewCompute(sparse::DetectIsa(), 1));
    network.labels[3] = -1;
    ExpectNumericGradient(&network);
    if (!TakesValues(Json::Parse(loss + "}", "test"))) continue;
    std::vector<float> values(static_cast<size_t>(4 * network.layout.lanes));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i % 11) / 10.0f;
    }
    network.values = {values.data(), {4}, network.layout};
    ExpectNumericGradient(&network);
  }
}

TEST(Loss, ValuesAreThoseOfTheFormula) {
  const sparse::Compute compute = NewCompute(sparse::DetectIsa(), 1);
  const double smoothing = 0.1;
  const auto loss = NewLoss(Json::Parse(R"({"type": "softmax_cross_entropy",
                                            "label_smoothing": 0.1})",
                                        "test"),
                            3);
  std::vector<float> z(3 * 16, 0.0f);
  const Panel panel{z.data(), {3}, LaneLayout::For(3)};
  const float scores[3][3] = {{1, 2, 3}, {0, 0, 0}, {-50, 60, 1}};
  for (int i = 0; i < 3; ++i) {
    for (int c = 0; c < 3; ++c) z[c * 16 + i] = scores[i][c];
  }
  const std::vector<int32_t> labels = {2, -1, 0};  // the second is masked
  const LossSums sums = loss->Compute(compute, panel, {.labels = labels},
                                      Loss::kWithGradient, 0.5f);
  EXPECT_EQ(sums.samples, 2);
  double expected = 0;
  for (int i : {0, 2}) {
    double total = 0;
    for (float s : scores[i]) total += std::exp(double{s});
    for (int c = 0; c < 3; ++c) {
      const double target =
          smoothing / 3 + (labels[i] == c ? 1 - smoothing : 0);
      expected -= target * (scores[i][c] - std::log(total));
      EXPECT_NEAR(z[c * 16 + i],
                  0.5 * (std::exp(scores[i][c]) / total - target), 1e-6);
    }
  }
  EXPECT_NEAR(sums.loss, expected, 1e-5);
  EXPECT_EQ(sums.metrics.at(0), 1);  // the first is right, the third is not
  for (int l = 0; l < 16; ++l) {
    if (l == 0 || l == 2) continue;
    for (int c = 0; c < 3; ++c) EXPECT_EQ(z[c * 16 + l], 0) << l;
  }
}

std::unique_ptr<Loss> NewCrossEntropy(int64_t classes, double smoothing) {
  return NewLoss(Json::Parse("{\"type\": \"softmax_cross_entropy\", "
                             "\"label_smoothing\": " +
                                 std::to_string(smoothing) + "}",
                             "test"),
                 classes);
}

// scores[sample][class]
LossSums Compute(const std::vector<std::vector<float>>& scores,
                 const std::vector<int32_t>& labels, double smoothing) {
  const auto classes = std::ssize(scores[0]);
  const LaneLayout layout = LaneLayout::For(std::ssize(scores));
  std::vector<float> z(static_cast<size_t>(classes * layout.total_lanes()));
  for (size_t s = 0; s < scores.size(); ++s) {
    for (int64_t c = 0; c < classes; ++c) {
      z[static_cast<size_t>(c * layout.lanes) + s] =
          scores[s][static_cast<size_t>(c)];
    }
  }
  return NewCrossEntropy(classes, smoothing)
      ->Compute(NewCompute(sparse::DetectIsa(), 1),
                Panel{z.data(), {classes}, layout}, {.labels = labels},
                Loss::kSumsOnly, 1);
}

TEST(Loss, TiesGoToTheLowestClass) {
  EXPECT_EQ(Compute({{1, 1, 1}}, {0}, 0).metrics[0], 1);
  EXPECT_EQ(Compute({{1, 1, 1}}, {1}, 0).metrics[0], 0);
  EXPECT_EQ(Compute({{0, 2, 2}}, {1}, 0).metrics[0], 1);
  EXPECT_EQ(Compute({{0, 2, 2}}, {2}, 0).metrics[0], 0);
}

// torch.nn.functional.cross_entropy([[2, -1, 0.5, 0], [0, 0, 3, 1]], [0, 1],
// label_smoothing=s, reduction="sum"), in double.
TEST(Loss, IsThatOfPyTorch) {
  const std::vector<std::vector<float>> scores = {{2, -1, 0.5, 0},
                                                  {0, 0, 3, 1}};
  EXPECT_NEAR(Compute(scores, {0, 1}, 0.0).loss, 3.553347206, 2e-6);
  EXPECT_NEAR(Compute(scores, {0, 1}, 0.2).loss, 3.678347206, 2e-6);
  EXPECT_NEAR(Compute(scores, {0, 1}, 1.0).loss, 4.178347206, 2e-6);
}

TEST(Loss, LargeScoresStayFinite) {
  EXPECT_NEAR(Compute({{3e4f, -3e4f}}, {0}, 0).loss, 0, 1e-6);
  EXPECT_NEAR(Compute({{3e4f, -3e4f}}, {1}, 0).loss, 6e4, 1e-2);
}

TEST(Loss, NotANumberIsSeen) {
  EXPECT_TRUE(std::isnan(Compute({{std::nanf(""), 1}}, {1}, 0).loss));
}

TEST(Loss, MaskedSamplesAddNothing) {
  const LossSums sums = Compute({{1, 5}, {std::nanf(""), 2}}, {1, -1}, 0);
  EXPECT_EQ(sums.samples, 1);
  EXPECT_EQ(sums.loss, Compute({{1, 5}}, {1}, 0).loss);
  const LossSums none = Compute({{1, 5}}, {-1}, 0);
  EXPECT_EQ(none.samples, 0);
  EXPECT_EQ(none.loss, 0);
  EXPECT_THAT(none.metrics, testing::ElementsAre(0));
}

TEST(Loss, ClassWeightsAreFactorsOfLossAndGradient) {
  const sparse::Compute compute = NewCompute(sparse::DetectIsa(), 1);
  const std::vector<int32_t> labels = {1, 0, -1};
  const std::vector<float> weights = {0.25f, 3};
  for (const char* type : {"softmax_cross_entropy", "sigmoid_bce", "mse"}) {
    SCOPED_TRACE(type);
    const auto loss = NewLoss(Json::Parse(std::string("{\"type\": \"") + type +
                                              "\", \"label_smoothing\": 0.0}",
                                          "test"),
                              2);
    // Outputs of three samples alone and together: {loss, gradients}.
    const auto run = [&](std::vector<int32_t> given,
                         std::span<const float> factors) {
      std::vector<float> z(2 * 16, 0.0f);
      for (int i = 0; i < 3; ++i) z[static_cast<size_t>(i)] = 0.5f;
      const Panel panel{z.data(), {2}, LaneLayout::For(3)};
      const LossSums sums = loss->Compute(
          compute, panel, {.labels = given, .class_weights = factors},
          Loss::kWithGradient, 1);
      return std::pair(sums, z);
    };
    const auto first = run({1, -1, -1}, {});
    const auto second = run({-1, 0, -1}, {});
    const auto both = run(labels, weights);
    EXPECT_EQ(both.first.samples, 2);
    EXPECT_EQ(both.first.loss, 3 * first.first.loss + 0.25 * second.first.loss);
    for (size_t i = 0; i < both.second.size(); ++i) {
      EXPECT_EQ(both.second[i], 3 * first.second[i] + 0.25f * second.second[i]);
    }
  }
}

TEST(Loss, Top5GoesByScoreAndThenByClass) {
  const std::vector<float> scores = {1, 7, 3, 3, 5, 6, 3};
  const int in_top5[] = {0, 1, 1, 1, 1, 1, 0};  // the third 3 is the sixth
  for (int32_t label = 0; label < 7; ++label) {
    const LossSums sums = Compute({scores}, {label}, 0);
    EXPECT_EQ(sums.metrics.at(0), label == 1) << label;
    EXPECT_EQ(sums.metrics.at(1), in_top5[label]) << label;
  }
  const auto few = NewCrossEntropy(5, 0);
  EXPECT_THAT(few->metric_names(), testing::ElementsAre("accuracy"));
  EXPECT_EQ(Compute({{std::nanf(""), 1, 1, 1, 1, 1}}, {0}, 0).metrics[1], 0);
}

TEST(Loss, SumsAdd) {
  LossSums sums;
  sums.Add({.samples = 3, .loss = 1.5, .metrics = {2}});
  sums.Add({.samples = 0, .loss = 0, .metrics = {}});
  sums.Add({.samples = 1, .loss = 0.25, .metrics = {1}, .counts = {1, 2}});
  sums.Add({.counts = {3, 4}});
  EXPECT_EQ(sums.samples, 4);
  EXPECT_EQ(sums.loss, 1.75);
  EXPECT_THAT(sums.metrics, testing::ElementsAre(3));
  EXPECT_THAT(sums.counts, testing::ElementsAre(4, 6));
}

}  // namespace
}  // namespace lumen::nn
