// SPDX-License-Identifier: Apache-2.0
// Inverted dropout (Srivastava et al. 2014). The mask is a pure function of
// (seed, layer, epoch, sample, element), drawn again in the backward pass.
#include <algorithm>
#include <cmath>

#include "elementwise.h"
#include "layers.h"

namespace lumen::nn {
namespace {

constexpr Key kKeys[] = {
    {.name = "rate",
     .kind = KeyKind::kNumber,
     .help = "share of activations that are dropped (in steps of 2^-16)",
     .minimum = 0,
     .maximum = 0.999},
};

class Dropout : public Layer {
 public:
  Dropout(const Shape& shape, double rate)
      : shape_(shape),
        threshold_(static_cast<uint32_t>(std::lround(rate * 65536))),
        scale_(static_cast<float>(65536.0 / (65536.0 - threshold_))) {}
  Shape output_shape() const override { return shape_; }
  BackwardNeeds backward_needs() const override { return {}; }
  OutputMemory output_memory() const override { return OutputMemory::kInPlace; }
  int64_t MultiplyAdds(std::span<const int64_t>) const override { return 0; }

  void Forward(const LayerContext& context, std::span<const Panel> inputs,
               const Panel& y) const override {
    if (context.kind == PassKind::kTraining && threshold_ > 0) {
      Apply(context, inputs[0], y);
    } else if (inputs[0].data != y.data) {
      std::copy(inputs[0].data, inputs[0].data + y.size(), y.data);
    }
  }

  void Backward(const LayerContext& context, std::span<const Panel>,
                const Panel&, const Panel& dy,
                std::span<const InputGradient> dx) const override {
    if (dx[0].panel.data == nullptr) return;
    if (threshold_ > 0) {
      Apply(context, dy, dx[0].panel);
    } else if (dy.data != dx[0].panel.data) {
      std::copy(dy.data, dy.data + dy.size(), dx[0].panel.data);
    }
  }

 private:
  void Apply(const LayerContext& context, const Panel& from,
             const Panel& to) const {
    const RandomKey key =
        NewRandomKey(context.seed, Stream::kDropout, context.layer_index);
    const int64_t lanes = from.layout.lanes;
    const int64_t vectors = lanes / kVectorLanes;
    context.compute->parallel.For(from.layout.tiles * vectors, [&](int64_t i) {
      const int64_t tile = i / vectors;
      const int64_t lane = i % vectors * kVectorLanes;
      // Lanes without a sample draw like sample 0; nobody reads them.
      uint64_t sample[kVectorLanes] = {};
      const int64_t first = tile * lanes + lane;
      for (int64_t l = 0; l < kVectorLanes; ++l) {
        if (first + l < std::ssize(context.samples)) {
          sample[l] = context.samples[static_cast<size_t>(first + l)];
        }
      }
      (*context.compute)
          ->dropout(key, context.epoch, sample, threshold_, scale_,
                    from.tile(tile) + lane, to.tile(tile) + lane,
                    shape_.elements(), lanes);
    });
  }

  Shape shape_;
  uint32_t threshold_;
  float scale_;
};

}  // namespace

const LayerRow kDropoutRow = {
    "dropout", kKeys, "drops activations at random while training",
    [](const Json& spec, const std::string&,
       std::span<const Shape> inputs) -> std::unique_ptr<Layer> {
      return std::make_unique<Dropout>(OnlyInput(spec, inputs),
                                       spec.at("rate").number());
    }};

}  // namespace lumen::nn
