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

  // A step of the backward pass: of a node, or its forward pass once more.
  struct Step {
    int node = 0;
    bool again = false;
  };

  std::vector<int64_t> output;
  std::vector<int64_t> output_again;  // as the backward pass finds it
  std::vector<int64_t> gradient;  // of the output; kNone: no parameter needs it
  std::vector<int64_t> saved;
  std::vector<int64_t> forward_scratch;
  std::vector<int64_t> again_scratch;
  std::vector<int64_t> backward_scratch;
  std::vector<Step> backward;
  std::vector<std::vector<Contribution>> contributions;  // per node and input
  int64_t size = 0;
};
// Nodes up to the last cut are computed again in the backward pass, as far as
// it needs them, segment by segment; the outputs at cuts, which end the
// segments, are kept. REQUIRES: cuts are among PossibleCuts, ascending.
ActivationPlan PlanActivations(const Graph& graph, LaneLayout layout,
                               const ActivationUse& use = {});

// Nodes, without the last, such that later ones read nothing before them.
std::vector<int> PossibleCuts(const Graph& graph);

}  // namespace lumen::nn
