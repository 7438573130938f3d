// SPDX-License-Identifier: Apache-2.0
// Group normalisation (Wu and He 2018): each sample by itself, over the pixels
// of a group of channels.
//
// Sums over pixels: lanes as sparse/kernels.h has it, then channels in order,
// in double. Sums over samples: lanes that hold one in order, tile by tile, in
// double.
#include <array>
#include <cmath>
#include <vector>

#include "layers.h"
#include "lumen/core/error.h"

namespace lumen::nn {
namespace {

constexpr Key kKeys[] = {
    {.name = "groups",
     .kind = KeyKind::kInteger,
     .help = "parts that the channels are cut into",
     .minimum = 1},
    {.name = "epsilon",
     .kind = KeyKind::kNumber,
     .fallback = "1e-5",
     .help = "added to the variance",
     .minimum = 0},
    kNormInitKey,
};

using LaneValues = std::array<float, kVectorLanes>;
using LaneSums = std::array<double, kVectorLanes>;

class GroupNorm : public Layer {
 public:
  GroupNorm(const std::string& name, const Shape& shape, int64_t groups,
            double epsilon, Init init)
      : name_(name),
        shape_(shape),
        groups_(groups),
        epsilon_(epsilon),
        init_(init) {}

  Shape output_shape() const override { return shape_; }
  BackwardNeeds backward_needs() const override { return {.inputs = true}; }
  bool adds_gradients() const override { return true; }
  int64_t max_lanes() const override { return kVectorLanes; }
  int64_t MultiplyAdds(std::span<const int64_t>) const override { return 0; }

  std::vector<ParameterDecl> parameters() const override {
    return {
        {.name = name_ + ".weight", .shape = {shape_.channels}, .init = init_},
        {.name = name_ + ".bias",
         .shape = {shape_.channels},
         .init = Init::kZeros}};
  }
  // Means and 1 / deviations per lane, of each tile and group.
  int64_t saved_floats(const LaneLayout& layout) const override {
    return layout.tiles * groups_ * 2 * kVectorLanes;
  }

  void Forward(const LayerContext& context, std::span<const Panel> inputs,
               const Panel& y) const override {
    context.compute->parallel.For(y.layout.tiles * groups_, [&](int64_t i) {
      ForwardGroup(context, inputs[0], y, i / groups_, i % groups_);
    });
  }

  void Backward(const LayerContext& context, std::span<const Panel> inputs,
                const Panel&, const Panel& dy,
                std::span<const InputGradient> dx) const override {
    context.compute->parallel.For(groups_, [&](int64_t g) {
      // Per channel of the group.
      std::vector<double> weight(static_cast<size_t>(GroupChannels()));
      std::vector<double> bias(weight.size());
      for (int64_t t = 0; t < dy.layout.tiles; ++t) {
        BackwardGroup(context, inputs[0], dy, dx[0], t, g, weight, bias);
      }
      for (size_t k = 0; k < weight.size(); ++k) {
        const int64_t c = g * GroupChannels() + static_cast<int64_t>(k);
        context.parameters[0].gradient[c] = static_cast<float>(weight[k]);
        context.parameters[1].gradient[c] = static_cast<float>(bias[k]);
      }
    });
  }

 private:
  int64_t GroupChannels() const { return shape_.channels / groups_; }
  int64_t Pixels() const { return shape_.elements() / shape_.channels; }
  int64_t Count() const { return GroupChannels() * Pixels(); }
  float* Map(const Panel& panel, int64_t tile, int64_t channel) const {
    return panel.tile(tile) + channel * Pixels() * kVectorLanes;
  }
  float* Saved(const LayerContext& context, int64_t tile, int64_t group) const {
    return context.saved + (tile * groups_ + group) * 2 * kVectorLanes;
  }

  void ForwardGroup(const LayerContext& context, const Panel& x, const Panel& y,
                    int64_t tile, int64_t group) const {
    const sparse::Compute& compute = *context.compute;
    const int64_t first = group * GroupChannels();
    const auto n = static_cast<double>(Count());
    float* mean = Saved(context, tile, group);
    float* inverse = mean + kVectorLanes;
    LaneSums sum = {}, squares = {};
    compute->lane_sum(Map(x, tile, first), Count(), sum.data());
    for (size_t l = 0; l < sum.size(); ++l) {
      mean[l] = static_cast<float>(sum[l] / n);
    }
    compute->lane_squares(Map(x, tile, first), mean, Count(), squares.data());
    for (size_t l = 0; l < squares.size(); ++l) {
      inverse[l] =
          static_cast<float>(1.0 / std::sqrt(squares[l] / n + epsilon_));
    }
    for (int64_t c = first; c < first + GroupChannels(); ++c) {
      LaneValues scale, shift;
      for (size_t l = 0; l < scale.size(); ++l) {
        scale[l] = context.parameters[0].value[c] * inverse[l];
        shift[l] = context.parameters[1].value[c];
      }
      compute->lane_affine(Map(x, tile, c), mean, scale.data(), shift.data(),
                           Map(y, tile, c), Pixels());
    }
  }

  // Adds to the gradients of weight and bias, per channel of the group.
  void BackwardGroup(const LayerContext& context, const Panel& x,
                     const Panel& dy, const InputGradient& dx, int64_t tile,
                     int64_t group, std::span<double> weight_gradient,
                     std::span<double> bias_gradient) const {
    const int64_t first = group * GroupChannels();
    const float* mean = Saved(context, tile, group);
    const float* inverse = mean + kVectorLanes;
    LaneSums group_sum = {}, group_product = {};  // weighted
    for (size_t k = 0; k < weight_gradient.size(); ++k) {
      const int64_t c = first + static_cast<int64_t>(k);
      const auto weight = static_cast<double>(context.parameters[0].value[c]);
      LaneSums sum = {}, product = {};
      (*context.compute)
          ->lane_products(Map(dy, tile, c), Map(x, tile, c), mean, Pixels(),
                          sum.data(), product.data());
      for (size_t l = 0; l < sum.size(); ++l) {
        if (!Holds(context, tile, l)) continue;
        bias_gradient[k] += sum[l];
        weight_gradient[k] += product[l] * static_cast<double>(inverse[l]);
        group_sum[l] += weight * sum[l];
        group_product[l] += weight * product[l];
      }
    }
    if (dx.panel.data == nullptr) return;
    // dx = inverse (weight dy - mean of weight dy
    //               - normalised x * mean of (weight dy normalised x))
    const auto n = static_cast<double>(Count());
    for (int64_t c = first; c < first + GroupChannels(); ++c) {
      // A lane without a sample gets no gradient.
      LaneValues a = {}, b = {}, shift = {};
      for (size_t l = 0; l < a.size(); ++l) {
        if (!Holds(context, tile, l)) continue;
        const auto scale = static_cast<double>(inverse[l]);
        a[l] = context.parameters[0].value[c] * inverse[l];
        b[l] =
            static_cast<float>(-scale * scale * scale * group_product[l] / n);
        shift[l] = static_cast<float>(-scale * group_sum[l] / n);
      }
      (*context.compute)
          ->lane_affine_gradient(Map(dy, tile, c), Map(x, tile, c), mean,
                                 a.data(), b.data(), shift.data(), dx.add,
                                 Map(dx.panel, tile, c), Pixels());
    }
  }

  static bool Holds(const LayerContext& context, int64_t tile, size_t lane) {
    return context.HoldsSample(tile * kVectorLanes +
                               static_cast<int64_t>(lane));
  }

  std::string name_;
  Shape shape_;
  int64_t groups_;
  double epsilon_;
  Init init_;
};

}  // namespace

const LayerRow kGroupNormRow = {
    "group_norm", kKeys, "normalisation of each sample over groups of channels",
    [](const Json& spec, const std::string& name,
       std::span<const Shape> inputs) -> std::unique_ptr<Layer> {
      const Shape& shape = OnlyInput(spec, inputs);
      const int64_t groups = spec.at("groups").integer();
      if (shape.channels % groups != 0) {
        throw SpecError(spec.where() + ": group_norm \"" + name +
                        "\": " + std::to_string(groups) + " groups of " +
                        std::to_string(shape.channels) +
                        " channels; expected groups to divide the channels");
      }
      return std::make_unique<GroupNorm>(
          name, shape, groups, spec.at("epsilon").number(), NormInit(spec));
    }};

}  // namespace lumen::nn
