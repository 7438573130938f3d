// SPDX-License-Identifier: Apache-2.0
// The sum of its inputs: the end of a residual branch.
#include <algorithm>

#include "elementwise.h"
#include "layers.h"
#include "lumen/core/error.h"

namespace lumen::nn {
namespace {

class Add : public Layer {
 public:
  explicit Add(const Shape& shape) : shape_(shape) {}
  Shape output_shape() const override { return shape_; }
  BackwardNeeds backward_needs() const override { return {}; }
  OutputMemory output_memory() const override { return OutputMemory::kSum; }
  bool adds_gradients() const override { return true; }
  StripUse strip_use() const override { return StripUse::kKeeps; }
  int64_t MultiplyAdds(std::span<const int64_t>) const override { return 0; }

  void Forward(const LayerContext& context, std::span<const Panel> inputs,
               const Panel& y) const override {
    const sparse::Compute& compute = *context.compute;
    ForElements(compute, y.size(), [&](int64_t begin, int64_t end) {
      compute->sum(inputs[0].data + begin, inputs[1].data + begin,
                   y.data + begin, end - begin);
    });
  }

  void Backward(const LayerContext& context, std::span<const Panel>,
                const Panel&, const Panel& dy,
                std::span<const InputGradient> dx) const override {
    const sparse::Compute& compute = *context.compute;
    for (const InputGradient& to : dx) {
      float* data = to.panel.data;
      if (data == nullptr || data == dy.data) continue;
      ForElements(compute, dy.size(), [&](int64_t begin, int64_t end) {
        if (to.add) {
          compute->add(dy.data + begin, data + begin, end - begin);
        } else {
          std::copy(dy.data + begin, dy.data + end, data + begin);
        }
      });
    }
  }

 private:
  Shape shape_;
};

}  // namespace

const LayerRow kAddRow = {
    "add",
    {},
    "the sum of two layers of the same shape",
    [](const Json& spec, const std::string& name,
       std::span<const Shape> inputs) -> std::unique_ptr<Layer> {
      if (inputs.size() != 2) {
        throw SpecError(spec.where() + ": add \"" + name +
                        "\": " + std::to_string(inputs.size()) +
                        " inputs; expected two in \"from\"");
      }
      if (inputs[0] != inputs[1]) {
        throw SpecError(spec.where() + ": add \"" + name + "\": inputs are " +
                        inputs[0].ToString() + " and " + inputs[1].ToString() +
                        "; expected equal shapes");
      }
      return std::make_unique<Add>(inputs[0]);
    }};

}  // namespace lumen::nn
