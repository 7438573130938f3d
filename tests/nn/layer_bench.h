// SPDX-License-Identifier: Apache-2.0
// One layer with parameters, statistics and memory of its own, for the tests of
// nn.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "lumen/nn/layer.h"
#include "network.h"

namespace lumen::nn {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A layer object without "type", and the shapes of its inputs.
struct Example {
  std::string keys;
  std::vector<Shape> inputs;
};

inline const LayerRow& FindLayerRow(const std::string& type) {
  const auto table = LayerTable();
  return *std::find_if(table.begin(), table.end(),
                       [&](const LayerRow& row) { return row.type == type; });
}

inline std::unique_ptr<Layer> NewLayer(const std::string& type,
                                       const Example& example) {
  const Json spec =
      ModelSpec("{\"layers\": [\n{\"type\": \"" + type + "\"" +
                (example.keys.empty() ? "" : ", ") + example.keys + "}]}");
  return FindLayerRow(type).create(spec.at("layers").items()[0], "it",
                                   example.inputs);
}

// A panel with its memory.
struct OwnedPanel {
  OwnedPanel(const Shape& shape, LaneLayout layout, float value = kNan)
      : panel{nullptr, shape, layout} {
    data.assign(static_cast<size_t>(panel.size()), value);
    panel.data = data.data();
  }
  OwnedPanel(const OwnedPanel&) = delete;
  OwnedPanel& operator=(const OwnedPanel&) = delete;

  // Element e of lane s.
  float& At(int64_t s, int64_t e) {
    const int64_t lanes = panel.layout.lanes;
    return panel.tile(s / lanes)[e * lanes + s % lanes];
  }

  std::vector<float> data;
  Panel panel;
};
using OwnedPanels = std::vector<std::unique_ptr<OwnedPanel>>;

// Values of one sample with 0.25 <= |value| < 1.25 in random order, no two
// nearer than 1 / n: away from the kinks of ReLU and maximum.
inline std::vector<float> SpreadValues(int64_t n, std::mt19937* random) {
  std::vector<float> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const float size = 0.25f + static_cast<float>(i) / static_cast<float>(n);
    values[static_cast<size_t>(i)] = (*random)() & 1 ? size : -size;
  }
  std::shuffle(values.begin(), values.end(), *random);
  return values;
}

struct LayerBench {
  LayerBench(std::unique_ptr<Layer> the_layer, std::vector<Shape> input_shapes,
             int64_t number_of_samples, double density = 1)
      : layer(std::move(the_layer)),
        shapes(std::move(input_shapes)),
        compute(NewCompute(sparse::DetectIsa(), 1)),
        layout(LaneLayout::For(number_of_samples,
                               std::min<int64_t>(layer->max_lanes(), 16))) {
    layer->CheckShard(number_of_samples);
    for (int64_t s = 0; s < number_of_samples; ++s) {
      samples.push_back(static_cast<uint64_t>(1000 + 3 * s));
      labels.push_back(0);
    }
    std::mt19937 random(77);
    for (const ParameterDecl& declaration : layer->parameters()) {
      AddParameter(declaration, density, &random);
    }
    for (const StatisticDecl& statistic : layer->statistics()) {
      statistics.resize(statistics.size() + static_cast<size_t>(statistic.size),
                        statistic.initial);
    }
    next_statistics.assign(statistics.size(), kNan);
    saved.assign(static_cast<size_t>(layer->saved_floats(layout)), kNan);
    for (size_t i = 0; i < shapes.size(); ++i) {
      x.push_back(std::make_unique<OwnedPanel>(shapes[i], layout));
      dx.push_back(std::make_unique<OwnedPanel>(shapes[i], layout));
      Fill(static_cast<uint32_t>(i), x.back().get());
    }
    y = std::make_unique<OwnedPanel>(layer->output_shape(), layout);
    dy = std::make_unique<OwnedPanel>(layer->output_shape(), layout, 0.0f);
    FillDy();
  }

  // Skipped samples: these lanes hold none.
  void Mask(const std::vector<int64_t>& lanes) {
    for (int64_t lane : lanes) labels[static_cast<size_t>(lane)] = -1;
    FillDy();
  }
  bool Holds(int64_t lane) const {
    return lane < std::ssize(labels) && labels[static_cast<size_t>(lane)] >= 0;
  }

  void Forward(PassKind kind = PassKind::kTraining) {
    ForwardTo(Inputs(), y->panel, kind);
  }
  void ForwardTo(std::span<const Panel> inputs, const Panel& to,
                 PassKind kind = PassKind::kTraining) {
    std::vector<BoundParameter> bound;
    layer->Forward(Context(&bound, kind), inputs, to);
  }
  void Backward(bool add = false) {
    std::vector<InputGradient> to;
    for (const auto& d : dx) to.push_back({d->panel, add});
    BackwardTo(Inputs(), y->panel, dy->panel, to);
  }
  void BackwardTo(std::span<const Panel> inputs, const Panel& output,
                  const Panel& from, std::span<const InputGradient> to) {
    for (std::vector<float>& g : gradients) {
      std::fill(g.begin(), g.end(), kNan);
    }
    std::vector<BoundParameter> bound;
    layer->Backward(Context(&bound, PassKind::kTraining), inputs, output, from,
                    to);
  }
  std::vector<Panel> Inputs() const {
    std::vector<Panel> inputs;
    for (const auto& panel : x) inputs.push_back(panel->panel);
    return inputs;
  }

  // sum of dy * y over the samples, in double.
  double Objective() {
    Forward();
    double sum = 0;
    for (int64_t s = 0; s < layout.samples; ++s) {
      if (!Holds(s)) continue;
      for (int64_t e = 0; e < y->panel.shape.elements(); ++e) {
        sum += double{y->At(s, e)} * dy->At(s, e);
      }
    }
    return sum;
  }

  LayerContext Context(std::vector<BoundParameter>* bound, PassKind kind) {
    for (size_t p = 0; p < values.size(); ++p) {
      if (rows[p]) rows[p]->Refresh(values[p], compute.parallel);
      bound->push_back({values[p].data(), gradients[p].data(), rows[p].get()});
    }
    scratch.assign(static_cast<size_t>(layer->scratch_floats(layout)), kNan);
    return {.compute = &compute,
            .parameters = *bound,
            .kind = kind,
            .seed = 3,
            .layer_index = 4,
            .epoch = 2,
            .samples = samples,
            .labels = labels,
            .scratch = scratch.data(),
            .saved = saved.data(),
            .statistics = statistics.data(),
            .next_statistics =
                kind == PassKind::kTraining ? next_statistics.data() : nullptr};
  }

  std::unique_ptr<Layer> layer;
  std::vector<Shape> shapes;
  sparse::Compute compute;
  LaneLayout layout;
  std::vector<uint64_t> samples;
  std::vector<int32_t> labels;
  std::vector<std::vector<float>> values, gradients;  // per parameter
  std::vector<std::unique_ptr<sparse::KernelRows>> rows;
  std::vector<float> statistics, next_statistics, saved, scratch;
  OwnedPanels x, dx;
  std::unique_ptr<OwnedPanel> y, dy;

 private:
  void AddParameter(const ParameterDecl& declaration, double density,
                    std::mt19937* random) {
    int64_t nnz = declaration.dense_size();
    rows.emplace_back();
    if (declaration.prunable && density < 1) {
      nnz = static_cast<int64_t>(std::ceil(static_cast<double>(nnz) * density));
      const int64_t outputs = declaration.shape[0];
      rows.back() = std::make_unique<sparse::KernelRows>(
          sparse::NewRandomPattern(NewRandomKey(1, Stream::kMask, 0), outputs,
                                   declaration.dense_size() / outputs, nnz,
                                   Parallel()),
          layer->addressing(layout.lanes), Parallel());
    }
    values.push_back(SpreadValues(nnz, random));
    gradients.emplace_back(values.back().size(), kNan);
  }

  // All lanes: those without a sample hold what an earlier layer left there.
  void Fill(uint32_t seed, OwnedPanel* panel) const {
    std::mt19937 random(seed);
    const int64_t elements = panel->panel.shape.elements();
    for (int64_t s = 0; s < layout.total_lanes(); ++s) {
      const std::vector<float> values = SpreadValues(elements, &random);
      for (int64_t e = 0; e < elements; ++e) {
        panel->At(s, e) = values[static_cast<size_t>(e)];
      }
    }
  }

  // The loss gives lanes without a sample no gradient.
  void FillDy() {
    Fill(99, dy.get());
    for (int64_t s = 0; s < layout.total_lanes(); ++s) {
      if (Holds(s)) continue;
      for (int64_t e = 0; e < dy->panel.shape.elements(); ++e) {
        dy->At(s, e) = 0;
      }
    }
  }
};

}  // namespace lumen::nn
