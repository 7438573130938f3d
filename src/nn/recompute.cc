// SPDX-License-Identifier: Apache-2.0
// Which outputs to keep and which to compute again: segments of about equal
// memory, from the input on, as many as the limit asks for.
#include <algorithm>
#include <utility>

#include "arena.h"
#include "lumen/nn/model.h"

namespace lumen::nn {
namespace {

constexpr int kSegmentSizes = 10;  // tried: a half, a quarter, ... of all

int64_t OutputFloats(const Graph& graph, LaneLayout layout, size_t i) {
  const Layer& layer = *graph.nodes[i].layer;
  // What lies in place of an input takes no memory of its own.
  return layer.output_memory() == OutputMemory::kApart
             ? layer.output_shape().elements() * layout.total_lanes()
             : 0;
}

// Segments of at least `floats`, but for the last one.
std::vector<int> CutsEvery(const Graph& graph, LaneLayout layout,
                           std::span<const int> possible, int64_t floats) {
  std::vector<int> cuts;
  int64_t inside = 0;
  size_t node = 0;
  for (int cut : possible) {
    for (; node <= static_cast<size_t>(cut); ++node) {
      inside += OutputFloats(graph, layout, node);
    }
    // A cut inside a run of layers that share memory would part them.
    if (inside < floats ||
        (node < graph.nodes.size() &&
         graph.nodes[node].layer->output_memory() != OutputMemory::kApart)) {
      continue;
    }
    cuts.push_back(cut);
    inside = 0;
  }
  return cuts;
}

}  // namespace

int64_t MultiplyAddsAgain(const Graph& graph, LaneLayout layout,
                          const std::vector<int>& cuts) {
  if (cuts.empty()) return 0;
  int64_t again = 0;
  for (const auto& step :
       PlanActivations(graph, layout, {.cuts = cuts}).backward) {
    if (step.again) again += graph.MultiplyAdds(step.node);
  }
  return again;
}

std::vector<int> ChooseCuts(const Graph& graph, LaneLayout layout,
                            int64_t most_bytes) {
  const int64_t bytes_of_all = ArenaBytes(graph, layout);
  if (bytes_of_all <= most_bytes) return {};
  const std::vector<int> possible = PossibleCuts(graph);
  int64_t all = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    all += OutputFloats(graph, layout, i);
  }
  std::vector<int> best, smallest;
  int64_t best_work = -1, smallest_bytes = bytes_of_all;
  for (int i = 1; i <= kSegmentSizes; ++i) {
    const std::vector<int> cuts = CutsEvery(graph, layout, possible, all >> i);
    const int64_t bytes = ArenaBytes(graph, layout, {.cuts = cuts});
    if (bytes < smallest_bytes) {
      smallest_bytes = bytes;
      smallest = cuts;
    }
    if (bytes > most_bytes) continue;
    // The fewest cuts that do.
    const auto first = [&](size_t count) {
      return std::vector<int>(cuts.begin(),
                              cuts.begin() + static_cast<int64_t>(count));
    };
    size_t low = 0, high = cuts.size();
    while (high - low > 1) {
      const size_t middle = (low + high) / 2;
      const bool fits =
          ArenaBytes(graph, layout, {.cuts = first(middle)}) <= most_bytes;
      (fits ? high : low) = middle;
    }
    const std::vector<int> few = first(high);
    const int64_t work = MultiplyAddsAgain(graph, layout, few);
    if (best_work < 0 || work < best_work) {
      best_work = work;
      best = few;
    }
  }
  return best_work >= 0 ? best : smallest;
}

}  // namespace lumen::nn
