// SPDX-License-Identifier: Apache-2.0
#include "lumen/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lumen/train/spec.h"

namespace lumen::train {
namespace {

// The resolved "lr" of a spec.
Json Lr(const std::string& text) {
  const Spec spec = ParseSpec(
      R"({"data": {"type": "synthetic", "shape": [2], "classes": 2,
                   "samples": {"train": 10}},
          "model": {"preset": {"type": "mlp", "units": []}},
          "train": {"global_batch": 4, "steps": 1, "lr": )" +
          text + "}}",
      "test.json");
  return spec.train().at("lr");
}

constexpr ScheduleLength kLength{.total_steps = 100, .steps_per_epoch = 10};

TEST(Schedule, ANumberIsAConstantRate) {
  EXPECT_EQ(LearningRate(Lr("0.25"), kLength, 0), 0.25);
  EXPECT_EQ(LearningRate(Lr("0.25"), kLength, 99), 0.25);
}

TEST(Schedule, WarmUpRisesLinearlyAndEndsAtTheBase) {
  const Json lr = Lr(R"({"type": "constant", "base": 1, "warmup_epochs": 2})");
  EXPECT_DOUBLE_EQ(LearningRate(lr, kLength, 0), 1 / 20.0);
  EXPECT_DOUBLE_EQ(LearningRate(lr, kLength, 9), 0.5);
  EXPECT_DOUBLE_EQ(LearningRate(lr, kLength, 19), 1);
  EXPECT_DOUBLE_EQ(LearningRate(lr, kLength, 20), 1);
}

TEST(Schedule, StepFallsAtItsMilestones) {
  const Json lr =
      Lr(R"({"type": "step", "base": 1, "milestones": [3, 6], "gamma": 0.1})");
  EXPECT_DOUBLE_EQ(LearningRate(lr, kLength, 29), 1);
  EXPECT_DOUBLE_EQ(LearningRate(lr, kLength, 30), 0.1);
  EXPECT_DOUBLE_EQ(LearningRate(lr, kLength, 60), 0.1 * 0.1);
}

TEST(Schedule, CosineIsHalfAWaveAfterTheWarmUp) {
  const Json lr =
      Lr(R"({"type": "cosine", "base": 2, "final": 0.5, "warmup_epochs": 1})");
  for (int64_t step : {10, 25, 55, 99}) {
    const double progress = (step - 10) / 90.0;
    EXPECT_NEAR(LearningRate(lr, kLength, step),
                0.5 + 1.5 * (1 + std::cos(M_PI * progress)) / 2, 1e-12);
  }
  EXPECT_DOUBLE_EQ(LearningRate(lr, kLength, 10), 2);
}

TEST(Schedule, PolyFallsWithItsPower) {
  const Json lr = Lr(R"({"type": "poly", "base": 1, "power": 2})");
  EXPECT_DOUBLE_EQ(LearningRate(lr, kLength, 0), 1);
  EXPECT_NEAR(LearningRate(lr, kLength, 50), 0.25, 1e-12);
}

TEST(Schedule, EveryRowWorksOnAnEmptyRun) {
  for (const ScheduleRow& row : Schedules()) {
    std::string text =
        "{\"type\": \"" + std::string(row.type) + "\", \"base\": 1";
    if (row.type == "step") text += ", \"milestones\": []";
    const double rate = LearningRate(
        Lr(text + "}"), {.total_steps = 0, .steps_per_epoch = 1}, 0);
    EXPECT_TRUE(std::isfinite(rate)) << row.type;
  }
}

}  // namespace
}  // namespace lumen::train
