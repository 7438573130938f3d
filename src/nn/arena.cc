// SPDX-License-Identifier: Apache-2.0
#include "arena.h"

#include <glog/logging.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace lumen::nn {
namespace {

constexpr size_t kNowhere = std::numeric_limits<size_t>::max();
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// Nodes in time: forward of node i at i, its backward at 2n - 1 - i.
class Schedule {
 public:
  explicit Schedule(const Graph& graph)
      : graph_(graph), readers_(graph.nodes.size()) {
    for (int64_t i = 0; i < size(); ++i) {
      bool trained = node(i).parameters > 0;
      for (int input : node(i).inputs) {
        CHECK_LT(input, i) << node(i).name;
        if (input < 0) continue;
        readers_[static_cast<size_t>(input)].push_back(i);
        trained |= trained_[static_cast<size_t>(input)];
      }
      trained_.push_back(trained);
    }
  }

  int64_t size() const { return std::ssize(graph_.nodes); }
  const Node& node(int64_t i) const {
    return graph_.nodes[static_cast<size_t>(i)];
  }
  const Layer& layer(int64_t i) const { return *node(i).layer; }
  // Does a gradient flow into the output of the node?
  bool trained(int64_t i) const { return trained_[static_cast<size_t>(i)]; }
  int64_t backward(int64_t i) const { return 2 * size() - 1 - i; }

  // When the output of node i is read for the last time, leaving out the
  // forward pass of node `except`.
  int64_t LastUse(int64_t i, int64_t except = -1) const {
    // The last output becomes its own gradient.
    if (i == size() - 1) return backward(i);
    int64_t last = i;
    if (trained(i) && layer(i).backward_needs().output) last = backward(i);
    for (int64_t reader : readers_[static_cast<size_t>(i)]) {
      if (reader != except) last = std::max(last, reader);
      if (trained(reader) && layer(reader).backward_needs().inputs) {
        last = std::max(last, backward(reader));
      }
    }
    return last;
  }

  // When the gradient of node i changes for the first time after the backward
  // pass of `writer` gave it a value.
  int64_t NextWrite(int64_t i, int64_t writer) const {
    int64_t next = layer(i).output_memory() == OutputMemory::kInPlace
                       ? backward(i)
                       : kNever;
    for (int64_t reader : readers_[static_cast<size_t>(i)]) {
      if (reader < writer) next = std::min(next, backward(reader));
    }
    return next;
  }

 private:
  const Graph& graph_;
  std::vector<std::vector<int64_t>> readers_;  // ascending
  std::vector<bool> trained_;
};

// Memory is planned as a list of lifetimes; a place is an index into it.
struct Places {
  std::vector<Lifetime> lifetimes;

  size_t New(int64_t begin, int64_t end, int64_t size) {
    lifetimes.push_back({begin, end, size});
    return lifetimes.size() - 1;
  }
  void Extend(size_t place, int64_t end) {
    if (place == kNowhere) return;
    lifetimes[place].end = std::max(lifetimes[place].end, end);
  }
};

class OutputPlanner {
 public:
  OutputPlanner(const Schedule& schedule, std::span<const int64_t> sizes,
                Places* places)
      : schedule_(schedule), places_(places) {
    for (int64_t i = 0; i < schedule.size(); ++i) {
      const int shared = SharedInput(i);
      size_t place = kNowhere;
      if (shared != kNothing) {
        place = shared < 0 ? kNowhere : of_[static_cast<size_t>(shared)];
      } else {
        place = places->New(i, i, sizes[static_cast<size_t>(i)]);
      }
      of_.push_back(place);
      if (place == kNowhere) continue;
      if (values_.size() <= place) values_.resize(place + 1);
      // A view adds a reader to the value; others replace it.
      if (schedule.layer(i).output_memory() != OutputMemory::kView) {
        values_[place].clear();
      }
      values_[place].push_back(i);
      places->Extend(place, schedule.LastUse(i));
    }
  }

  std::vector<size_t> places() const { return of_; }

 private:
  static constexpr int kNothing = -2;

  // The input in whose memory the output of node i may lie; -1 is that of the
  // network.
  int SharedInput(int64_t i) const {
    const std::vector<int>& inputs = schedule_.node(i).inputs;
    const OutputMemory memory = schedule_.layer(i).output_memory();
    if (memory == OutputMemory::kApart) return kNothing;
    if (memory == OutputMemory::kView) {
      // The loss overwrites the last output.
      return i < schedule_.size() - 1 ? inputs[0] : kNothing;
    }
    CHECK(!schedule_.layer(i).backward_needs().inputs);
    for (int input : inputs) {
      if (input >= 0 && MayOverwrite(of_[static_cast<size_t>(input)], i)) {
        return input;
      }
    }
    return kNothing;
  }

  bool MayOverwrite(size_t place, int64_t i) const {
    if (place == kNowhere) return false;  // the batch belongs to the loader
    for (int64_t value : values_[place]) {
      if (schedule_.LastUse(value, i) > i) return false;
    }
    return true;
  }

  const Schedule& schedule_;
  Places* places_;
  std::vector<size_t> of_;                    // per node
  std::vector<std::vector<int64_t>> values_;  // per place: nodes whose output
                                              // it holds
};

class GradientPlanner {
 public:
  // The last gradient has the place of the last output.
  GradientPlanner(const Schedule& schedule, std::span<const int64_t> sizes,
                  size_t last_output, Places* places)
      : schedule_(schedule),
        sizes_(sizes),
        places_(places),
        of_(sizes.size(), kNowhere),
        temporary_(sizes.size()),
        add_(sizes.size()) {
    const int64_t last = schedule.size() - 1;
    if (schedule.trained(last)) Take(last, last_output, kNever);
    for (int64_t i = last; i >= 0; --i) {
      for (int input : schedule.node(i).inputs) Contribute(i, input);
    }
  }

  const std::vector<size_t>& places() const { return of_; }
  // Per node and input.
  const auto& temporary() const { return temporary_; }
  const auto& add() const { return add_; }

 private:
  struct Member {
    int64_t read;   // when its node is done with it
    int64_t write;  // when it changes
    int64_t node;
  };

  void Contribute(int64_t i, int input) {
    size_t temporary = kNowhere;
    bool add = false;
    if (schedule_.trained(i) && input >= 0 && schedule_.trained(input)) {
      const auto a = static_cast<size_t>(input);
      const int64_t now = schedule_.backward(i);
      add = of_[a] != kNowhere;
      if (!add) {
        const int64_t write = schedule_.NextWrite(input, i);
        Take(input,
             MayShare(i, input, write)
                 ? of_[static_cast<size_t>(i)]
                 : places_->New(now, schedule_.backward(input), sizes_[a]),
             write);
      } else if (!schedule_.layer(i).adds_gradients()) {
        temporary = places_->New(now, now, sizes_[a]);
      }
    }
    temporary_[static_cast<size_t>(i)].push_back(temporary);
    add_[static_cast<size_t>(i)].push_back(add);
  }

  void Take(int64_t node, size_t place, int64_t write) {
    const int64_t read = schedule_.backward(node);
    of_[static_cast<size_t>(node)] = place;
    places_->Extend(place, read);
    if (members_.size() <= place) members_.resize(place + 1);
    members_[place].push_back({read, write, node});
  }

  // May the gradient of `input` lie where that of node i does? Not when either
  // changes while others there still read.
  bool MayShare(int64_t i, int input, int64_t write) const {
    if (schedule_.layer(i).output_memory() == OutputMemory::kApart) {
      return false;
    }
    const int64_t now = schedule_.backward(i);
    const int64_t read = schedule_.backward(input);
    for (const Member& member : members_[of_[static_cast<size_t>(i)]]) {
      if (member.node == i || member.read < now) continue;
      if (write <= member.read || member.write <= read) return false;
    }
    return true;
  }

  const Schedule& schedule_;
  std::span<const int64_t> sizes_;
  Places* places_;
  std::vector<size_t> of_;
  std::vector<std::vector<size_t>> temporary_;
  std::vector<std::vector<bool>> add_;
  std::vector<std::vector<Member>> members_;  // per place
};

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
  Places places;
  std::vector<int64_t> sizes;
  std::vector<size_t> saved, forward_scratch, backward_scratch;
  for (int64_t i = 0; i < schedule.size(); ++i) {
    const Layer& layer = schedule.layer(i);
    sizes.push_back(layer.output_shape().elements() * layout.total_lanes());
    const int64_t back = schedule.backward(i);
    const int64_t scratch = layer.scratch_floats(layout);
    saved.push_back(places.New(i, back, layer.saved_floats(layout)));
    forward_scratch.push_back(places.New(i, i, scratch));
    backward_scratch.push_back(
        places.New(back, back, schedule.trained(i) ? scratch : 0));
  }
  const OutputPlanner outputs(schedule, sizes, &places);
  const GradientPlanner gradients(schedule, sizes, outputs.places().back(),
                                  &places);
  const ArenaPlan arena = PlanArena(places.lifetimes);
  const auto offset = [&](size_t place) {
    return place == kNowhere ? ActivationPlan::kNone : arena.offset[place];
  };
  ActivationPlan plan;
  plan.size = arena.size;
  for (size_t i = 0; i < sizes.size(); ++i) {
    plan.output.push_back(offset(outputs.places()[i]));
    plan.gradient.push_back(offset(gradients.places()[i]));
    plan.saved.push_back(offset(saved[i]));
    plan.forward_scratch.push_back(offset(forward_scratch[i]));
    plan.backward_scratch.push_back(offset(backward_scratch[i]));
    std::vector<ActivationPlan::Contribution> contributions;
    for (size_t k = 0; k < gradients.add()[i].size(); ++k) {
      contributions.push_back(
          {gradients.add()[i][k], offset(gradients.temporary()[i][k])});
    }
    plan.contributions.push_back(std::move(contributions));
  }
  return plan;
}

}  // namespace lumen::nn
