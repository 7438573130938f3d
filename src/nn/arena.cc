// SPDX-License-Identifier: Apache-2.0
#include "arena.h"

#include <algorithm>
#include <numeric>

namespace lumen::nn {
namespace {

// Nodes that read a node's output; the key is the node's index.
std::vector<std::vector<int>> Consumers(const Graph& graph) {
  std::vector<std::vector<int>> consumers(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (int input : graph.nodes[i].inputs) {
      if (input >= 0) {
        consumers[static_cast<size_t>(input)].push_back(static_cast<int>(i));
      }
    }
  }
  return consumers;
}

}  // namespace

ArenaPlan PlanArena(std::span<const Lifetime> lifetimes) {
  ArenaPlan plan{.offset = std::vector<int64_t>(lifetimes.size(), 0)};
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return lifetimes[a].size > lifetimes[b].size;
  });
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    const Lifetime& now = lifetimes[i];
    int64_t at = 0;
    for (size_t j : placed) {
      const Lifetime& other = lifetimes[j];
      if (other.end < now.begin || now.end < other.begin) continue;
      if (at + now.size <= plan.offset[j]) break;
      at = std::max(at, plan.offset[j] + other.size);
    }
    plan.offset[i] = at;
    plan.size = std::max(plan.size, at + now.size);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](size_t a, size_t b) {
                                     return plan.offset[a] < plan.offset[b];
                                   }),
                  i);
  }
  return plan;
}

ActivationPlan PlanActivations(const Graph& graph, LaneLayout layout) {
  const auto n = static_cast<int64_t>(graph.nodes.size());
  const auto consumers = Consumers(graph);
  const auto size = [&](int64_t i) {
    return graph.nodes[static_cast<size_t>(i)]
               .layer->output_shape()
               .elements() *
           layout.total_lanes();
  };
  // Forward of node i happens at time i, its backward at 2n - 1 - i.
  const auto backward = [n](int64_t i) { return 2 * n - 1 - i; };

  std::vector<Lifetime> lifetimes;
  std::vector<size_t> output(static_cast<size_t>(n));  // index of lifetime
  std::vector<size_t> gradient(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const Node& node = graph.nodes[static_cast<size_t>(i)];
    const int input = node.inputs[0];
    const bool alone =
        input >= 0 && consumers[static_cast<size_t>(input)].size() == 1;
    const bool overwrites =
        node.layer->in_place() && alone &&
        !graph.nodes[static_cast<size_t>(input)].layer->backward_needs().output;
    Lifetime life{i, i, size(i)};
    for (int consumer : consumers[static_cast<size_t>(i)]) {
      const bool kept = graph.nodes[static_cast<size_t>(consumer)]
                            .layer->backward_needs()
                            .inputs;
      life.end =
          std::max(life.end, kept ? backward(consumer) : int64_t{consumer});
    }
    if (node.layer->backward_needs().output || i == n - 1) {
      // The last output becomes its own gradient.
      life.end = std::max(life.end, backward(i));
    }
    if (overwrites) {
      output[static_cast<size_t>(i)] = output[static_cast<size_t>(input)];
      Lifetime& shared = lifetimes[output[static_cast<size_t>(i)]];
      shared.end = std::max(shared.end, life.end);
    } else {
      output[static_cast<size_t>(i)] = lifetimes.size();
      lifetimes.push_back(life);
    }
  }
  for (int64_t i = n - 1; i >= 0; --i) {
    const auto& readers = consumers[static_cast<size_t>(i)];
    if (readers.empty()) {
      gradient[static_cast<size_t>(i)] = output[static_cast<size_t>(i)];
      continue;
    }
    const Node& reader = graph.nodes[static_cast<size_t>(readers.back())];
    if (readers.size() == 1 && reader.layer->in_place()) {
      const size_t shared = gradient[static_cast<size_t>(readers[0])];
      gradient[static_cast<size_t>(i)] = shared;
      lifetimes[shared].end = std::max(lifetimes[shared].end, backward(i));
    } else {
      gradient[static_cast<size_t>(i)] = lifetimes.size();
      lifetimes.push_back({backward(readers.back()), backward(i), size(i)});
    }
  }

  const ArenaPlan arena = PlanArena(lifetimes);
  ActivationPlan plan;
  plan.size = arena.size;
  for (int64_t i = 0; i < n; ++i) {
    plan.output.push_back(arena.offset[output[static_cast<size_t>(i)]]);
    plan.gradient.push_back(arena.offset[gradient[static_cast<size_t>(i)]]);
  }
  return plan;
}

}  // namespace lumen::nn
