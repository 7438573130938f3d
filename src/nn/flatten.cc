// SPDX-License-Identifier: Apache-2.0
// [C][D][H][W] as one list of features: in lane panels the same memory.
#include <algorithm>

#include "layers.h"

namespace lumen::nn {
namespace {

class Flatten : public Layer {
 public:
  explicit Flatten(const Shape& shape) : features_(shape.elements()) {}
  Shape output_shape() const override { return {.channels = features_}; }
  BackwardNeeds backward_needs() const override { return {}; }
  OutputMemory output_memory() const override { return OutputMemory::kView; }
  int64_t MultiplyAdds(std::span<const int64_t>) const override { return 0; }

  void Forward(const LayerContext&, std::span<const Panel> inputs,
               const Panel& y) const override {
    Copy(inputs[0], y);
  }

  void Backward(const LayerContext&, std::span<const Panel>, const Panel&,
                const Panel& dy,
                std::span<const InputGradient> dx) const override {
    if (dx[0].panel.data != nullptr) Copy(dy, dx[0].panel);
  }

 private:
  static void Copy(const Panel& from, const Panel& to) {
    if (from.data != to.data) {
      std::copy(from.data, from.data + from.size(), to.data);
    }
  }

  int64_t features_;
};

}  // namespace

const LayerRow kFlattenRow = {
    "flatten",
    {},
    "channels, height and width as one list of features",
    [](const Json& spec, const std::string&,
       std::span<const Shape> inputs) -> std::unique_ptr<Layer> {
      return std::make_unique<Flatten>(OnlyInput(spec, inputs));
    }};

}  // namespace lumen::nn
