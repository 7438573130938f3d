// SPDX-License-Identifier: Apache-2.0
// y = max(x, 0).
#include "elementwise.h"
#include "layers.h"

namespace lumen::nn {
namespace {

class Relu : public Layer {
 public:
  explicit Relu(const Shape& shape) : shape_(shape) {}
  Shape output_shape() const override { return shape_; }
  BackwardNeeds backward_needs() const override { return {.output = true}; }
  OutputMemory output_memory() const override { return OutputMemory::kInPlace; }
  StripUse strip_use() const override { return StripUse::kKeeps; }
  int64_t MultiplyAdds(std::span<const int64_t>) const override { return 0; }

  void Forward(const LayerContext& context, std::span<const Panel> inputs,
               const Panel& y) const override {
    ForElements(*context.compute, y.size(), [&](int64_t begin, int64_t end) {
      (*context.compute)
          ->relu(inputs[0].data + begin, y.data + begin, end - begin);
    });
  }

  void Backward(const LayerContext& context, std::span<const Panel>,
                const Panel& y, const Panel& dy,
                std::span<const InputGradient> dx) const override {
    if (dx[0].panel.data == nullptr) return;
    ForElements(*context.compute, y.size(), [&](int64_t begin, int64_t end) {
      (*context.compute)
          ->relu_backward(y.data + begin, dy.data + begin,
                          dx[0].panel.data + begin, end - begin);
    });
  }

 private:
  Shape shape_;
};

}  // namespace

const LayerRow kReluRow = {
    "relu",
    {},
    "y = max(x, 0)",
    [](const Json& spec, const std::string&,
       std::span<const Shape> inputs) -> std::unique_ptr<Layer> {
      return std::make_unique<Relu>(OnlyInput(spec, inputs));
    }};

}  // namespace lumen::nn
