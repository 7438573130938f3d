// SPDX-License-Identifier: Apache-2.0
// The mean of each channel over all pixels. Sums go as sparse/kernels.h has
// them for statistics.
#include "layers.h"

namespace lumen::nn {
namespace {

class GlobalPool : public Layer {
 public:
  explicit GlobalPool(const Shape& shape)
      : channels_(shape.channels), pixels_(shape.elements() / shape.channels) {}

  Shape output_shape() const override { return {.channels = channels_}; }
  BackwardNeeds backward_needs() const override { return {}; }
  bool adds_gradients() const override { return true; }
  int64_t max_lanes() const override { return kVectorLanes; }
  StripUse strip_use() const override { return StripUse::kEnds; }
  int64_t MultiplyAdds(std::span<const int64_t>) const override { return 0; }

  void Forward(const LayerContext& context, std::span<const Panel> inputs,
               const Panel& y) const override {
    const sparse::Compute& compute = *context.compute;
    compute.parallel.For(y.layout.tiles * channels_, [&](int64_t i) {
      double sum[kVectorLanes] = {};
      compute->lane_sum(inputs[0].data + i * pixels_ * kVectorLanes, pixels_,
                        sum);
      float* to = y.data + i * kVectorLanes;
      const int64_t strips = inputs[0].layout.strips;
      for (int64_t l = 1; l < strips; ++l) sum[0] += sum[l];
      for (int64_t l = 0; l < kVectorLanes; ++l) {
        to[l] = strips > 1 && l > 0
                    ? 0.0f
                    : static_cast<float>(sum[l] /
                                         static_cast<double>(pixels_ * strips));
      }
    });
  }

  void Backward(const LayerContext& context, std::span<const Panel>,
                const Panel&, const Panel& dy,
                std::span<const InputGradient> dx) const override {
    if (dx[0].panel.data == nullptr) return;
    const sparse::Compute& compute = *context.compute;
    compute.parallel.For(dy.layout.tiles * channels_, [&](int64_t i) {
      float share[kVectorLanes];
      const int64_t strips = dx[0].panel.layout.strips;
      for (int64_t l = 0; l < kVectorLanes; ++l) {
        const float from = dy.data[i * kVectorLanes + (strips > 1 ? 0 : l)];
        share[l] = strips > 1 && l >= strips
                       ? 0.0f
                       : from / static_cast<float>(pixels_ * strips);
      }
      float* to = dx[0].panel.data + i * pixels_ * kVectorLanes;
      for (int64_t p = 0; p < pixels_; ++p) {
        for (int64_t l = 0; l < kVectorLanes; ++l) {
          to[l] = dx[0].add ? to[l] + share[l] : share[l];
        }
        to += kVectorLanes;
      }
    });
  }

 private:
  int64_t channels_;
  int64_t pixels_;
};

}  // namespace

const LayerRow kGlobalPoolRow = {
    "global_pool",
    {},
    "the mean of each channel over depth, height and width",
    [](const Json& spec, const std::string&,
       std::span<const Shape> inputs) -> std::unique_ptr<Layer> {
      return std::make_unique<GlobalPool>(OnlyInput(spec, inputs));
    }};

}  // namespace lumen::nn
