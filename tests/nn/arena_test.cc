// SPDX-License-Identifier: Apache-2.0
#include "src/nn/arena.h"

#include <gtest/gtest.h>

#include "memory_replay.h"
#include "network.h"
#include "random_graph.h"

namespace lumen::nn {
namespace {

TEST(Arena, BuffersInUseTogetherAreApart) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> lifetimes;
    for (int i = 0; i < 12; ++i) {
      const int64_t begin = random() % 20;
      lifetimes.push_back({begin, begin + static_cast<int64_t>(random() % 8),
                           16 * (1 + static_cast<int64_t>(random() % 10))});
    }
    const ArenaPlan plan = PlanArena(lifetimes);
    int64_t total = 0;
    for (size_t i = 0; i < lifetimes.size(); ++i) {
      total += lifetimes[i].size;
      EXPECT_LE(plan.offset[i] + lifetimes[i].size, plan.size);
      for (size_t j = 0; j < i; ++j) {
        const bool together = lifetimes[i].begin <= lifetimes[j].end &&
                              lifetimes[j].begin <= lifetimes[i].end;
        const bool overlap =
            plan.offset[i] < plan.offset[j] + lifetimes[j].size &&
            plan.offset[j] < plan.offset[i] + lifetimes[i].size;
        EXPECT_FALSE(together && overlap);
      }
    }
    EXPECT_LE(plan.size, total);
  }
}

TEST(Arena, ThePlanIsWhatIsAllocated) {
  const std::string spec =
      R"({"preset": {"type": "mlp", "units": [40, 24], "dropout": 0.2}})";
  const Graph graph = NewGraph(ModelSpec(spec), {20}, 5);
  for (int64_t batch : {0, 1, 64, 500}) {
    Network network(spec, {20}, 5, batch, NewCompute(sparse::DetectIsa(), 1));
    EXPECT_EQ(ArenaBytes(graph, LaneLayout::For(batch)),
              network.model->arena_bytes());
  }
}

int64_t Elements(const std::string& layers, const Shape& input,
                 int64_t classes) {
  const Graph graph =
      NewGraph(ModelSpec("{\"layers\": " + layers + "}"), input, classes);
  return ArenaBytes(graph, LaneLayout::For(16)) / (16 * 4);
}

TEST(Arena, HoldsOnlyWhatIsNeeded) {
  // Flatten shows the batch, and nobody asks for the gradient of the batch.
  EXPECT_EQ(Elements(R"([{"type": "flatten"}, {"type": "linear", "units": 5}])",
                     {3, 1, 4, 4}, 5),
            5);
  // The batch itself is not overwritten.
  EXPECT_EQ(Elements(R"([{"type": "dropout", "rate": 0.5},
                         {"type": "linear", "units": 5}])",
                     {20}, 5),
            20 + 5);
  // Relu works in place; then the output, its gradient and that of the hidden
  // layer.
  EXPECT_EQ(Elements(R"([{"type": "linear", "units": 30}, {"type": "relu"},
                         {"type": "linear", "units": 5}])",
                     {20}, 5),
            30 + 5 + 30);
  // Without parameters there is nothing to keep.
  EXPECT_EQ(Elements(R"([{"type": "flatten"}])", {1, 1, 2, 2}, 4), 4);
}

Graph NewLayers(const std::string& layers, const Shape& input,
                int64_t classes) {
  return NewGraph(ModelSpec("{\"layers\": " + layers + "}"), input, classes);
}

TEST(Arena, NothingIsOverwrittenBeforeItsLastRead) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    const std::string layers = RandomLayers(seed);
    SCOPED_TRACE("graph " + std::to_string(seed) + ": " + layers);
    const Graph graph =
        NewLayers(layers, kRandomGraphInput, kRandomGraphClasses);
    MemoryReplay(graph, LayoutFor(graph, 1 + seed % 20)).Run();
    if (HasFailure()) return;
  }
}

TEST(Arena, NothingIsOverwrittenWhenSegmentsAreComputedAgain) {
  std::mt19937 random(7);
  int cut_graphs = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    const std::string layers = RandomLayers(seed);
    const Graph graph =
        NewLayers(layers, kRandomGraphInput, kRandomGraphClasses);
    std::vector<int> cuts;
    for (int cut : PossibleCuts(graph)) {
      if (random() % 2 == 0) cuts.push_back(cut);
    }
    cut_graphs += cuts.empty() ? 0 : 1;
    SCOPED_TRACE("graph " + std::to_string(seed) + ": " + layers);
    MemoryReplay(graph, LayoutFor(graph, 1 + seed % 20), {.cuts = cuts}).Run();
    if (HasFailure()) return;
  }
  EXPECT_GT(cut_graphs, 1000);
}

TEST(Arena, AResidualSumGivesItsGradientToBothBranchesWithoutACopy) {
  const Graph graph = NewLayers(R"([
      {"type": "linear", "units": 8, "name": "stem"},
      {"type": "linear", "units": 8, "name": "a"},
      {"type": "linear", "units": 8, "name": "b"},
      {"type": "add", "from": ["b", "stem"], "name": "sum"},
      {"type": "relu", "name": "relu"},
      {"type": "linear", "units": 3, "name": "scores"}])",
                                {8}, 3);
  MemoryReplay replay(graph, LayoutFor(graph, 16));
  replay.Run();
  const ActivationPlan& plan = replay.plan();
  enum { kStem, kA, kB, kSum, kRelu };
  // Forward, the sum takes the place of the branch and the ReLU that of the
  // sum; stem and a are still needed for dW.
  EXPECT_EQ(plan.output[kSum], plan.output[kB]);
  EXPECT_EQ(plan.output[kRelu], plan.output[kSum]);
  EXPECT_NE(plan.output[kStem], plan.output[kSum]);
  // Backward, one place serves the sum and both branches: when a adds to the
  // gradient of the stem, b has read its own.
  EXPECT_EQ(plan.gradient[kSum], plan.gradient[kRelu]);
  EXPECT_EQ(plan.gradient[kB], plan.gradient[kSum]);
  EXPECT_EQ(plan.gradient[kStem], plan.gradient[kSum]);
  EXPECT_TRUE(plan.contributions[kA][0].add);
  EXPECT_EQ(plan.contributions[kA][0].temporary, ActivationPlan::kNone);
  // Outputs of stem, a and sum, scores, the gradient of the sum; that of a
  // takes the place of the sum.
  EXPECT_EQ(plan.size, 16 * (8 + 8 + 8 + 3 + 8));
}

TEST(Arena, ASumWithABranchOfOneLayerKeepsTwoGradients) {
  // The layer reads dy while it adds to dx.
  const Graph graph = NewLayers(R"([
      {"type": "linear", "units": 8, "name": "stem"},
      {"type": "linear", "units": 8, "name": "a"},
      {"type": "add", "from": ["stem", "a"], "name": "sum"},
      {"type": "linear", "units": 3}])",
                                {8}, 3);
  MemoryReplay replay(graph, LayoutFor(graph, 16));
  replay.Run();
  const ActivationPlan& plan = replay.plan();
  EXPECT_NE(plan.gradient[0], plan.gradient[1]);
}

TEST(Arena, ASecondReaderAddsItsGradient) {
  // The first of the backward pass, the later layer, overwrites.
  const Graph graph = NewLayers(R"([
      {"type": "linear", "units": 8, "name": "stem"},
      {"type": "flatten", "name": "view"},
      {"type": "linear", "units": 8, "name": "a", "from": ["stem"]},
      {"type": "dropout", "rate": 0.5, "name": "b", "from": ["stem"]},
      {"type": "linear", "units": 8, "name": "c", "from": ["view"]},
      {"type": "add", "name": "ab", "from": ["a", "b"]},
      {"type": "add", "name": "abc", "from": ["ab", "c"]},
      {"type": "linear", "units": 3}])",
                                {8}, 3);
  MemoryReplay replay(graph, LayoutFor(graph, 16));
  replay.Run();
  const ActivationPlan& plan = replay.plan();
  enum { kStem, kView, kA, kB, kC };
  EXPECT_FALSE(plan.contributions[kB][0].add);
  // linear adds by itself, a view does so by way of other memory.
  EXPECT_TRUE(plan.contributions[kA][0].add);
  EXPECT_EQ(plan.contributions[kA][0].temporary, ActivationPlan::kNone);
  EXPECT_TRUE(plan.contributions[kView][0].add);
  EXPECT_NE(plan.contributions[kView][0].temporary, ActivationPlan::kNone);
}

TEST(Arena, WhatOthersStillReadIsNotOverwrittenInPlace) {
  // The linear layer reads the stem in its backward pass, through a view.
  const Graph graph = NewLayers(R"([
      {"type": "linear", "units": 8, "name": "stem"},
      {"type": "flatten", "name": "view"},
      {"type": "linear", "units": 8, "name": "a"},
      {"type": "relu", "name": "relu", "from": ["stem"]},
      {"type": "add", "from": ["a", "relu"]},
      {"type": "linear", "units": 3}])",
                                {8}, 3);
  MemoryReplay replay(graph, LayoutFor(graph, 16));
  replay.Run();
  const ActivationPlan& plan = replay.plan();
  enum { kStem, kView, kA, kRelu, kAdd };
  EXPECT_EQ(plan.output[kView], plan.output[kStem]);
  EXPECT_NE(plan.output[kRelu], plan.output[kStem]);
  // Nor is the output that the ReLU needs backward.
  EXPECT_NE(plan.output[kAdd], plan.output[kRelu]);
  EXPECT_EQ(plan.output[kAdd], plan.output[kA]);
}

}  // namespace
}  // namespace lumen::nn
