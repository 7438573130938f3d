// SPDX-License-Identifier: Apache-2.0
// The channels of its inputs, one input after the other.
#include <algorithm>

#include "layers.h"
#include "lumen/core/error.h"

namespace lumen::nn {
namespace {

class Concat : public Layer {
 public:
  explicit Concat(std::span<const Shape> inputs) : shape_(inputs[0]) {
    shape_.channels = 0;
    for (const Shape& input : inputs) shape_.channels += input.channels;
  }

  Shape output_shape() const override { return shape_; }
  BackwardNeeds backward_needs() const override { return {}; }
  bool adds_gradients() const override { return true; }
  StripUse strip_use() const override { return StripUse::kKeeps; }
  int64_t MultiplyAdds(std::span<const int64_t>) const override { return 0; }

  void Forward(const LayerContext& context, std::span<const Panel> inputs,
               const Panel& y) const override {
    int64_t first = 0;
    for (const Panel& x : inputs) {
      ForChannels(context, x, y, first, [](float* from, float* to, int64_t n) {
        std::copy_n(from, n, to);
      });
      first += x.shape.channels;
    }
  }

  void Backward(const LayerContext& context, std::span<const Panel>,
                const Panel&, const Panel& dy,
                std::span<const InputGradient> dx) const override {
    const sparse::Compute& compute = *context.compute;
    int64_t first = 0;
    for (const InputGradient& to : dx) {
      if (to.panel.data != nullptr) {
        ForChannels(context, to.panel, dy, first,
                    [&](float* part, float* from, int64_t n) {
                      if (to.add) {
                        compute->add(from, part, n);
                      } else {
                        std::copy_n(from, n, part);
                      }
                    });
      }
      first += to.panel.shape.channels;
    }
  }

 private:
  // task(channel of the part, the same of the whole, floats).
  template <class Task>
  static void ForChannels(const LayerContext& context, const Panel& part,
                          const Panel& whole, int64_t first, const Task& task) {
    const int64_t channels = part.shape.channels;
    const int64_t n = part.tile_size() / channels;
    context.compute->parallel.For(part.layout.tiles * channels, [&](int64_t i) {
      task(part.data + i * n,
           whole.tile(i / channels) + (first + i % channels) * n, n);
    });
  }

  Shape shape_;
};

std::unique_ptr<Layer> NewConcat(const Json& spec, const std::string& name,
                                 std::span<const Shape> inputs) {
  const std::string where = spec.where() + ": concat \"" + name + "\": ";
  if (inputs.size() < 2) {
    throw SpecError(where + std::to_string(inputs.size()) +
                    " inputs; expected two or more in \"from\"");
  }
  for (const Shape& input : inputs) {
    Shape like_first = input;
    like_first.channels = inputs[0].channels;
    if (like_first == inputs[0]) continue;
    throw SpecError(where + "inputs are " + inputs[0].ToString() + " and " +
                    input.ToString() +
                    "; expected equal depths, heights "
                    "and widths");
  }
  return std::make_unique<Concat>(inputs);
}

}  // namespace

const LayerRow kConcatRow = {
    "concat", {}, "the channels of several layers", NewConcat};

}  // namespace lumen::nn
