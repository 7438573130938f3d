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

// Nodes in time: all forward passes, then segment by segment, the last one
// first, forward passes once more and the backward passes.
class Schedule {
 public:
  // A forward pass: the first of each node, then those that come again.
  struct Evaluation {
    int64_t node = 0;
    int64_t time = 0;
    std::vector<int64_t> inputs;   // evaluations; kBatch
    std::vector<int64_t> readers;  // evaluations, ascending
  };
  static constexpr int64_t kBatch = -1;

  Schedule(const Graph& graph, const ActivationUse& use)
      : graph_(graph), readers_(graph.nodes.size()) {
    for (int64_t i = 0; i < size(); ++i) {
      bool trained = node(i).parameters > 0;
      for (int input : node(i).inputs) {
        CHECK_LT(input, i) << node(i).name;
        if (input < 0) continue;
        readers_[static_cast<size_t>(input)].push_back(i);
        trained |= trained_[static_cast<size_t>(input)];
      }
      trained_.push_back(trained && use.passes == PassKind::kTraining);
      seen_.push_back(i);
      AddEvaluation(i, i);
    }
    backward_.resize(graph.nodes.size());
    const std::vector<int>& cuts = use.cuts;
    int64_t end = size();
    for (auto cut = std::ssize(cuts); cut >= 0; --cut) {
      const int64_t begin =
          cut == 0 ? 0 : cuts[static_cast<size_t>(cut - 1)] + 1;
      if (cut < std::ssize(cuts)) AddSegmentAgain(begin, end - 1);
      for (int64_t i = end; i-- > begin;) {
        backward_[static_cast<size_t>(i)] = now();
        steps_.push_back({.node = static_cast<int>(i), .again = false});
      }
      end = begin;
    }
  }

  int64_t size() const { return std::ssize(graph_.nodes); }
  const Node& node(int64_t i) const {
    return graph_.nodes[static_cast<size_t>(i)];
  }
  const Layer& layer(int64_t i) const { return *node(i).layer; }
  // Does a gradient flow into the output of the node?
  bool trained(int64_t i) const { return trained_[static_cast<size_t>(i)]; }
  int64_t backward(int64_t i) const {
    return backward_[static_cast<size_t>(i)];
  }
  const std::vector<Evaluation>& evaluations() const { return evaluations_; }
  const Evaluation& evaluation(int64_t e) const {
    return evaluations_[static_cast<size_t>(e)];
  }
  // The evaluation whose output the backward pass reads.
  int64_t seen(int64_t i) const { return seen_[static_cast<size_t>(i)]; }
  const std::vector<ActivationPlan::Step>& steps() const { return steps_; }

  // When the output of an evaluation is read for the last time, leaving out
  // the evaluation `except`.
  int64_t LastUse(int64_t e, int64_t except = -1) const {
    const Evaluation& it = evaluation(e);
    // The last output becomes its own gradient.
    if (it.node == size() - 1) return backward(it.node);
    int64_t last = it.time;
    for (int64_t reader : it.readers) {
      if (reader != except) last = std::max(last, evaluation(reader).time);
    }
    if (seen(it.node) == e) last = std::max(last, LastBackwardUse(it.node));
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
  // -1 when no backward pass reads the output of node i.
  int64_t LastBackwardUse(int64_t i) const {
    int64_t last = -1;
    if (trained(i) && layer(i).backward_needs().output) last = backward(i);
    for (int64_t reader : readers_[static_cast<size_t>(i)]) {
      if (trained(reader) && layer(reader).backward_needs().inputs) {
        last = std::max(last, backward(reader));
      }
    }
    return last;
  }

  int64_t now() const { return size() + std::ssize(steps_); }

  void AddEvaluation(int64_t i, int64_t time) {
    Evaluation it{.node = i, .time = time, .inputs = {}, .readers = {}};
    for (int input : node(i).inputs) {
      const int64_t from = input < 0 ? kBatch : seen(input);
      it.inputs.push_back(from);
      if (from == kBatch) continue;
      evaluations_[static_cast<size_t>(from)].readers.push_back(
          std::ssize(evaluations_));
    }
    evaluations_.push_back(std::move(it));
  }

  // Of nodes [begin, end) what their backward passes, or later ones of them,
  // need.
  void AddSegmentAgain(int64_t begin, int64_t end) {
    std::vector<bool> needed(static_cast<size_t>(end - begin));
    for (int64_t i = end; i-- > begin;) {
      bool need = LastBackwardUse(i) >= 0;
      for (int64_t reader : readers_[static_cast<size_t>(i)]) {
        CHECK_LE(reader, end) << node(i).name << " crosses a cut";
        need |= reader < end && needed[static_cast<size_t>(reader - begin)];
      }
      // The node at the cut is kept, so it reads its inputs no more.
      needed[static_cast<size_t>(i - begin)] = need;
    }
    for (int64_t i = begin; i < end; ++i) {
      if (!needed[static_cast<size_t>(i - begin)]) continue;
      AddEvaluation(i, now());
      seen_[static_cast<size_t>(i)] = std::ssize(evaluations_) - 1;
      steps_.push_back({.node = static_cast<int>(i), .again = true});
    }
  }

  const Graph& graph_;
  std::vector<std::vector<int64_t>> readers_;  // nodes, ascending
  std::vector<bool> trained_;
  std::vector<Evaluation> evaluations_;
  std::vector<int64_t> seen_;
  std::vector<int64_t> backward_;
  std::vector<ActivationPlan::Step> steps_;
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
  // `sizes` per node.
  OutputPlanner(const Schedule& schedule, std::span<const int64_t> sizes,
                Places* places)
      : schedule_(schedule), places_(places) {
    for (int64_t e = 0; e < std::ssize(schedule.evaluations()); ++e) {
      const Schedule::Evaluation& it = schedule.evaluation(e);
      const int64_t shared = SharedInput(e);
      size_t place = kNowhere;
      if (shared == kNothing) {
        place =
            places->New(it.time, it.time, sizes[static_cast<size_t>(it.node)]);
      } else if (shared != Schedule::kBatch) {
        place = of_[static_cast<size_t>(shared)];
      }
      of_.push_back(place);
      if (place == kNowhere) continue;
      if (values_.size() <= place) values_.resize(place + 1);
      // A view adds a reader to the value; others replace it.
      if (schedule.layer(it.node).output_memory() != OutputMemory::kView) {
        values_[place].clear();
      }
      values_[place].push_back(e);
      places->Extend(place, schedule.LastUse(e));
    }
  }

  // Per evaluation.
  const std::vector<size_t>& places() const { return of_; }

 private:
  static constexpr int64_t kNothing = -2;

  // The evaluation in whose memory the output of e may lie.
  int64_t SharedInput(int64_t e) const {
    const Schedule::Evaluation& it = schedule_.evaluation(e);
    const Layer& layer = schedule_.layer(it.node);
    const OutputMemory memory = layer.output_memory();
    if (memory == OutputMemory::kApart) return kNothing;
    if (memory == OutputMemory::kView) {
      // The loss overwrites the last output.
      return it.node < schedule_.size() - 1 ? it.inputs[0] : kNothing;
    }
    CHECK(!layer.backward_needs().inputs);
    for (int64_t input : it.inputs) {
      if (input != Schedule::kBatch &&
          MayOverwrite(of_[static_cast<size_t>(input)], e)) {
        return input;
      }
    }
    return kNothing;
  }

  bool MayOverwrite(size_t place, int64_t e) const {
    if (place == kNowhere) return false;  // the batch belongs to the loader
    for (int64_t value : values_[place]) {
      if (schedule_.LastUse(value, e) > schedule_.evaluation(e).time) {
        return false;
      }
    }
    return true;
  }

  const Schedule& schedule_;
  Places* places_;
  std::vector<size_t> of_;                    // per evaluation
  std::vector<std::vector<int64_t>> values_;  // per place: evaluations whose
                                              // output it holds
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
    if (now.size == 0) break;  // the rest needs no place
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

ActivationPlan PlanActivations(const Graph& graph, LaneLayout layout,
                               const ActivationUse& use) {
  const Schedule schedule(graph, use);
  Places places;
  std::vector<int64_t> sizes;
  std::vector<size_t> saved, backward_scratch, evaluation_scratch;
  for (int64_t i = 0; i < schedule.size(); ++i) {
    const Layer& layer = schedule.layer(i);
    sizes.push_back(layer.output_shape().elements() * layout.total_lanes());
    const int64_t back = schedule.backward(i);
    saved.push_back(places.New(i, schedule.trained(i) ? back : i,
                               layer.saved_floats(layout)));
    backward_scratch.push_back(places.New(
        back, back, schedule.trained(i) ? layer.scratch_floats(layout) : 0));
  }
  for (const Schedule::Evaluation& it : schedule.evaluations()) {
    evaluation_scratch.push_back(places.New(
        it.time, it.time, schedule.layer(it.node).scratch_floats(layout)));
  }
  const OutputPlanner outputs(schedule, sizes, &places);
  const GradientPlanner gradients(schedule, sizes,
                                  outputs.places()[sizes.size() - 1], &places);
  const ArenaPlan arena = PlanArena(places.lifetimes);
  const auto offset = [&](size_t place) {
    return place == kNowhere ? ActivationPlan::kNone : arena.offset[place];
  };
  ActivationPlan plan;
  plan.size = arena.size;
  plan.backward = schedule.steps();
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto again =
        static_cast<size_t>(schedule.seen(static_cast<int64_t>(i)));
    plan.output.push_back(offset(outputs.places()[i]));
    plan.output_again.push_back(offset(outputs.places()[again]));
    plan.gradient.push_back(offset(gradients.places()[i]));
    plan.saved.push_back(offset(saved[i]));
    plan.forward_scratch.push_back(offset(evaluation_scratch[i]));
    plan.again_scratch.push_back(offset(evaluation_scratch[again]));
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

std::vector<int> PossibleCuts(const Graph& graph) {
  const auto nodes = static_cast<int>(graph.nodes.size());
  std::vector<int> last_reader(graph.nodes.size(), -1);
  for (int i = 0; i < nodes; ++i) {
    for (int input : graph.nodes[static_cast<size_t>(i)].inputs) {
      if (input >= 0) last_reader[static_cast<size_t>(input)] = i;
    }
  }
  std::vector<int> cuts;
  int farthest = -1;  // reader of a node before i
  for (int i = 0; i + 1 < nodes; ++i) {
    if (farthest <= i) cuts.push_back(i);
    farthest = std::max(farthest, last_reader[static_cast<size_t>(i)]);
  }
  return cuts;
}

}  // namespace lumen::nn
