// SPDX-License-Identifier: Apache-2.0
// A network: layers in order, the graph between them, its arena and parameters.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lumen/core/buffer.h"
#include "lumen/core/json.h"
#include "lumen/core/panel.h"
#include "lumen/core/sparse_rows.h"
#include "lumen/nn/growth.h"
#include "lumen/nn/layer.h"
#include "lumen/nn/parameters.h"
#include "lumen/sparse/pattern.h"

namespace lumen::nn {

struct ActivationPlan;

// One layer in its place.
struct Node {
  std::string name;  // "fc1"; default: type and index, "relu2"
  std::string type;
  std::vector<int> inputs;  // node indices; -1 is the network input
  std::unique_ptr<Layer> layer;
  int first_parameter = 0;  // index into the declarations
  int parameters = 0;
  int64_t first_statistic = 0;  // offset into the flat statistics
  bool in_strips = false;       // its output, see LaneLayout::strips
};

// The structure of a model: shapes, tensors, nonzeros. Allocates nothing large,
// so plan uses it for models that do not fit on this machine.
struct Graph {
  Shape input;  // of a strip where there is more than one
  int64_t strips = 1;
  SampleKind samples = SampleKind::kDense;
  std::vector<Node> nodes;
  std::vector<ParameterDecl> declarations;  // nnz filled in from the densities
  std::vector<StatisticDecl> statistics;
  Shape output() const { return nodes.back().layer->output_shape(); }
  int64_t statistics_size() const;
  // Of a whole sample, not of a strip.
  Shape OutputShape(int node) const;
  // Multiply-adds per sample, forward: executed on nonzeros, and dense.
  int64_t MultiplyAdds(int node) const;
  int64_t DenseMultiplyAdds(int node) const;
};

// `spec` is the resolved "model" object (a preset or a layers list; density,
// distribution, excludes). Throws SpecError.
Graph NewGraph(const Json& spec, const Shape& input, int64_t classes,
               SampleKind samples = SampleKind::kDense);
// The layers list that a preset stands for, as a spec array.
Json ExpandPreset(const Json& preset, const Shape& input, int64_t classes);
std::vector<Variant> PresetVariants();
std::span<const Key> ModelKeys();  // the keys of "model"

// Nonzeros of each tensor for an overall density, by the distribution of the
// resolved "sparsity" object; tensors without a mask are full.
std::vector<int64_t> NonzerosAt(const Graph& graph, const Json& sparsity,
                                double density);

// How a shard of `samples` lies in lanes: wide tiles, or single vectors when a
// layer works on maps. Throws SpecError when a layer cannot work on such
// shards.
LaneLayout LayoutFor(const Graph& graph, int64_t samples);

// What the activation arena of a model is for.
struct ActivationUse {
  PassKind passes = PassKind::kTraining;  // kEvaluation: no backward pass
  // Nodes that end segments whose insides are computed again in the backward
  // pass instead of kept (Chen et al. 2016); those after the last one are kept.
  std::vector<int> cuts = {};
};
// Bytes of the arena for one shard of this layout.
int64_t ArenaBytes(const Graph& graph, LaneLayout layout,
                   const ActivationUse& use = {});
// The cuts that need the least work again to stay within `most_bytes`; where
// nothing does, those that need the least memory. Bits do not depend on them.
std::vector<int> ChooseCuts(const Graph& graph, LaneLayout layout,
                            int64_t most_bytes);
// Forward passes of a sample that come again in the backward pass.
int64_t MultiplyAddsAgain(const Graph& graph, LaneLayout layout,
                          const std::vector<int>& cuts);

// Where masks and initial values come from: the seed, a file of weights, or a
// checkpoint. Called tensor by tensor, so that nothing is held twice.
struct ModelSource {
  // Of a sparse tensor; its nnz is that of the declaration.
  std::function<sparse::Pattern(int tensor)> pattern;
  // Fills the tensor's values, whose positions `parameter` knows.
  std::function<void(int tensor, const Parameter& parameter,
                     std::span<float> values)>
      values;
  // Fills the running statistic of this name; false, or no function: they start
  // at their initial values.
  std::function<bool(const StatisticDecl& statistic, std::span<float> values)>
      statistic;
};

// Random masks of the densities in the graph, and initial values per tensor. A
// weight's value depends on its position, not on the mask. The graph must
// outlive the source.
ModelSource SeedSource(const Graph& graph, uint64_t seed,
                       const Parallel& parallel);

// Weights of a file by tensor name, dense.
struct ImportedTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using ImportedTensors = std::map<std::string, ImportedTensor>;
// Weights that are exactly 0 in `masks` become absent, in all layers that are
// not excluded: sets nnz and mask of their declarations; layers it does not
// name become dense. Throws SpecError when a shape differs from the model's,
// when a value is not finite, when nothing of a tensor would be left, or when
// it names no weight.
void UseImportedMasks(const ImportedTensors& masks, Graph* graph);
// `values` with the masks that UseImportedMasks took. Both must outlive it.
ModelSource MaskSource(const ImportedTensors& masks, const Graph& graph,
                       ModelSource values);
// Values and running statistics from the tensors, masks from `masks`. Throws
// SpecError naming both sides when names or shapes differ from the model's;
// running statistics may be missing, PyTorch's num_batches_tracked is ignored.
// Tensors must outlive the source.
ModelSource ImportSource(const ImportedTensors& tensors, const Graph& graph,
                         ModelSource masks);

// Not thread-safe; threads inside come from `compute`.
class Model {
 public:
  // Cost O(nnz log nnz of a row). Throws what the source throws.
  Model(Graph graph, LaneLayout layout, uint64_t seed,
        const sparse::Compute& compute, const ModelSource& source,
        const ActivationUse& use = {});
  Model(Model&&) noexcept;
  ~Model();

  const Graph& graph() const { return graph_; }
  ParameterSet& parameters() { return parameters_; }
  const ParameterSet& parameters() const { return parameters_; }
  // Running statistics that evaluation uses, [graph().statistics_size()].
  std::span<float> statistics() { return statistics_; }
  std::span<const float> statistics() const { return statistics_; }
  // Parameters as ParameterSet has it, then name, size and values of each
  // statistic.
  void HashInto(Hasher* hasher) const;
  LaneLayout layout() const { return layout_; }
  int64_t arena_bytes() const { return arena_.bytes(); }

  // Puts another mask on a sparse tensor; positions that stay keep their
  // values, new ones are 0. `source[i]` is the old entry of new entry i, -1 for
  // a new one. REQUIRES: as many nonzeros as before. Refresh is the caller's.
  void ReplaceMask(int tensor, sparse::Pattern pattern,
                   std::span<const int64_t> source);

  // Keeps only these entries of each tensor, ascending; the parameters move
  // together. Refresh is the caller's.
  void KeepEntries(std::span<const std::vector<int64_t>> kept);

  // Seconds that each node took, [nodes]: the least over the passes so far, 0
  // before the first. The end of a node's backward pass includes `done`.
  struct NodeSeconds {
    std::vector<double> forward;
    std::vector<double> backward;
  };
  struct Pass {
    PassKind kind = PassKind::kEvaluation;
    uint32_t epoch = 0;
    std::span<const uint64_t> samples;  // data set index per lane
    std::span<const int32_t> labels;    // -1: no sample in this lane
    SparseRows rows;  // of sparse data: one per sample of the layout
    // Running statistics of the shard, [graph().statistics_size()]: as they
    // are, and what they become. Training only.
    std::span<const float> statistics;
    std::span<float> next_statistics;
    // What a backward pass looks for in sparse tensors; null: nothing.
    const GrowthSearch* growth = nullptr;
    NodeSeconds* seconds = nullptr;  // to be brought up to date, or null
  };
  // `x` (without data for sparse samples) and what `pass` refers to must stay
  // valid until Backward returns. Returns the output panel; its
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
  class Clock;
  LayerContext Context(int node, const Pass& pass,
                       std::span<const BoundParameter> parameters,
                       int64_t scratch);
  void SearchGrowth(const Node& node, const LayerContext& context,
                    const Panel& x, const Panel& dy,
                    const GrowthSearch& search) const;
  LaneLayout LayoutOf(int node) const;
  // Output of a node, which lies at `places` of the plan; -1 is the network
  // input.
  Panel Output(const std::vector<int64_t>& places, int node, const Panel& x);
  // Reads and writes outputs at `places`.
  void ForwardNode(int node, const Panel& x, const Pass& pass,
                   const std::vector<int64_t>& places, int64_t scratch);
  void BackwardNode(int node, const Panel& x, const Pass& pass,
                    std::span<float> gradient,
                    const std::function<void(int tensor)>& done);
  // Of a node's output; no data where no parameter needs it.
  Panel Gradient(int node);
  std::vector<BoundParameter> Bind(const Node& node, float* gradient) const;

  Graph graph_;
  LaneLayout layout_;
  uint64_t seed_;
  sparse::Compute compute_;
  ParameterSet parameters_;
  std::vector<float> statistics_;
  std::unique_ptr<const ActivationPlan> plan_;
  Buffer<float> arena_;
};

}  // namespace lumen::nn
