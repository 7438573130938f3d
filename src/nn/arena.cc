// SPDX-License-Identifier: Apache-2.0
#include "arena.h"

#include <glog/logging.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace lumen::nn {
namespace {

constexpr size_t kNowhere = std::numeric_limits<size_t>::max();

// A chain of layers in time: forward of node i at i, its backward at 2n - 1 -
// i.
class Schedule {
 public:
  explicit Schedule(const Graph& graph) : graph_(graph) {
    for (int64_t i = 0; i < size(); ++i) {
      CHECK_EQ(node(i).inputs.size(), 1u) << node(i).name;
      CHECK_EQ(node(i).inputs[0], i - 1) << node(i).name;
    }
    while (first_trained_ < size() && node(first_trained_).parameters == 0) {
      ++first_trained_;
    }
  }

  int64_t size() const { return std::ssize(graph_.nodes); }
  const Layer& layer(int64_t i) const { return *node(i).layer; }
  // Nodes before the first with parameters have no backward pass.
  bool trained(int64_t i) const { return i >= first_trained_; }
  int64_t backward(int64_t i) const { return 2 * size() - 1 - i; }
  bool reads_output(int64_t i) const {
    return trained(i) && layer(i).backward_needs().output;
  }
  bool reads_inputs(int64_t i) const {
    return trained(i) && layer(i).backward_needs().inputs;
  }

  // When the output of node i was read for the last time.
  int64_t LastUse(int64_t i) const {
    // The last output becomes its own gradient.
    if (reads_output(i) || i == size() - 1) return backward(i);
    return reads_inputs(i + 1) ? backward(i + 1) : i + 1;
  }

 private:
  const Node& node(int64_t i) const {
    return graph_.nodes[static_cast<size_t>(i)];
  }

  const Graph& graph_;
  int64_t first_trained_ = 0;
};

// Each buffer of a plan is an index into `lifetimes`.
std::vector<size_t> OutputBuffers(const Schedule& schedule,
                                  std::span<const int64_t> sizes,
                                  std::vector<Lifetime>* lifetimes) {
  std::vector<size_t> buffers;
  size_t buffer = kNowhere;  // of the node before; first the network input
  bool needed = true;        // must the values in it outlive this node?
  for (int64_t i = 0; i < schedule.size(); ++i) {
    const OutputMemory memory = schedule.layer(i).output_memory();
    CHECK(memory != OutputMemory::kInPlace ||
          !schedule.layer(i).backward_needs().inputs);
    // The loss overwrites the last output.
    const bool view = memory == OutputMemory::kView && i < schedule.size() - 1;
    const bool shares = view || (memory != OutputMemory::kApart && !needed);
    if (!shares) {
      buffer = lifetimes->size();
      lifetimes->push_back({i, i, sizes[static_cast<size_t>(i)]});
    }
    needed = (view && needed) || schedule.reads_output(i);
    if (buffer != kNowhere) {
      Lifetime& life = (*lifetimes)[buffer];
      life.end = std::max(life.end, schedule.LastUse(i));
    }
    buffers.push_back(buffer);
  }
  return buffers;
}

// The last gradient has the place of the last output.
std::vector<size_t> GradientBuffers(const Schedule& schedule,
                                    std::span<const int64_t> sizes,
                                    size_t last_output,
                                    std::vector<Lifetime>* lifetimes) {
  std::vector<size_t> buffers(sizes.size(), kNowhere);
  size_t buffer = last_output;
  for (int64_t i = schedule.size() - 1; schedule.trained(i) && i >= 0; --i) {
    if (i < schedule.size() - 1 &&
        schedule.layer(i + 1).output_memory() == OutputMemory::kApart) {
      buffer = lifetimes->size();
      lifetimes->push_back(
          {schedule.backward(i + 1), 0, sizes[static_cast<size_t>(i)]});
    }
    (*lifetimes)[buffer].end = schedule.backward(i);
    buffers[static_cast<size_t>(i)] = buffer;
  }
  return buffers;
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
  const Schedule schedule(graph);
  std::vector<int64_t> sizes;
  for (const Node& node : graph.nodes) {
    sizes.push_back(node.layer->output_shape().elements() *
                    layout.total_lanes());
  }
  std::vector<Lifetime> lifetimes;
  const auto outputs = OutputBuffers(schedule, sizes, &lifetimes);
  const auto gradients =
      GradientBuffers(schedule, sizes, outputs.back(), &lifetimes);
  const ArenaPlan arena = PlanArena(lifetimes);
  ActivationPlan plan;
  plan.size = arena.size;
  for (size_t i = 0; i < sizes.size(); ++i) {
    plan.output.push_back(outputs[i] == kNowhere ? ActivationPlan::kNetworkInput
                                                 : arena.offset[outputs[i]]);
    plan.gradient.push_back(gradients[i] == kNowhere
                                ? ActivationPlan::kNone
                                : arena.offset[gradients[i]]);
  }
  return plan;
}

}  // namespace lumen::nn
