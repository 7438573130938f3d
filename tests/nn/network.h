// SPDX-License-Identifier: Apache-2.0
// A small network with its batch, for the tests of nn.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "lumen/core/json.h"
#include "lumen/core/schema.h"
#include "lumen/nn/loss.h"
#include "lumen/nn/model.h"

namespace lumen::nn {

// "model" of a spec, resolved.
inline Json ModelSpec(const std::string& text) {
  return Resolve(Json::Parse(text, "test.json"), ModelKeys(), "model");
}

inline sparse::Compute NewCompute(sparse::Isa isa, int threads) {
  return {&sparse::Kernels(isa), Parallel(threads)};
}

struct Network {
  Network(const std::string& spec, const Shape& input, int64_t classes,
          LaneLayout layout, sparse::Compute compute, uint64_t seed = 1)
      : Network(spec, NewGraph(ModelSpec(spec), input, classes), layout,
                compute, seed) {}

  Network(const std::string& spec, const Shape& input, int64_t classes,
          int64_t batch, sparse::Compute compute, uint64_t seed = 1)
      : Network(spec, NewGraph(ModelSpec(spec), input, classes), batch, compute,
                seed) {}

  Network(const std::string& spec, Graph&& graph, int64_t batch,
          sparse::Compute compute, uint64_t seed, const ActivationUse& use = {})
      : Network(spec, std::move(graph), LayoutFor(graph, batch), compute, seed,
                use) {}

  Network(const std::string& spec, Graph&& graph, LaneLayout layout,
          sparse::Compute compute, uint64_t seed, const ActivationUse& use = {})
      : compute(compute),
        layout(layout),
        loss(NewLoss(ModelSpec(spec).at("loss"), graph.output().channels)) {
    const Shape input = graph.input;
    const int64_t classes = graph.output().channels;
    Graph tensors;
    tensors.declarations = graph.declarations;
    model = std::make_unique<Model>(std::move(graph), layout, seed, compute,
                                    SeedSource(tensors, seed, compute.parallel),
                                    use);
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::uniform_int_distribution<int32_t> label(
        0, static_cast<int32_t>(classes) - 1);
    x = Panel{nullptr, input, layout};
    storage.resize(static_cast<size_t>(x.size()), 0.0f);
    x.data = storage.data();
    for (int64_t i = 0; i < layout.samples; ++i) {
      labels.push_back(label(random));
      samples.push_back(static_cast<uint64_t>(100 + i));
      for (int64_t e = 0; e < input.elements(); ++e) At(i, e) = normal(random);
    }
    gradient.resize(static_cast<size_t>(model->parameters().size()));
    statistics.assign(model->statistics().begin(), model->statistics().end());
    next_statistics.resize(statistics.size());
  }

  // Element e of sample i.
  float& At(int64_t i, int64_t e) {
    return x.tile(i / layout.lanes)[e * layout.lanes + i % layout.lanes];
  }

  LossSums Forward(PassKind kind = PassKind::kTraining) {
    model->parameters().Refresh(compute.parallel);
    const Panel y = model->Forward(x, Pass(kind));
    return loss->Compute(compute, y, targets(), Loss::kSumsOnly, 1);
  }

  LossSums ForwardBackward(float scale = 1) {
    model->parameters().Refresh(compute.parallel);
    const Panel y = model->Forward(x, Pass(PassKind::kTraining));
    const LossSums sums =
        loss->Compute(compute, y, targets(), Loss::kWithGradient, scale);
    done.clear();
    model->Backward(x, y, Pass(PassKind::kTraining), gradient,
                    [this](int tensor) { done.push_back(tensor); });
    return sums;
  }

  Targets targets() const {
    return {.labels = labels, .values = values, .sets = sets};
  }

  Model::Pass Pass(PassKind kind) {
    return {.kind = kind,
            .epoch = epoch,
            .samples = samples,
            .labels = labels,
            .rows = rows,
            .statistics = statistics,
            .next_statistics = next_statistics};
  }

  sparse::Compute compute;
  LaneLayout layout;
  std::unique_ptr<Loss> loss;
  std::unique_ptr<Model> model;
  std::vector<float> storage;
  Panel x;
  std::vector<int32_t> labels;
  Panel values;  // targets beside class labels; none
  LabelSets sets;
  SparseRows rows;  // of a network on sparse samples
  std::vector<uint64_t> samples;
  std::vector<float> gradient;
  // Running statistics of the shard; stay as they are from pass to pass.
  std::vector<float> statistics, next_statistics;
  std::vector<int> done;
  uint32_t epoch = 0;
};

}  // namespace lumen::nn
