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

// Places in floats from the start of the arena, per node. Nodes that work in
// place and views have the place of an input.
struct ActivationPlan {
  static constexpr int64_t kNetworkInput = -1;  // output: a view of the batch
  static constexpr int64_t kNone = -1;

  // How the gradient of an input of a node comes about.
  struct Contribution {
    bool add = false;           // others wrote to it before
    int64_t temporary = kNone;  // where the layer writes what is added then
  };

  std::vector<int64_t> output;
  std::vector<int64_t> gradient;  // of the output; kNone: no parameter needs it
  std::vector<int64_t> saved;
  std::vector<int64_t> forward_scratch;
  std::vector<int64_t> backward_scratch;
  std::vector<std::vector<Contribution>> contributions;  // per node and input
  int64_t size = 0;
};
ActivationPlan PlanActivations(const Graph& graph, LaneLayout layout);

}  // namespace lumen::nn
