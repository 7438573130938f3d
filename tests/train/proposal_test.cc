// SPDX-License-Identifier: Apache-2.0
#include "lumen/train/proposal.h"

#include <gtest/gtest.h>

#include "lumen/core/error.h"

namespace lumen::train {
namespace {

constexpr int64_t kMuch = int64_t{1} << 45;

Json Data(const std::string& shape, int64_t samples) {
  return Json::Parse(R"({"type": "synthetic", "classes": 10, "shape": )" +
                         shape + R"(, "samples": {"train": )" +
                         std::to_string(samples) + "}}",
                     "test");
}

// As SurveyDataset finds it, without reading a sample.
data::Survey SurveyOf(const Shape& shape, int64_t samples) {
  data::Survey survey;
  survey.info = {.shape = shape, .classes = 10, .train_samples = samples};
  survey.channels.assign(static_cast<size_t>(shape.channels), {0.5, 0.25});
  return survey;
}

// `data` without the keys that a proposal adds.
Proposal Propose(const Shape& shape, int64_t samples, int64_t memory) {
  std::string sides = std::to_string(shape.channels);
  if (shape.elements() > shape.channels) {
    sides += ", " + std::to_string(shape.height) + ", " +
             std::to_string(shape.width);
  }
  Json data = Data("[" + sides + "]", samples);
  data.Erase("shape");
  data.Erase("samples");
  return ProposeSpec(data, SurveyOf(shape, samples), memory, {"A test."},
                     "test.json");
}

TEST(Proposal, FitsTheMemoryThereIs) {
  const Shape shape{.channels = 3, .height = 224, .width = 224};
  const Proposal large = Propose(shape, 200000, kMuch);
  EXPECT_NE(large.text.find("\"depth\": 50"), std::string::npos) << large.text;
  int64_t memory = large.plan.memory_bytes();
  int64_t parameters = large.plan.parameters;
  for (int halvings = 0; halvings < 4; ++halvings) {
    memory /= 2;
    const Proposal smaller = Propose(shape, 200000, memory);
    EXPECT_LE(smaller.plan.memory_bytes(), memory);
    EXPECT_LE(smaller.plan.parameters, parameters);
    parameters = smaller.plan.parameters;
  }
  EXPECT_THROW(Propose(shape, 200000, int64_t{1} << 20), SpecError);
}

TEST(Proposal, ItsTextIsASpecWithThePlan) {
  for (const Shape& shape :
       {Shape{.channels = 20}, Shape{.channels = 1, .height = 28, .width = 28},
        Shape{.channels = 3, .height = 7, .width = 9},
        Shape{.channels = 2, .height = 30, .width = 300},
        Shape{.channels = 5000}}) {
    for (const int64_t samples : {1, 2, 31, 33, 1000, 50000, 2000000}) {
      const Proposal proposal = Propose(shape, samples, kMuch);
      const Spec spec = ParseSpec(proposal.text, "test.json");
      const Plan plan = NewPlan(spec, 1, 1);
      EXPECT_EQ(plan.memory_bytes(), proposal.plan.memory_bytes());
      EXPECT_GE(plan.steps_per_epoch, 1);
      EXPECT_LE(spec.global_batch(), std::max<int64_t>(1, samples));
      EXPECT_EQ(spec.data().at("normalize").at("std").items()[0].number(),
                0.25);
    }
  }
}

TEST(Proposal, ManyStepsMoveTheMasksFewDoNot) {
  const Shape shape{.channels = 20};
  EXPECT_NE(Propose(shape, 50000, kMuch).text.find("\"rigl\""),
            std::string::npos);
  EXPECT_NE(Propose(shape, 500, kMuch).text.find("\"static\""),
            std::string::npos);
}

}  // namespace
}  // namespace lumen::train
