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
};

// What a backward pass reads, so that the model keeps nothing else alive.
struct BackwardNeeds {
  bool inputs = false;
  bool output = false;
};

// Where the output of a layer may lie.
enum class OutputMemory {
  kApart,    // in other memory than the inputs
  kInPlace,  // y may overwrite the only input, and dx may overwrite dy
  kView,     // y has the values of the only input, and dx those of dy
};

// Layers hold their shapes and settings, no parameters and no activations, and
// are immutable after construction, hence thread-safe.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual Shape output_shape() const = 0;
  virtual std::vector<ParameterDecl> parameters() const { return {}; }
  virtual BackwardNeeds backward_needs() const = 0;
  // kInPlace and kView must also work apart; kInPlace needs no inputs backward.
  virtual OutputMemory output_memory() const { return OutputMemory::kApart; }
  // Multiply-adds per sample in the forward pass, given the nonzeros of each
  // parameter. FLOPs are twice that; a backward pass costs twice the forward.
  virtual int64_t MultiplyAdds(std::span<const int64_t> nnz) const = 0;

  // Overwrites y.
  virtual void Forward(const LayerContext& context,
                       std::span<const Panel> inputs, const Panel& y) const = 0;
  // Overwrites the gradient of each parameter and each dx whose data is not
  // null. Panels that backward_needs() excludes may have null data.
  virtual void Backward(const LayerContext& context,
                        std::span<const Panel> inputs, const Panel& y,
                        const Panel& dy, std::span<const Panel> dx) const = 0;
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
extern const std::span<const Key> kCommonLayerKeys;  // name

}  // namespace lumen::nn
