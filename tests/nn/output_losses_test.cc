// SPDX-License-Identifier: Apache-2.0
// The losses that look at each output by itself: sigmoid_bce and mse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "lumen/nn/loss.h"
#include "network.h"

namespace lumen::nn {
namespace {

std::unique_ptr<Loss> NewLossOf(const std::string& type) {
  return NewLoss(Json::Parse("{\"type\": \"" + type + "\"}", "test"), 3);
}

using Rows = std::vector<std::vector<float>>;  // [sample][output]

// Numbers per sample and output as a panel, in tiles of at most max_lanes.
struct Table {
  explicit Table(const Rows& rows, int64_t max_lanes = kMaxTileLanes)
      : panel{nullptr,
              {std::ssize(rows[0])},
              LaneLayout::For(std::ssize(rows), max_lanes)},
        storage(static_cast<size_t>(panel.size())) {
    panel.data = storage.data();
    for (size_t s = 0; s < rows.size(); ++s) {
      for (size_t c = 0; c < rows[s].size(); ++c) At(s, c) = rows[s][c];
    }
  }
  Table(const Table&) = delete;

  float& At(size_t sample, size_t output) const {
    const auto s = static_cast<int64_t>(sample);
    const auto c = static_cast<int64_t>(output);
    const int64_t lanes = panel.layout.lanes;
    return panel.tile(s / lanes)[c * lanes + s % lanes];
  }

  Panel panel;
  std::vector<float> storage;
};

const Rows kScores = {{2, -1, 0.5f}, {0, 0.25f, -3}, {100, -100, 1}};
const Rows kValues = {{1, 0, 0.25f}, {0, 1, 1}, {0, 1, 1}};

struct TorchCase {
  const char* loss;
  bool values;  // kValues, else the labels 1, 0, 2
  double mean;
  std::vector<std::vector<double>> gradient;
};

// torch.nn.BCEWithLogitsLoss and MSELoss in double, and their gradients.
TEST(OutputLosses, AreThoseOfPyTorch) {
  const TorchCase cases[] = {
      {"sigmoid_bce",
       true,
       22.88002248,
       {{-0.01324476911, 0.02988238015, 0.04138437013},
        {0.05555555556, -0.04864705546, -0.1058415696},
        {0.1111111111, -0.1111111111, -0.02988238015}}},
      {"sigmoid_bce",
       false,
       11.81057804,
       {{0.097866342, -0.08122873096, 0.06916214791},
        {-0.05555555556, 0.06246405565, 0.005269541464},
        {0.1111111111, 0, -0.02988238015}}},
      {"mse",
       true,
       2246.625,
       {{0.2222222222, -0.2222222222, 0.05555555556},
        {0, -0.1666666667, -0.8888888889},
        {22.22222222, -22.44444444, 0}}},
      {"mse",
       false,
       2224.256944,
       {{0.4444444444, -0.4444444444, 0.1111111111},
        {-0.2222222222, 0.05555555556, -0.6666666667},
        {22.22222222, -22.22222222, 0}}},
  };
  for (const TorchCase& torch : cases) {
    SCOPED_TRACE(std::string(torch.loss) + (torch.values ? ", values" : ""));
    const Table z(kScores);
    const Table values(kValues);
    const std::vector<int32_t> labels = {1, 0, 2};
    Targets targets{.labels = labels};
    if (torch.values) targets.values = values.panel;
    const LossSums sums =
        NewLossOf(torch.loss)
            ->Compute(NewCompute(sparse::DetectIsa(), 1), z.panel, targets,
                      Loss::kWithGradient, 1.0f / 3);
    EXPECT_EQ(sums.samples, 3);
    EXPECT_NEAR(sums.loss / 3, torch.mean, 1e-6 * torch.mean);
    for (size_t s = 0; s < 3; ++s) {
      for (size_t c = 0; c < 3; ++c) {
        EXPECT_NEAR(z.At(s, c), torch.gradient[s][c], 2e-6) << s << " " << c;
      }
    }
  }
}

TEST(OutputLosses, MetricsAreThoseOfTheirNames) {
  const Table values(kValues);
  const std::vector<int32_t> labels = {0, 0, 0};
  const Targets targets{.labels = labels, .values = values.panel};
  const auto compute = NewCompute(sparse::DetectIsa(), 1);
  const auto mse = NewLossOf("mse");
  EXPECT_THAT(mse->metric_names(), testing::ElementsAre("mae"));
  EXPECT_NEAR(
      mse->Compute(compute, Table(kScores).panel, targets, Loss::kSumsOnly, 1)
              .metrics.at(0) /
          3,
      208.0 / 9, 1e-9);
  const auto bce = NewLossOf("sigmoid_bce");
  EXPECT_THAT(bce->metric_names(), testing::ElementsAre("accuracy"));
  // Right: 2, -1 | 0 (a half is no), 0.25 | 1.
  EXPECT_NEAR(
      bce->Compute(compute, Table(kScores).panel, targets, Loss::kSumsOnly, 1)
          .metrics.at(0),
      5.0 / 3, 1e-12);
}

TEST(OutputLosses, ASingleOutputComparesWithTheLabelItself) {
  const std::vector<int32_t> labels = {0, 1};
  const Table y(Rows{{0.5f}, {0.75f}});
  const LossSums sums =
      NewLossOf("mse")->Compute(NewCompute(sparse::DetectIsa(), 1), y.panel,
                                {.labels = labels}, Loss::kWithGradient, 1);
  EXPECT_EQ(sums.loss, 0.25 + 0.0625);
  EXPECT_EQ(y.At(0, 0), 1.0f);
  EXPECT_EQ(y.At(1, 0), -0.5f);
}

TEST(OutputLosses, MaskedLanesAddNothingWhateverTheyHold) {
  for (const char* type : {"sigmoid_bce", "mse"}) {
    const Table z(Rows{{1, 2, 3}, {std::nanf(""), INFINITY, 1}});
    const Table values(Rows{{0, 1, 1}, {std::nanf(""), 1, 1}});
    const std::vector<int32_t> labels = {0, -1};
    const Targets targets{.labels = labels, .values = values.panel};
    const auto compute = NewCompute(sparse::DetectIsa(), 1);
    const auto loss = NewLossOf(type);
    const Table copy(Rows{{1, 2, 3}, {std::nanf(""), INFINITY, 1}});
    const LossSums counted =
        loss->Compute(compute, copy.panel, targets, Loss::kSumsOnly, 1);
    const LossSums sums =
        loss->Compute(compute, z.panel, targets, Loss::kWithGradient, 1);
    EXPECT_EQ(sums.samples, 1) << type;
    EXPECT_TRUE(std::isfinite(sums.loss)) << type;
    EXPECT_EQ(sums.loss, counted.loss) << type;
    EXPECT_TRUE(sums.counts.empty()) << type;
    // As if the other sample were not there.
    const Table alone(Rows{{1, 2, 3}});
    const Table value(Rows{{0, 1, 1}});
    const std::vector<int32_t> label = {0};
    EXPECT_EQ(counted.counts,
              loss->Compute(compute, alone.panel,
                            {.labels = label, .values = value.panel},
                            Loss::kSumsOnly, 1)
                  .counts)
        << type;
    EXPECT_EQ(counted.counts.empty(), type == std::string("mse"));
    for (size_t s = 1; s < 16; ++s) {
      for (size_t c = 0; c < 3; ++c) EXPECT_EQ(z.At(s, c), 0) << type;
    }
  }
}

TEST(OutputLosses, NotANumberIsSeen) {
  const std::vector<int32_t> labels = {0};
  for (const char* type : {"sigmoid_bce", "mse"}) {
    const Table z(Rows{{std::nanf(""), 1, 2}});
    EXPECT_TRUE(
        std::isnan(NewLossOf(type)
                       ->Compute(NewCompute(sparse::DetectIsa(), 1), z.panel,
                                 {.labels = labels}, Loss::kSumsOnly, 1)
                       .loss));
  }
}

// The area from all pairs of a positive and a negative.
double AreaByPairs(const std::vector<float>& scores,
                   const std::vector<int32_t>& labels) {
  double won = 0;
  double pairs = 0;
  for (size_t p = 0; p < scores.size(); ++p) {
    for (size_t n = 0; n < scores.size(); ++n) {
      if (labels[p] != 1 || labels[n] != 0) continue;
      ++pairs;
      won += scores[p] > scores[n] ? 1 : scores[p] == scores[n] ? 0.5 : 0;
    }
  }
  return won / pairs;
}

std::optional<double> Area(const std::vector<float>& scores,
                           const std::vector<int32_t>& labels) {
  Rows rows;
  for (float score : scores) rows.push_back({score});
  const auto loss = NewLossOf("sigmoid_bce");
  const Table z(rows);
  const LossSums sums =
      loss->Compute(NewCompute(sparse::DetectIsa(), 1), z.panel,
                    {.labels = labels}, Loss::kSumsOnly, 1);
  const auto metrics = loss->CountMetrics(sums);
  EXPECT_EQ(metrics.at(0).name, "auc");
  return metrics.at(0).value;
}

TEST(OutputLosses, AucIsTheShareOfPairsInOrder) {
  EXPECT_EQ(Area({-2, -1, 1, 2}, {0, 0, 1, 1}), 1);
  EXPECT_EQ(Area({-2, -1, 1, 2}, {1, 1, 0, 0}), 0);
  EXPECT_EQ(Area({1, 1, 1, 1}, {1, 0, 1, 0}), 0.5);
  EXPECT_EQ(Area({-2, -1, 1, 2}, {0, 1, 0, 1}), 0.75);
  EXPECT_EQ(Area({1, 2}, {1, 1}), std::nullopt);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> scores;
  std::vector<int32_t> labels;
  for (int i = 0; i < 300; ++i) {
    labels.push_back(i % 3 == 0);
    scores.push_back(normal(random) + static_cast<float>(labels.back()));
  }
  // Pairs inside one of the 4096 bins count half.
  EXPECT_NEAR(*Area(scores, labels), AreaByPairs(scores, labels), 1e-3);
}

// Sets of labels and the same as a table of 0 and 1.
struct Sets {
  std::vector<int64_t> start = {0};
  std::vector<int32_t> label;
  Rows table;

  Sets(const std::vector<std::vector<int32_t>>& sets, size_t classes) {
    for (const std::vector<int32_t>& set : sets) {
      label.insert(label.end(), set.begin(), set.end());
      start.push_back(std::ssize(label));
      table.emplace_back(classes, 0.0f);
      for (int32_t l : set) table.back()[static_cast<size_t>(l)] = 1;
    }
  }
  LabelSets view() const { return {start, label}; }
};

TEST(OutputLosses, SetsOfLabelsAreTargetsOfZeroAndOne) {
  const sparse::Compute compute = NewCompute(sparse::DetectIsa(), 2);
  const auto loss = NewLossOf("sigmoid_bce");
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  std::vector<std::vector<int32_t>> sets;
  std::vector<int32_t> labels;
  Rows scores;
  for (int i = 0; i < 50; ++i) {
    sets.emplace_back();
    scores.emplace_back();
    for (int32_t c = 0; c < 11; ++c) {
      if (random() % 5 == 0) sets.back().push_back(c);
      scores.back().push_back(normal(random));
    }
    labels.push_back(i % 7 == 6 ? -1 : 0);
  }
  const Sets given(sets, 11);
  for (const int64_t max_lanes : {kVectorLanes, kMaxTileLanes}) {
    for (const Loss::Mode mode : {Loss::kSumsOnly, Loss::kWithGradient}) {
      const Table a(scores, max_lanes);
      const Table b(scores, max_lanes);
      const Table values(given.table, max_lanes);
      const LossSums from_sets = loss->Compute(
          compute, a.panel, {.labels = labels, .sets = given.view()}, mode, 1);
      const LossSums from_values =
          loss->Compute(compute, b.panel,
                        {.labels = labels, .values = values.panel}, mode, 1);
      EXPECT_EQ(from_sets.loss, from_values.loss);
      EXPECT_EQ(from_sets.metrics, from_values.metrics);
      EXPECT_EQ(from_sets.counts, from_values.counts);
      EXPECT_EQ(a.storage, b.storage);
    }
  }
}

std::vector<std::optional<double>> Precisions(
    const Rows& scores, const std::vector<std::vector<int32_t>>& sets,
    const std::vector<int32_t>& labels) {
  const Sets given(sets, scores[0].size());
  const auto loss = NewLossOf("sigmoid_bce");
  const Table z(scores);
  const LossSums sums = loss->Compute(
      NewCompute(sparse::DetectIsa(), 1), z.panel,
      {.labels = labels, .sets = given.view()}, Loss::kSumsOnly, 1);
  std::vector<std::optional<double>> found;
  for (const Metric& metric : loss->CountMetrics(sums)) {
    if (metric.name.starts_with("p_at_")) found.push_back(metric.value);
  }
  return found;
}

TEST(OutputLosses, PrecisionIsTheShareOfTrueLabelsAmongTheBest) {
  using testing::DoubleEq;
  using testing::ElementsAre;
  using testing::Optional;
  // Best first: 5, 1, 3, 0, 2, 4; the true ones are 1, 2, 5.
  const std::vector<float> scores = {0, 8, -1, 0.5f, -9, 900};
  EXPECT_THAT(Precisions({scores}, {{1, 2, 5}}, {0}),
              ElementsAre(Optional(1.0), Optional(DoubleEq(2.0 / 3)),
                          Optional(DoubleEq(3.0 / 5))));
  // Equal scores: the lower class first. A row without labels has no hit; one
  // without a sample does not count.
  const std::vector<float> equal(6, 1.0f);
  EXPECT_THAT(
      Precisions({equal, equal, equal}, {{0, 3}, {}, {0}}, {0, 0, -1}),
      ElementsAre(Optional(DoubleEq(1.0 / 2)), Optional(DoubleEq(1.0 / 6)),
                  Optional(DoubleEq(2.0 / 10))));
  // Scores beyond what probabilities tell apart; NaN is never among the best.
  EXPECT_THAT(Precisions({{900, 1000, NAN, -1, NAN, NAN}}, {{1, 2, 4}}, {0}),
              ElementsAre(Optional(1.0), Optional(DoubleEq(1.0 / 3)),
                          Optional(DoubleEq(1.0 / 5))));
  // Fewer outputs than places.
  EXPECT_THAT(
      Precisions({{1, 2, 3}}, {{2}}, {0}),
      ElementsAre(Optional(1.0), Optional(DoubleEq(1.0 / 3)), std::nullopt));
}

TEST(OutputLosses, AucOfExtremeScoresIsDefined) {
  EXPECT_EQ(Area({-100, 100, 3e38f}, {0, 1, 0}), 0.75);
}

// Every loss and mode on 200 samples: sums, counts and gradient.
std::vector<uint64_t> AllBits(int64_t max_lanes, sparse::Isa isa, int threads) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  Rows scores(200);
  Rows values(200);
  std::vector<int32_t> labels;
  for (size_t s = 0; s < scores.size(); ++s) {
    labels.push_back(s % 13 == 5 ? -1 : static_cast<int32_t>(s % 3));
    for (int c = 0; c < 3; ++c) {
      scores[s].push_back(10 * normal(random));
      values[s].push_back(static_cast<float>(random() % 100) / 99.0f);
    }
  }
  const sparse::Compute compute = NewCompute(isa, threads);
  std::vector<uint64_t> bits;
  for (const LossRow& row : LossTable()) {
    const auto loss =
        NewLoss(Json::Parse("{\"type\": \"" + std::string(row.type) +
                                "\", \"label_smoothing\": 0.1}",
                            "test"),
                3);
    for (Loss::Mode mode : {Loss::kSumsOnly, Loss::kWithGradient}) {
      const Table z(scores, max_lanes);
      const Table t(values, max_lanes);
      Targets targets{.labels = labels};
      if (row.accepts == LossRow::kLabelsOrValues) targets.values = t.panel;
      const LossSums sums =
          loss->Compute(compute, z.panel, targets, mode, 0.37f);
      bits.push_back(std::bit_cast<uint64_t>(sums.loss));
      for (double m : sums.metrics) bits.push_back(std::bit_cast<uint64_t>(m));
      for (int64_t n : sums.counts) bits.push_back(static_cast<uint64_t>(n));
      if (mode == Loss::kSumsOnly) continue;
      for (size_t s = 0; s < scores.size(); ++s) {
        for (size_t c = 0; c < 3; ++c) {
          bits.push_back(std::bit_cast<uint32_t>(z.At(s, c)));
        }
      }
    }
  }
  return bits;
}

TEST(OutputLosses, BitsDependOnNeitherTilesNorThreadsNorIsa) {
  const auto expected = AllBits(kMaxTileLanes, sparse::Isa::kScalar, 1);
  for (sparse::Isa isa : sparse::AvailableIsas()) {
    for (int64_t lanes : {16, 64, 128}) {
      for (int threads : {1, 2}) {
        EXPECT_EQ(expected, AllBits(lanes, isa, threads))
            << sparse::IsaName(isa) << ", " << lanes << " lanes, " << threads
            << " threads";
      }
    }
  }
}

}  // namespace
}  // namespace lumen::nn
