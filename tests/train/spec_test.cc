// SPDX-License-Identifier: Apache-2.0
#include "lumen/train/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lumen/core/error.h"
#include "lumen/train/plan.h"

namespace lumen::train {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kText[] = R"({
  "data": {"type": "synthetic", "shape": [20], "classes": 5,
           "samples": {"train": 1000}},
  "model": {"preset": {"type": "mlp", "units": [64]},
            "sparsity": {"method": "static", "density": 0.2}},
  "train": {"global_batch": 64, "epochs": 3, "lr": 0.1}
})";

Spec Parse(std::vector<std::string> overrides = {}) {
  return ParseSpec(kText, "dir/name.json", overrides);
}

std::string ErrorOf(std::vector<std::string> overrides) {
  try {
    NewPlan(Parse(std::move(overrides)), 2, 1);
  } catch (const SpecError& error) {
    return error.what();
  }
  return "";
}

TEST(Spec, ResolvedFormIsAFixedPoint) {
  const Spec once = Parse();
  EXPECT_EQ(once.name, "name");
  const Spec twice = ParseSpec(once.json.Dump(2), "again.json");
  EXPECT_EQ(twice.json.Dump(), once.json.Dump());
  EXPECT_EQ(twice.MathematicalText(1), once.MathematicalText(1));
}

TEST(Spec, StepsClearEpochsAndTheReverse) {
  const Spec steps = Parse({"train.steps=7"});
  EXPECT_TRUE(steps.train().at("epochs").is_null());
  EXPECT_EQ(TotalSteps(steps, 15), 7);
  const Spec epochs = Parse({"train.steps=7", "train.epochs=2"});
  EXPECT_TRUE(epochs.train().at("steps").is_null());
  EXPECT_EQ(TotalSteps(epochs, 15), 30);
}

TEST(Spec, IntervalsAreStepsOrEpochs) {
  EXPECT_EQ(IntervalSteps(Json(5), 100), 5);
  EXPECT_EQ(IntervalSteps(Json(0), 100), 0);
  EXPECT_EQ(IntervalSteps(Json("1 epochs"), 100), 100);
  EXPECT_EQ(IntervalSteps(Json("0.25 epochs"), 100), 25);
  EXPECT_EQ(IntervalSteps(Json("0.001 epochs"), 100), 1);
}

TEST(Spec, MathematicalTextLeavesOutWhatChangesNoBit) {
  const std::string text = Parse().MathematicalText(7);
  for (const char* change :
       {"train.epochs=9", "train.log_every=3", "train.eval_every=4",
        "checkpoint.every=9", "checkpoint.keep=1", "memory.limit=\"4GiB\"",
        "exchange.verify_every=3"}) {
    EXPECT_EQ(Parse({change}).MathematicalText(7), text) << change;
  }
  for (const char* change :
       {"train.seed=2", "train.shards=8", "train.lr=0.2",
        "train.optimizer.momentum=0.8", "model.sparsity.density=0.3",
        "exchange.type=split", "train.clip_norm=1", "data.order=file"}) {
    EXPECT_NE(Parse({change}).MathematicalText(7), text) << change;
  }
  EXPECT_NE(Parse().MathematicalText(8), text) << "other data";
}

TEST(Spec, ErrorsOfSeveralKeysSayWhatToDo) {
  EXPECT_THAT(ErrorOf({"train.global_batch=66"}),
              HasSubstr("expected a multiple of train.shards (4)"));
  EXPECT_THAT(ErrorOf({"train.shards=1"}), HasSubstr("train.shards=2"));
  EXPECT_THAT(ErrorOf({"memory.limit=\"1MiB\""}), HasSubstr("allowed 1.0 MiB"));
  EXPECT_THAT(ErrorOf({"exchange.bucket=1", "model.preset.units=[9000,9000]"}),
              HasSubstr("at most a million buckets"));
  EXPECT_EQ(ErrorOf({}), "");
}

TEST(Plan, CountsWhatExists) {
  const Plan plan = NewPlan(Parse(), 2, 1);
  EXPECT_EQ(plan.parameters, 20 * 64 + 64 + 64 * 5 + 5);
  EXPECT_EQ(plan.steps_per_epoch, 15);
  EXPECT_EQ(plan.total_steps, 45);
  EXPECT_LT(plan.nnz, plan.parameters / 3);
  EXPECT_GT(plan.wire_bytes_dense_step, 0);
  int64_t bytes = 0;
  for (const MemoryItem& item : plan.memory) bytes += item.bytes;
  EXPECT_EQ(plan.memory_bytes(), bytes);
  // 16 samples of a shard fill their lanes.
  EXPECT_TRUE(plan.warnings.empty());
  EXPECT_THAT(NewPlan(Parse({"train.global_batch=36"}), 1, 1).warnings,
              testing::ElementsAre(HasSubstr("56 %")));
}

TEST(Plan, MemoryFollowsTheNonzeros) {
  const auto bytes = [](const char* density) {
    return NewPlan(Parse({"model.preset.units=[4000,4000]", density}), 1, 1)
        .memory_bytes();
  };
  const double fixed = 40 << 20;
  const double ten = static_cast<double>(bytes("model.sparsity.density=0.1"));
  const double twenty =
      static_cast<double>(bytes("model.sparsity.density=0.2"));
  EXPECT_NEAR((twenty - fixed) / (ten - fixed), 2, 0.2);
}

}  // namespace
}  // namespace lumen::train
