// SPDX-License-Identifier: Apache-2.0
#include "lumen/nn/model.h"

#include <glog/logging.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "arena.h"
#include "elementwise.h"

namespace lumen::nn {

int64_t ArenaBytes(const Graph& graph, LaneLayout layout,
                   const ActivationUse& use) {
  return PlanActivations(graph, layout, use).size *
         static_cast<int64_t>(sizeof(float));
}

Model::Model(Graph graph, LaneLayout layout, uint64_t seed,
             const sparse::Compute& compute, const ModelSource& source,
             const ActivationUse& use)
    : graph_(std::move(graph)),
      layout_(layout),
      seed_(seed),
      compute_(compute),
      parameters_(graph_.declarations) {
  for (const Node& node : graph_.nodes) {
    for (int p = 0; p < node.parameters; ++p) {
      const int index = node.first_parameter + p;
      Parameter& tensor = parameters_.tensors()[static_cast<size_t>(index)];
      if (tensor.decl.is_sparse()) {
        tensor.rows = std::make_unique<sparse::KernelRows>(
            source.pattern(index), node.layer->addressing(layout_.lanes),
            compute_.parallel);
        CHECK_EQ(tensor.rows->nnz(), tensor.size()) << tensor.decl.name;
      }
      source.values(index, tensor, parameters_.values(tensor));
    }
  }
  parameters_.Refresh(compute_.parallel);
  for (const StatisticDecl& statistic : graph_.statistics) {
    const size_t begin = statistics_.size();
    statistics_.resize(begin + static_cast<size_t>(statistic.size),
                       statistic.initial);
    if (source.statistic) {
      source.statistic(statistic, std::span(statistics_).subspan(begin));
    }
  }
  plan_ = std::make_unique<const ActivationPlan>(
      PlanActivations(graph_, layout_, use));
  arena_ = Buffer<float>(plan_->size);
}

Model::Model(Model&&) noexcept = default;
Model::~Model() = default;

void Model::HashInto(Hasher* hasher) const {
  parameters_.HashInto(hasher);
  int64_t begin = 0;
  for (const StatisticDecl& statistic : graph_.statistics) {
    hasher->Update(statistic.name);
    hasher->Update(std::span<const int64_t>(&statistic.size, 1));
    hasher->Update(statistics().subspan(static_cast<size_t>(begin),
                                        static_cast<size_t>(statistic.size)));
    begin += statistic.size;
  }
}

// The layers behind the last strip have the sample in one lane.
LaneLayout Model::LayoutOf(int node) const {
  LaneLayout layout = layout_;
  if (node >= 0 && !graph_.nodes[static_cast<size_t>(node)].in_strips) {
    layout.strips = 1;
  }
  return layout;
}

Panel Model::Output(const std::vector<int64_t>& places, int node,
                    const Panel& x) {
  if (node < 0) return x;
  const auto i = static_cast<size_t>(node);
  float* data = places[i] == ActivationPlan::kNetworkInput
                    ? x.data
                    : arena_.data() + places[i];
  return {data, graph_.nodes[i].layer->output_shape(), LayoutOf(node)};
}

Panel Model::Gradient(int node) {
  if (node < 0) return {nullptr, graph_.input, layout_};
  const auto i = static_cast<size_t>(node);
  float* data = plan_->gradient[i] == ActivationPlan::kNone
                    ? nullptr
                    : arena_.data() + plan_->gradient[i];
  return {data, graph_.nodes[i].layer->output_shape(), LayoutOf(node)};
}

std::vector<BoundParameter> Model::Bind(const Node& node,
                                        float* gradient) const {
  std::vector<BoundParameter> bound;
  for (int p = 0; p < node.parameters; ++p) {
    const Parameter& tensor =
        parameters_.tensors()[static_cast<size_t>(node.first_parameter + p)];
    bound.push_back({parameters_.values(tensor).data(),
                     gradient ? gradient + tensor.offset : nullptr,
                     tensor.rows.get()});
  }
  return bound;
}

LayerContext Model::Context(int node, const Pass& pass,
                            std::span<const BoundParameter> parameters,
                            int64_t scratch) {
  const auto i = static_cast<size_t>(node);
  const auto at = [&](int64_t offset) {
    return offset == ActivationPlan::kNone ? nullptr : arena_.data() + offset;
  };
  const int64_t first = graph_.nodes[i].first_statistic;
  const bool training = pass.kind == PassKind::kTraining;
  const std::span<const float> statistics =
      training ? pass.statistics : std::span<const float>(statistics_);
  return {.compute = &compute_,
          .parameters = parameters,
          .kind = pass.kind,
          .seed = seed_,
          .layer_index = static_cast<uint32_t>(node),
          .epoch = pass.epoch,
          .samples = pass.samples,
          .labels = pass.labels,
          .rows = pass.rows,
          .scratch = at(scratch),
          .saved = at(plan_->saved[i]),
          .statistics = statistics.data() + first,
          .next_statistics =
              training ? pass.next_statistics.data() + first : nullptr};
}

// Brings the time of a node up to date at the end of its scope.
class Model::Clock {
 public:
  Clock(NodeSeconds* all, std::vector<double> NodeSeconds::*which, size_t node)
      : seconds_(all == nullptr ? nullptr : &(all->*which)[node]) {
    if (seconds_) began_ = std::chrono::steady_clock::now();
  }
  ~Clock() {
    if (!seconds_) return;
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - began_;
    if (*seconds_ == 0 || took.count() < *seconds_) *seconds_ = took.count();
  }
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

 private:
  double* seconds_;
  std::chrono::steady_clock::time_point began_;
};

Panel Model::Forward(const Panel& x, const Pass& pass) {
  CHECK(x.layout == layout_ && x.shape == graph_.input);
  CHECK(graph_.samples == SampleKind::kDense ||
        pass.rows.rows() == layout_.samples);
  CHECK(pass.kind == PassKind::kEvaluation ||
        (pass.statistics.size() == statistics_.size() &&
         pass.next_statistics.size() == statistics_.size()));
  const auto nodes = static_cast<int>(graph_.nodes.size());
  for (int i = 0; i < nodes; ++i) {
    const Clock clock(pass.seconds, &NodeSeconds::forward,
                      static_cast<size_t>(i));
    ForwardNode(i, x, pass, plan_->output,
                plan_->forward_scratch[static_cast<size_t>(i)]);
  }
  return Output(plan_->output, nodes - 1, x);
}

void Model::ForwardNode(int i, const Panel& x, const Pass& pass,
                        const std::vector<int64_t>& places, int64_t scratch) {
  const Node& node = graph_.nodes[static_cast<size_t>(i)];
  std::vector<Panel> inputs;
  for (int input : node.inputs) inputs.push_back(Output(places, input, x));
  const std::vector<BoundParameter> bound = Bind(node, nullptr);
  node.layer->Forward(Context(i, pass, bound, scratch), inputs,
                      Output(places, i, x));
}

void Model::SearchGrowth(const Node& node, const LayerContext& context,
                         const Panel& x, const Panel& dy,
                         const GrowthSearch& search) const {
  const int64_t count = search.count[static_cast<size_t>(node.first_parameter)];
  if (count == 0) return;
  GrowthList list(count);
  const sparse::KernelRows* rows = context.parameters[0].rows;
  const int64_t columns = rows->columns();
  Buffer<float> block(GrowthBlockFloats(columns));
  const int64_t block_rows = block.size() / columns;
  std::vector<int64_t> present;
  for (int64_t begin = 0; begin < rows->rows(); begin += block_rows) {
    const int64_t end = std::min(rows->rows(), begin + block_rows);
    node.layer->DenseWeightGradient(context, x, dy, begin, end, block.data());
    for (int64_t r = begin; r < end; ++r) {
      const int64_t first = rows->row_start()[static_cast<size_t>(r)];
      present.resize(static_cast<size_t>(
          rows->row_start()[static_cast<size_t>(r + 1)] - first));
      rows->Positions(first, present);
      auto next = present.begin();
      const float* gradient = block.data() + (r - begin) * columns;
      for (int64_t c = 0; c < columns; ++c) {
        const int64_t position = r * columns + c;
        if (next != present.end() && *next == position) {
          ++next;
        } else {
          list.Add(position, gradient[c]);
        }
      }
    }
  }
  search.found(node.first_parameter, list.Take());
}

void Model::ReplaceMask(int tensor, sparse::Pattern pattern,
                        std::span<const int64_t> source) {
  Parameter& parameter = parameters_.tensors()[static_cast<size_t>(tensor)];
  CHECK_EQ(pattern.nnz(), parameter.size()) << parameter.decl.name;
  const auto node = std::find_if(
      graph_.nodes.begin(), graph_.nodes.end(), [&](const Node& n) {
        return n.parameters > 0 && n.first_parameter == tensor;
      });
  parameter.rows = std::make_unique<sparse::KernelRows>(
      std::move(pattern), node->layer->addressing(layout_.lanes),
      compute_.parallel);
  TakeEntries(source, parameters_.values(parameter));
}

void Model::KeepEntries(std::span<const std::vector<int64_t>> kept) {
  std::vector<ParameterDecl>& declarations = graph_.declarations;
  for (size_t t = 0; t < kept.size(); ++t) {
    declarations[t].nnz = std::ssize(kept[t]);
  }
  ParameterSet left(declarations);
  for (const Node& node : graph_.nodes) {
    for (int p = 0; p < node.parameters; ++p) {
      const auto t = static_cast<size_t>(node.first_parameter + p);
      Parameter& from = parameters_.tensors()[t];
      Parameter& to = left.tensors()[t];
      const auto values = parameters_.values(from);
      for (size_t i = 0; i < kept[t].size(); ++i) {
        left.values(to)[i] = values[static_cast<size_t>(kept[t][i])];
      }
      if (to.size() == from.size()) {
        to.rows = std::move(from.rows);
        continue;
      }
      std::vector<int64_t> positions(static_cast<size_t>(from.size()));
      from.Positions(0, positions);
      from.rows.reset();
      for (size_t i = 0; i < kept[t].size(); ++i) {
        positions[i] = positions[static_cast<size_t>(kept[t][i])];
      }
      positions.resize(kept[t].size());
      const int64_t rows = to.decl.shape[0];
      to.rows = std::make_unique<sparse::KernelRows>(
          sparse::PatternFromPositions(rows, to.decl.dense_size() / rows,
                                       positions),
          node.layer->addressing(layout_.lanes), compute_.parallel);
    }
  }
  parameters_ = std::move(left);
}

void Model::Backward(const Panel& x, const Panel& dy, const Pass& pass,
                     std::span<float> gradient,
                     const std::function<void(int tensor)>& done) {
  CHECK_EQ(static_cast<int64_t>(gradient.size()), parameters_.size());
  const auto last = static_cast<int>(graph_.nodes.size()) - 1;
  CHECK(dy.data == Output(plan_->output, last, x).data);
  for (const ActivationPlan::Step& step : plan_->backward) {
    const auto i = static_cast<size_t>(step.node);
    if (step.again) {
      ForwardNode(step.node, x, pass, plan_->output_again,
                  plan_->again_scratch[i]);
    } else if (plan_->gradient[i] != ActivationPlan::kNone) {
      const Clock clock(pass.seconds, &NodeSeconds::backward, i);
      BackwardNode(step.node, x, pass, gradient, done);
    }
  }
}

void Model::BackwardNode(int i, const Panel& x, const Pass& pass,
                         std::span<float> gradient,
                         const std::function<void(int tensor)>& done) {
  const auto index = static_cast<size_t>(i);
  const Node& node = graph_.nodes[index];
  std::vector<Panel> inputs;
  std::vector<InputGradient> dx;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const ActivationPlan::Contribution& how = plan_->contributions[index][k];
    inputs.push_back(Output(plan_->output_again, node.inputs[k], x));
    InputGradient to{Gradient(node.inputs[k]), how.add};
    if (how.temporary != ActivationPlan::kNone) {
      to = {{arena_.data() + how.temporary, to.panel.shape, to.panel.layout},
            false};
    }
    dx.push_back(to);
  }
  const std::vector<BoundParameter> bound = Bind(node, gradient.data());
  const LayerContext context =
      Context(i, pass, bound, plan_->backward_scratch[index]);
  // Before dx may overwrite dy.
  if (pass.growth != nullptr && node.parameters > 0) {
    SearchGrowth(node, context, inputs[0], Gradient(i), *pass.growth);
  }
  node.layer->Backward(context, inputs, Output(plan_->output_again, i, x),
                       Gradient(i), dx);
  for (size_t k = 0; k < dx.size(); ++k) {
    if (plan_->contributions[index][k].temporary == ActivationPlan::kNone) {
      continue;
    }
    const Panel& sum = Gradient(node.inputs[k]);
    ForElements(compute_, sum.size(), [&](int64_t begin, int64_t end) {
      compute_->add(dx[k].panel.data + begin, sum.data + begin, end - begin);
    });
  }
  if (node.parameters > 0) done(node.first_parameter);
}

}  // namespace lumen::nn
