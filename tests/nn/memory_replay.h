// SPDX-License-Identifier: Apache-2.0
// Replays what forward and backward passes read and write in a planned arena,
// without computing: every vector of memory only knows which value it holds.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/nn/arena.h"

namespace lumen::nn {

class MemoryReplay {
 public:
  MemoryReplay(const Graph& graph, LaneLayout layout,
               const ActivationUse& use = {})
      : graph_(graph),
        layout_(layout),
        plan_(PlanActivations(graph, layout, use)),
        output_(plan_.output),
        holds_(static_cast<size_t>(plan_.size), kNothing),
        outputs_(graph.nodes.size(), kNothing),
        gradients_(graph.nodes.size(), kNothing),
        saved_(graph.nodes.size(), kNothing) {}

  void Run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      Forward(i, plan_.forward_scratch[i]);
    }
    // The loss.
    const size_t last = graph_.nodes.size() - 1;
    Expect(Output(last), outputs_[last], "scores");
    const int loss = Write(Output(last));
    if (plan_.gradient[last] == ActivationPlan::kNone) return;
    EXPECT_EQ(plan_.gradient[last], plan_.output[last]);
    gradients_[last] = loss;
    output_ = plan_.output_again;
    for (const ActivationPlan::Step& step : plan_.backward) {
      const auto i = static_cast<size_t>(step.node);
      if (step.again) {
        Forward(i, plan_.again_scratch[i]);
      } else {
        Backward(i);
      }
    }
  }

  const ActivationPlan& plan() const { return plan_; }

 private:
  static constexpr int kNothing = -1;

  struct Place {
    int64_t begin;
    int64_t size;
    bool operator==(const Place&) const = default;
  };

  const Layer& layer(size_t i) const { return *graph_.nodes[i].layer; }
  const std::string& name(size_t i) const { return graph_.nodes[i].name; }
  int64_t Size(size_t i) const {
    return layer(i).output_shape().elements() * layout_.total_lanes();
  }
  Place Output(size_t i) const { return {output_[i], Size(i)}; }
  Place Gradient(size_t i) const { return {plan_.gradient[i], Size(i)}; }
  bool IsBatch(size_t i) const {
    return output_[i] == ActivationPlan::kNetworkInput;
  }
  static bool Overlap(Place a, Place b) {
    return a.begin < b.begin + b.size && b.begin < a.begin + a.size;
  }

  // A new value.
  int Write(Place place) {
    Put(place, ++values_);
    return values_;
  }
  void Put(Place place, int value) {
    for (int64_t f = place.begin; f < place.begin + place.size; ++f) {
      holds_[static_cast<size_t>(f)] = value;
    }
  }
  void Expect(Place place, int value, const std::string& what) const {
    for (int64_t f = place.begin; f < place.begin + place.size; ++f) {
      if (holds_[static_cast<size_t>(f)] == value) continue;
      ADD_FAILURE() << what << " is overwritten before its last read";
      return;
    }
  }

  void ExpectInputs(size_t i, const Place* overwritten = nullptr) const {
    for (int input : graph_.nodes[i].inputs) {
      const auto a = static_cast<size_t>(input);
      if (input < 0 || IsBatch(a)) continue;
      if (overwritten && *overwritten == Output(a)) continue;
      Expect(Output(a), outputs_[a], name(i) + ": its input " + name(a));
    }
  }

  void Forward(size_t i, int64_t scratch) {
    const std::vector<int>& inputs = graph_.nodes[i].inputs;
    const OutputMemory memory = layer(i).output_memory();
    Write({scratch, layer(i).scratch_floats(layout_)});
    const Place saved = {plan_.saved[i], layer(i).saved_floats(layout_)};
    saved_[i] = Write(saved);
    ExpectInputs(i);
    if (IsBatch(i)) {
      EXPECT_EQ(memory, OutputMemory::kView) << name(i);
      EXPECT_TRUE(inputs[0] < 0 || IsBatch(static_cast<size_t>(inputs[0])));
      return;
    }
    const Place y = Output(i);
    const auto first = static_cast<size_t>(inputs[0]);
    if (memory == OutputMemory::kView && inputs[0] >= 0 && Output(first) == y) {
      outputs_[i] = outputs_[first];
      return;
    }
    outputs_[i] = Write(y);
    // Nothing that a layer reads may lie in what it writes, except an input
    // exactly there, for a layer that works in place.
    ExpectInputs(i, memory == OutputMemory::kApart ? nullptr : &y);
    Expect(saved, saved_[i], name(i) + ": what it keeps");
  }

  void ExpectBackwardReads(size_t i, const std::vector<Place>& in_place) const {
    const BackwardNeeds needs = layer(i).backward_needs();
    if (needs.inputs) ExpectInputs(i);
    if (needs.output && !IsBatch(i)) {
      Expect(Output(i), outputs_[i], name(i) + ": its output");
    }
    Expect({plan_.saved[i], layer(i).saved_floats(layout_)}, saved_[i],
           name(i) + ": what it keeps");
    for (const Place& place : in_place) {
      if (place == Gradient(i)) return;
    }
    Expect(Gradient(i), gradients_[i], name(i) + ": its gradient");
  }

  void Backward(size_t i) {
    if (plan_.gradient[i] == ActivationPlan::kNone) {
      EXPECT_EQ(graph_.nodes[i].parameters, 0) << name(i);
      return;
    }
    const OutputMemory memory = layer(i).output_memory();
    const std::vector<int>& inputs = graph_.nodes[i].inputs;
    Write({plan_.backward_scratch[i], layer(i).scratch_floats(layout_)});
    ExpectBackwardReads(i, {});
    std::vector<Place> in_place;
    std::map<size_t, int> temporaries;
    for (size_t k = 0; k < inputs.size(); ++k) {
      const ActivationPlan::Contribution& how = plan_.contributions[i][k];
      const auto a = static_cast<size_t>(inputs[k]);
      if (inputs[k] < 0 || plan_.gradient[a] == ActivationPlan::kNone) continue;
      const Place dx = Gradient(a);
      const bool shared = dx == Gradient(i);
      EXPECT_EQ(how.add, gradients_[a] != kNothing) << name(i);
      if (how.temporary != ActivationPlan::kNone) {
        EXPECT_TRUE(how.add);
        temporaries[k] = Write({how.temporary, Size(a)});
      } else if (how.add) {
        EXPECT_TRUE(layer(i).adds_gradients() && !shared) << name(i);
        Expect(dx, gradients_[a], name(a) + ": its gradient so far");
        gradients_[a] = Write(dx);
      } else if (shared && (memory == OutputMemory::kView ||
                            memory == OutputMemory::kSum)) {
        gradients_[a] = gradients_[i];
      } else {
        gradients_[a] = Write(dx);
        if (memory == OutputMemory::kInPlace) in_place.push_back(dx);
      }
    }
    // Not even after all writes may anything it reads be gone.
    ExpectBackwardReads(i, in_place);
    for (const auto& [k, value] : temporaries) {
      const auto a = static_cast<size_t>(inputs[k]);
      Expect({plan_.contributions[i][k].temporary, Size(a)}, value,
             name(i) + ": what it adds");
      Expect(Gradient(a), gradients_[a], name(a) + ": its gradient so far");
      gradients_[a] = Write(Gradient(a));
    }
    for (int input : inputs) {
      const auto a = static_cast<size_t>(input);
      if (input < 0 || gradients_[a] == kNothing) continue;
      Expect(Gradient(a), gradients_[a], name(a) + ": its gradient");
    }
  }

  const Graph& graph_;
  LaneLayout layout_;
  ActivationPlan plan_;
  std::vector<int64_t> output_;  // places of this pass
  std::vector<int> holds_;       // which value, per float of the arena
  int values_ = 0;
  std::vector<int> outputs_, gradients_, saved_;  // values, per node
};

}  // namespace lumen::nn
