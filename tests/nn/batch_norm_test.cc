// SPDX-License-Identifier: Apache-2.0
// Batch normalisation against its definition in double: groups of samples,
// skipped samples, running statistics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "layer_bench.h"
#include "lumen/core/error.h"

namespace lumen::nn {
namespace {

constexpr Shape kShape = {.channels = 3, .height = 2, .width = 3};
constexpr int64_t kPixels = 6;

LayerBench NewBench(const std::string& keys, int64_t samples) {
  return {NewLayer("batch_norm", {keys, {kShape}}), {kShape}, samples};
}

struct Moments {
  double mean = 0;
  double biased = 0;
  double unbiased = 0;
};

// Of channel c over the samples [begin, end) that are there.
Moments MomentsOf(LayerBench* bench, int64_t c, int64_t begin, int64_t end) {
  std::vector<double> values;
  for (int64_t s = begin; s < end; ++s) {
    if (!bench->Holds(s)) continue;
    for (int64_t p = 0; p < kPixels; ++p) {
      values.push_back(bench->x[0]->At(s, c * kPixels + p));
    }
  }
  const auto n = static_cast<double>(values.size());
  Moments moments;
  for (double v : values) moments.mean += v / n;
  for (double v : values) {
    moments.biased += (v - moments.mean) * (v - moments.mean) / n;
  }
  moments.unbiased = moments.biased * n / (n - 1);
  return moments;
}

// A bench whose samples differ from group to group, some of them skipped.
LayerBench NewSkewedBench(const std::string& keys, int64_t samples) {
  LayerBench bench = NewBench(keys, samples);
  for (int64_t s = 0; s < samples; ++s) {
    for (int64_t e = 0; e < kShape.elements(); ++e) {
      bench.x[0]->At(s, e) =
          bench.x[0]->At(s, e) * static_cast<float>(1 + s / 16) +
          static_cast<float>(s / 16);
    }
  }
  return bench;
}

void ExpectNormalised(LayerBench* bench, int64_t group) {
  const int64_t samples = bench->layout.samples;
  bench->Forward();
  for (int64_t c = 0; c < kShape.channels; ++c) {
    const auto at = static_cast<size_t>(c);
    const double weight = bench->values[0][at], bias = bench->values[1][at];
    double mean = 0, variance = 0;
    for (int64_t begin = 0; begin < samples; begin += group) {
      const Moments m = MomentsOf(bench, c, begin, begin + group);
      const auto groups = static_cast<double>(samples) / group;
      mean += m.mean / groups;
      variance += m.unbiased / groups;
      for (int64_t s = begin; s < begin + group; ++s) {
        if (!bench->Holds(s)) continue;
        for (int64_t e = c * kPixels; e < (c + 1) * kPixels; ++e) {
          const double x = bench->x[0]->At(s, e);
          EXPECT_NEAR(bench->y->At(s, e),
                      (x - m.mean) / std::sqrt(m.biased + 1e-5) * weight + bias,
                      1e-5);
        }
      }
    }
    EXPECT_NEAR(bench->next_statistics[at], 0.9 * 0 + 0.1 * mean, 1e-6);
    EXPECT_NEAR(bench->next_statistics[at + 3], 0.9 * 1 + 0.1 * variance, 1e-6);
  }
}

TEST(BatchNorm, EachGroupHasItsOwnStatistics) {
  struct Case {
    const char* keys;
    int64_t samples;
    int64_t group;
  };
  for (const Case& test :
       {Case{"", 7, 7}, Case{"", 16, 16}, Case{"", 64, 32}, Case{"", 48, 16},
        Case{"", 33, 33}, Case{R"("group": 16)", 64, 16},
        Case{R"("group": 64)", 64, 64}, Case{R"("group": 64)", 5, 5}}) {
    SCOPED_TRACE(std::to_string(test.samples) + " samples, " + test.keys);
    LayerBench bench = NewSkewedBench(test.keys, test.samples);
    ExpectNormalised(&bench, test.group);
    if (test.samples < 7) continue;
    bench.Mask({0, 3, test.samples - 1});
    ExpectNormalised(&bench, test.group);
  }
}

TEST(BatchNorm, AGroupWithoutSamplesChangesNoRunningStatistic) {
  LayerBench bench = NewSkewedBench(R"("group": 16)", 32);
  std::vector<int64_t> second;
  for (int64_t s = 16; s < 32; ++s) second.push_back(s);
  bench.Mask(second);
  bench.Forward();
  for (int64_t c = 0; c < kShape.channels; ++c) {
    const Moments m = MomentsOf(&bench, c, 0, 16);
    EXPECT_NEAR(bench.next_statistics[static_cast<size_t>(c)], 0.1 * m.mean,
                1e-6);
    EXPECT_NEAR(bench.next_statistics[static_cast<size_t>(c + 3)],
                0.9 + 0.1 * m.unbiased, 1e-6);
  }
  bench.Backward();
  for (const auto& gradient : bench.gradients) {
    for (float g : gradient) EXPECT_TRUE(std::isfinite(g));
  }
  std::vector<int64_t> first;
  for (int64_t s = 0; s < 16; ++s) first.push_back(s);
  bench.Mask(first);
  bench.Forward();
  EXPECT_EQ(bench.next_statistics, bench.statistics);
}

TEST(BatchNorm, GroupsAreIndependentInTheBackwardPass) {
  LayerBench both = NewBench(R"("group": 16)", 32);
  LayerBench second = NewBench(R"("group": 16)", 16);
  for (int64_t s = 0; s < 16; ++s) {
    for (int64_t e = 0; e < kShape.elements(); ++e) {
      second.x[0]->At(s, e) = both.x[0]->At(16 + s, e);
      second.dy->At(s, e) = both.dy->At(16 + s, e);
    }
  }
  for (LayerBench* bench : {&both, &second}) {
    bench->Forward();
    bench->Backward();
  }
  for (int64_t s = 0; s < 16; ++s) {
    for (int64_t e = 0; e < kShape.elements(); ++e) {
      EXPECT_EQ(both.dx[0]->At(16 + s, e), second.dx[0]->At(s, e));
    }
  }
}

TEST(BatchNorm, EvaluationUsesTheRunningStatistics) {
  LayerBench bench = NewBench("", 20);
  bench.statistics = {0.5f, -1, 2, 4, 0.25f, 9};
  bench.Forward(PassKind::kEvaluation);
  for (int64_t s = 0; s < 20; ++s) {
    for (int64_t e = 0; e < kShape.elements(); ++e) {
      const auto c = static_cast<size_t>(e / kPixels);
      const double x = bench.x[0]->At(s, e);
      EXPECT_NEAR(bench.y->At(s, e),
                  (x - bench.statistics[c]) /
                          std::sqrt(bench.statistics[c + 3] + 1e-5) *
                          bench.values[0][c] +
                      bench.values[1][c],
                  1e-5);
    }
  }
}

TEST(BatchNorm, AGroupThatCutsTilesIsAnError) {
  for (const auto& [keys, samples] : std::vector<std::pair<std::string, int>>{
           {R"("group": 8)", 16}, {R"("group": 16)", 40}}) {
    try {
      NewBench(keys, samples);
      FAIL() << "no error";
    } catch (const SpecError& error) {
      EXPECT_THAT(error.what(),
                  testing::HasSubstr("expected a multiple of 16 that divides "
                                     "them, or all of them"));
    }
  }
}

}  // namespace
}  // namespace lumen::nn
