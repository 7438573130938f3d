// SPDX-License-Identifier: Apache-2.0
// Memory of activations: which buffers may share a place.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lumen/nn/model.h"

namespace lumen::nn {

// A buffer of `size` floats that is needed at times [begin, end].
struct Lifetime {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size = 0;
};

struct ArenaPlan {
  std::vector<int64_t> offset;  // of each lifetime, in floats
  int64_t size = 0;
};

// Greedy by size: each buffer goes to the lowest gap among those placed that it
// meets in time (Pisarchyk and Lee 2020, "Greedy by Size for Offset
// Calculation"). Deterministic.
ArenaPlan PlanArena(std::span<const Lifetime> lifetimes);

// Places of outputs and of their gradients, per node, in floats from the start
// of the arena. Nodes that work in place and views have the place of their
// input.
struct ActivationPlan {
  static constexpr int64_t kNetworkInput = -1;  // output: a view of the batch
  static constexpr int64_t kNone = -1;  // gradient: no parameter needs it

  std::vector<int64_t> output;
  std::vector<int64_t> gradient;
  int64_t size = 0;
};
// REQUIRES: each node reads the one before it.
ActivationPlan PlanActivations(const Graph& graph, LaneLayout layout);

}  // namespace lumen::nn
