// SPDX-License-Identifier: Apache-2.0
#include "src/nn/arena.h"

#include <gtest/gtest.h>

#include "network.h"

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

}  // namespace
}  // namespace lumen::nn
