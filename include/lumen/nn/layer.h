// SPDX-License-Identifier: Apache-2.0
// A layer of a network, and the table of layers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lumen/core/json.h"
#include "lumen/core/panel.h"
#include "lumen/core/philox.h"
#include "lumen/core/schema.h"
#include "lumen/core/sparse_rows.h"
#include "lumen/nn/parameters.h"
#include "lumen/sparse/compute.h"

namespace lumen::nn {

// A parameter as the kernels see it during one pass.
struct BoundParameter {
  const float* value = nullptr;
  float* gradient = nullptr;                 // null in a forward pass
  const sparse::KernelRows* rows = nullptr;  // null: dense
};

enum class PassKind { kTraining, kEvaluation };

struct LayerContext {
  const sparse::Compute* compute = nullptr;
  std::span<const BoundParameter> parameters;  // of this layer, as declared
  PassKind kind = PassKind::kEvaluation;
  uint64_t seed = 0;
  uint32_t layer_index = 0;  // in the model: key of random streams
  uint32_t epoch = 0;
  std::span<const uint64_t> samples;  // data set index per lane
  std::span<const int32_t> labels;    // per lane; -1: the lane holds no sample
  SparseRows rows;  // per lane with or without a sample; of sparse data only
  float* scratch = nullptr;  // [scratch_floats()], of this call only
  float* saved = nullptr;    // [saved_floats()], from Forward to Backward
  // Running statistics as declared. Training reads those of the shard and
  // writes what they become; evaluation reads those of all shards together.
  const float* statistics = nullptr;
  float* next_statistics = nullptr;  // null in evaluation

  bool HoldsSample(int64_t lane) const {
    return lane < std::ssize(labels) && labels[static_cast<size_t>(lane)] >= 0;
  }
  // Or a strip of one.
  bool HoldsSample(const LaneLayout& layout, int64_t lane) const {
    return layout.strips > 1 ? lane < layout.strips && HoldsSample(0)
                             : HoldsSample(lane);
  }
};

// What a backward pass reads, so that the model keeps nothing else alive.
struct BackwardNeeds {
  bool inputs = false;
  bool output = false;
};

// Where the output of a layer may lie.
enum class OutputMemory {
  kApart,    // in other memory than the inputs
  kInPlace,  // y may overwrite an input, and dx may overwrite dy
  kView,     // y has the values of the only input, and dx those of dy
  kSum,      // y may overwrite an input; each dx has the values of dy
};

// What a layer does with an image that lies in strips (LaneLayout::strips).
enum class StripUse {
  kRefuses,  // reads pixels beyond its strip, or what strips do not have
  kKeeps,    // its output lies in strips too
  kEnds,     // its output lies in one lane, like that of any sample
};

// Where a layer leaves the gradient of an input.
struct InputGradient {
  Panel panel;       // no data: not wanted
  bool add = false;  // add to what is there; only when adds_gradients()
};

// Layers hold their shapes and settings, no parameters and no activations, and
// are immutable after construction, hence thread-safe.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual Shape output_shape() const = 0;
  virtual std::vector<ParameterDecl> parameters() const { return {}; }
  virtual std::vector<StatisticDecl> statistics() const { return {}; }
  virtual BackwardNeeds backward_needs() const = 0;
  // kSparse: reads context.rows instead of its only input, whose panel has no
  // data.
  virtual SampleKind reads() const { return SampleKind::kDense; }
  // kInPlace, kView and kSum must also work apart; kInPlace and kSum need no
  // inputs backward.
  virtual OutputMemory output_memory() const { return OutputMemory::kApart; }
  virtual bool adds_gradients() const { return false; }
  // Layers on maps work on tiles of one vector.
  virtual int64_t max_lanes() const { return kMaxTileLanes; }
  virtual StripUse strip_use() const { return StripUse::kRefuses; }
  // Throws SpecError when the layer cannot work on shards of `samples`.
  virtual void CheckShard(int64_t samples) const { (void)samples; }
  virtual int64_t scratch_floats(const LaneLayout&) const { return 0; }
  virtual int64_t saved_floats(const LaneLayout&) const { return 0; }
  // How the weight, its first parameter, addresses inputs. REQUIRES: prunable.
  virtual sparse::Addressing addressing(int64_t lanes) const;
  // Multiply-adds per sample in the forward pass, given the nonzeros of each
  // parameter. FLOPs are twice that; a backward pass costs twice the forward.
  virtual int64_t MultiplyAdds(std::span<const int64_t> nnz) const = 0;

  // Overwrites y.
  virtual void Forward(const LayerContext& context,
                       std::span<const Panel> inputs, const Panel& y) const = 0;
  // Overwrites the gradient of each parameter and each wanted dx, or adds to
  // it. Panels that backward_needs() excludes may have null data.
  virtual void Backward(const LayerContext& context,
                        std::span<const Panel> inputs, const Panel& y,
                        const Panel& dy,
                        std::span<const InputGradient> dx) const = 0;

  // The gradient of rows [begin, end) of the weight, as if every weight
  // existed: overwrites dw, [end - begin][columns]. With the scratch memory and
  // the panels of a backward pass. REQUIRES: prunable.
  virtual void DenseWeightGradient(const LayerContext& context, const Panel& x,
                                   const Panel& dy, int64_t begin, int64_t end,
                                   float* dw) const;
};

// One row per layer type.
struct LayerRow {
  std::string_view type;
  std::span<const Key> keys;
  std::string_view help;
  // `spec` is the resolved layer object; `name` prefixes parameter names.
  // Throws SpecError (with spec.where()) when the shapes do not fit.
  std::unique_ptr<Layer> (*create)(const Json& spec, const std::string& name,
                                   std::span<const Shape> inputs);
};
std::span<const LayerRow> LayerTable();
std::vector<Variant> LayerVariants();
extern const std::span<const Key> kCommonLayerKeys;  // name, from

}  // namespace lumen::nn
