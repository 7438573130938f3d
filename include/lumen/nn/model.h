// SPDX-License-Identifier: Apache-2.0
// A network: layers in order, the graph between them, its arena and parameters.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lumen/core/buffer.h"
#include "lumen/core/json.h"
#include "lumen/core/panel.h"
#include "lumen/nn/layer.h"
#include "lumen/nn/parameters.h"

namespace lumen::nn {

// One layer in its place.
struct Node {
  std::string name;  // "fc1"; default: type and index, "relu2"
  std::string type;
  std::vector<int> inputs;  // node indices; -1 is the network input
  std::unique_ptr<Layer> layer;
  int first_parameter = 0;  // index into the declarations
  int parameters = 0;
};

// The structure of a model: shapes, tensors, nonzeros. Allocates nothing large,
// so plan uses it for models that do not fit on this machine.
struct Graph {
  Shape input;
  std::vector<Node> nodes;
  std::vector<ParameterDecl> declarations;  // nnz filled in from the densities
  Shape output() const { return nodes.back().layer->output_shape(); }
  // Multiply-adds per sample, forward: executed on nonzeros, and dense.
  int64_t MultiplyAdds(int node) const;
  int64_t DenseMultiplyAdds(int node) const;
};

// `spec` is the resolved "model" object (a preset or a layers list; density,
// distribution, excludes). Throws SpecError.
Graph NewGraph(const Json& spec, const Shape& input, int64_t classes);
// The layers list that a preset stands for, as a spec array.
Json ExpandPreset(const Json& preset, const Shape& input, int64_t classes);
std::vector<Variant> PresetVariants();
extern const std::span<const Key> kModelKeys;  // the keys of "model"

// Bytes of the activation arena for one shard of this layout.
int64_t ArenaBytes(const Graph& graph, LaneLayout layout, bool training);

// Not thread-safe; threads inside come from `compute`.
class Model {
 public:
  // Builds masks and initial values from the seed, or from model.init.file.
  // Cost O(nnz log). Throws SpecError, IoError.
  Model(const Json& spec, Graph graph, LaneLayout layout, uint64_t seed,
        const sparse::Compute& compute);

  const Graph& graph() const { return graph_; }
  ParameterSet& parameters() { return parameters_; }
  const ParameterSet& parameters() const { return parameters_; }
  LaneLayout layout() const { return layout_; }
  int64_t arena_bytes() const;

  struct Pass {
    bool training = false;
    uint32_t epoch = 0;
    std::span<const uint64_t> samples;  // data set index per lane
  };
  // `x` must stay valid until Backward returns. Returns the output panel; its
  // memory belongs to the arena and holds until the next Forward. The loss
  // overwrites it with the gradient of the loss.
  Panel Forward(const Panel& x, const Pass& pass);
  // `dy` is that panel, now a gradient. Overwrites all of `gradient`
  // ([parameters().size()]), last layer first; `done(i)` is called when tensor
  // i and all later ones are final. REQUIRES a training Forward before.
  void Backward(const Panel& x, const Panel& dy, const Pass& pass,
                std::span<float> gradient,
                const std::function<void(int tensor)>& done);

 private:
  struct Slot;  // where a tensor lies in the arena
  void PlanArena();

  Graph graph_;
  LaneLayout layout_;
  uint64_t seed_;
  sparse::Compute compute_;
  ParameterSet parameters_;
  Buffer<float> arena_;
  std::vector<int64_t> output_offset_;    // per node, -1: a view of its input
  std::vector<int64_t> gradient_offset_;  // per node
};

}  // namespace lumen::nn
