// SPDX-License-Identifier: Apache-2.0
#include "lumen/nn/model.h"

#include <glog/logging.h>

#include <utility>

#include "arena.h"

namespace lumen::nn {

int64_t ArenaBytes(const Graph& graph, LaneLayout layout) {
  return PlanActivations(graph, layout).size *
         static_cast<int64_t>(sizeof(float));
}

Model::Model(Graph graph, LaneLayout layout, uint64_t seed,
             const sparse::Compute& compute, const ModelSource& source)
    : graph_(std::move(graph)),
      layout_(layout),
      seed_(seed),
      compute_(compute),
      parameters_(graph_.declarations) {
  for (size_t i = 0; i < parameters_.tensors().size(); ++i) {
    Parameter& tensor = parameters_.tensors()[i];
    const auto index = static_cast<int>(i);
    if (tensor.decl.is_sparse()) {
      tensor.rows = std::make_unique<sparse::KernelRows>(
          source.pattern(index), layout_.lanes, compute_.parallel);
      CHECK_EQ(tensor.rows->nnz(), tensor.size()) << tensor.decl.name;
    }
    source.values(index, tensor, parameters_.values(tensor));
  }
  parameters_.Refresh(compute_.parallel);
  ActivationPlan plan = PlanActivations(graph_, layout_);
  output_offset_ = std::move(plan.output);
  gradient_offset_ = std::move(plan.gradient);
  arena_ = Buffer<float>(plan.size);
}

Panel Model::Output(int node, const Panel& x) {
  if (node < 0) return x;
  const auto i = static_cast<size_t>(node);
  float* data = output_offset_[i] == ActivationPlan::kNetworkInput
                    ? x.data
                    : arena_.data() + output_offset_[i];
  return {data, graph_.nodes[i].layer->output_shape(), layout_};
}

Panel Model::Gradient(int node) {
  if (node < 0) return {nullptr, graph_.input, layout_};
  const auto i = static_cast<size_t>(node);
  float* data = gradient_offset_[i] == ActivationPlan::kNone
                    ? nullptr
                    : arena_.data() + gradient_offset_[i];
  return {data, graph_.nodes[i].layer->output_shape(), layout_};
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
                            std::span<const BoundParameter> parameters) const {
  return {.compute = &compute_,
          .parameters = parameters,
          .kind = pass.kind,
          .seed = seed_,
          .layer_index = static_cast<uint32_t>(node),
          .epoch = pass.epoch,
          .samples = pass.samples};
}

Panel Model::Forward(const Panel& x, const Pass& pass) {
  CHECK(x.layout == layout_ && x.shape == graph_.input);
  const auto nodes = static_cast<int>(graph_.nodes.size());
  for (int i = 0; i < nodes; ++i) {
    const Node& node = graph_.nodes[static_cast<size_t>(i)];
    std::vector<Panel> inputs;
    for (int input : node.inputs) inputs.push_back(Output(input, x));
    const std::vector<BoundParameter> bound = Bind(node, nullptr);
    node.layer->Forward(Context(i, pass, bound), inputs, Output(i, x));
  }
  return Output(nodes - 1, x);
}

void Model::Backward(const Panel& x, const Panel& dy, const Pass& pass,
                     std::span<float> gradient,
                     const std::function<void(int tensor)>& done) {
  CHECK_EQ(static_cast<int64_t>(gradient.size()), parameters_.size());
  const auto nodes = static_cast<int>(graph_.nodes.size());
  CHECK(dy.data == Output(nodes - 1, x).data);
  for (int i = nodes - 1; i >= 0; --i) {
    const Node& node = graph_.nodes[static_cast<size_t>(i)];
    if (gradient_offset_[static_cast<size_t>(i)] == ActivationPlan::kNone) {
      break;  // no parameters here or before
    }
    std::vector<Panel> inputs;
    std::vector<Panel> dx;
    for (int input : node.inputs) {
      inputs.push_back(Output(input, x));
      dx.push_back(Gradient(input));
    }
    const std::vector<BoundParameter> bound = Bind(node, gradient.data());
    node.layer->Backward(Context(i, pass, bound), inputs, Output(i, x),
                         Gradient(i), dx);
    if (node.parameters > 0) done(node.first_parameter);
  }
}

}  // namespace lumen::nn
