// SPDX-License-Identifier: Apache-2.0
// Batch normalisation (Ioffe and Szegedy 2015) over groups of samples of a
// shard, so that it depends neither on ranks nor on the number of shards.
//
// Sums over the samples of a group: lanes as sparse/kernels.h has it, then the
// lanes that hold a sample in order, tile by tile, in double.
#include <algorithm>
#include <cmath>

#include "layers.h"
#include "lumen/core/error.h"

namespace lumen::nn {
namespace {

constexpr Key kKeys[] = {
    {.name = "group",
     .kind = KeyKind::kInteger,
     .fallback = "null",
     .help = "samples per statistic, a multiple of 16 that divides the shard "
             "batch, or the shard batch; default: 32 or else 16 where that "
             "fits, else the shard batch",
     .minimum = 1},
    {.name = "momentum",
     .kind = KeyKind::kNumber,
     .fallback = "0.1",
     .help = "share of the new batch in running statistics",
     .minimum = 0,
     .maximum = 1},
    {.name = "epsilon",
     .kind = KeyKind::kNumber,
     .fallback = "1e-5",
     .help = "added to the variance",
     .minimum = 0},
    kNormInitKey,
};

struct Moments {
  double mean = 0;
  double variance = 0;  // biased
  int64_t count = 0;
};

// A parameter for each of the 16 samples of a tile.
using LaneValues = std::array<float, kVectorLanes>;

class BatchNorm : public Layer {
 public:
  BatchNorm(const std::string& name, const Shape& shape, int64_t group,
            double momentum, double epsilon, Init init, std::string where)
      : name_(name),
        shape_(shape),
        group_(group),
        momentum_(momentum),
        epsilon_(epsilon),
        init_(init),
        where_(std::move(where)) {}

  Shape output_shape() const override { return shape_; }
  BackwardNeeds backward_needs() const override { return {.inputs = true}; }
  bool adds_gradients() const override { return true; }
  int64_t max_lanes() const override { return kVectorLanes; }
  StripUse strip_use() const override { return StripUse::kKeeps; }
  int64_t MultiplyAdds(std::span<const int64_t>) const override { return 0; }

  std::vector<ParameterDecl> parameters() const override {
    return {
        {.name = name_ + ".weight", .shape = {shape_.channels}, .init = init_},
        {.name = name_ + ".bias",
         .shape = {shape_.channels},
         .init = Init::kZeros}};
  }
  std::vector<StatisticDecl> statistics() const override {
    return {{name_ + ".running_mean", shape_.channels, 0.0f},
            {name_ + ".running_var", shape_.channels, 1.0f}};
  }

  void CheckShard(int64_t samples) const override {
    const int64_t group = GroupSamples(samples);
    if (group == samples ||
        (samples % group == 0 && group % kVectorLanes == 0)) {
      return;
    }
    throw SpecError(where_ + ": batch_norm \"" + name_ + "\": group is " +
                    std::to_string(group) + " and a shard has " +
                    std::to_string(samples) +
                    " samples; expected a multiple of 16 that divides them, or "
                    "all of them");
  }
  // Mean and 1 / deviation per group and channel.
  int64_t saved_floats(const LaneLayout& layout) const override {
    return 2 * Groups(layout) * shape_.channels;
  }

  void Forward(const LayerContext& context, std::span<const Panel> inputs,
               const Panel& y) const override {
    context.compute->parallel.For(shape_.channels, [&](int64_t c) {
      if (context.kind == PassKind::kTraining) {
        Train(context, inputs[0], y, c);
      } else {
        Evaluate(context, inputs[0], y, c);
      }
    });
  }

  void Backward(const LayerContext& context, std::span<const Panel> inputs,
                const Panel&, const Panel& dy,
                std::span<const InputGradient> dx) const override {
    context.compute->parallel.For(shape_.channels, [&](int64_t c) {
      BackwardChannel(context, inputs[0], dy, dx[0], c);
    });
  }

 private:
  int64_t GroupSamples(int64_t samples) const {
    if (group_ > 0) return std::min(group_, samples);
    for (int64_t group : {2 * kVectorLanes, kVectorLanes}) {
      if (samples % group == 0) return group;
    }
    return samples;
  }
  int64_t Groups(const LaneLayout& layout) const {
    if (layout.samples == 0) return 0;
    return layout.samples / GroupSamples(layout.samples);
  }
  int64_t GroupTiles(const LaneLayout& layout) const {
    return layout.tiles / std::max<int64_t>(1, Groups(layout));
  }
  int64_t Pixels() const { return shape_.elements() / shape_.channels; }
  const float* Map(const Panel& panel, int64_t tile, int64_t channel) const {
    return panel.tile(tile) + channel * Pixels() * kVectorLanes;
  }
  float* Output(const Panel& panel, int64_t tile, int64_t channel) const {
    return panel.tile(tile) + channel * Pixels() * kVectorLanes;
  }

  // Of the lanes that hold a sample.
  static double SumLanes(const LayerContext& context, const LaneLayout& layout,
                         int64_t tile, const double* lanes) {
    double sum = 0;
    for (int64_t l = 0; l < kVectorLanes; ++l) {
      if (context.HoldsSample(layout, tile * kVectorLanes + l)) sum += lanes[l];
    }
    return sum;
  }
  static LaneValues All(float value) {
    LaneValues all;
    all.fill(value);
    return all;
  }

  int64_t Count(const LayerContext& context, const LaneLayout& layout,
                int64_t first_tile, int64_t tiles) const {
    int64_t samples = 0;
    for (int64_t l = first_tile * kVectorLanes;
         l < (first_tile + tiles) * kVectorLanes; ++l) {
      samples += context.HoldsSample(layout, l);
    }
    return samples * Pixels();
  }

  Moments GroupMoments(const LayerContext& context, const Panel& x, int64_t c,
                       int64_t first_tile, int64_t tiles) const {
    const sparse::Compute& compute = *context.compute;
    Moments moments;
    moments.count = Count(context, x.layout, first_tile, tiles);
    if (moments.count == 0) return moments;
    const auto n = static_cast<double>(moments.count);
    double sum = 0;
    for (int64_t t = first_tile; t < first_tile + tiles; ++t) {
      double lanes[kVectorLanes] = {};
      compute->lane_sum(Map(x, t, c), Pixels(), lanes);
      sum += SumLanes(context, x.layout, t, lanes);
    }
    moments.mean = sum / n;
    const LaneValues mean = All(static_cast<float>(moments.mean));
    double squares = 0;
    for (int64_t t = first_tile; t < first_tile + tiles; ++t) {
      double lanes[kVectorLanes] = {};
      compute->lane_squares(Map(x, t, c), mean.data(), Pixels(), lanes);
      squares += SumLanes(context, x.layout, t, lanes);
    }
    moments.variance = squares / n;
    return moments;
  }

  void Normalise(const LayerContext& context, const Panel& x, const Panel& y,
                 int64_t c, int64_t first_tile, int64_t tiles, float mean,
                 float inverse) const {
    const LaneValues means = All(mean);
    const LaneValues scale = All(context.parameters[0].value[c] * inverse);
    const LaneValues shift = All(context.parameters[1].value[c]);
    for (int64_t t = first_tile; t < first_tile + tiles; ++t) {
      (*context.compute)
          ->lane_affine(Map(x, t, c), means.data(), scale.data(), shift.data(),
                        Output(y, t, c), Pixels());
    }
  }

  float Inverse(double variance) const {
    return static_cast<float>(1.0 / std::sqrt(variance + epsilon_));
  }

  void Evaluate(const LayerContext& context, const Panel& x, const Panel& y,
                int64_t c) const {
    const float* mean = context.statistics;
    const float* variance = mean + shape_.channels;
    Normalise(context, x, y, c, 0, x.layout.tiles, mean[c],
              Inverse(static_cast<double>(variance[c])));
  }

  void Train(const LayerContext& context, const Panel& x, const Panel& y,
             int64_t c) const {
    const int64_t tiles = GroupTiles(x.layout);
    double mean = 0, variance = 0;
    int64_t used = 0;
    for (int64_t g = 0; g < Groups(x.layout); ++g) {
      const Moments m = GroupMoments(context, x, c, g * tiles, tiles);
      float* saved = context.saved + 2 * (g * shape_.channels + c);
      saved[0] = static_cast<float>(m.mean);
      saved[1] = Inverse(m.variance);
      Normalise(context, x, y, c, g * tiles, tiles, saved[0], saved[1]);
      if (m.count == 0) continue;
      const auto n = static_cast<double>(m.count);
      mean += m.mean;
      variance += m.count > 1 ? m.variance * n / (n - 1) : m.variance;
      ++used;
    }
    if (context.next_statistics == nullptr) return;
    const int64_t at[] = {c, shape_.channels + c};
    const double batch[] = {mean, variance};
    for (int i = 0; i < 2; ++i) {
      const auto old = static_cast<double>(context.statistics[at[i]]);
      const double now = used > 0 ? batch[i] / static_cast<double>(used) : old;
      context.next_statistics[at[i]] =
          static_cast<float>((1 - momentum_) * old + momentum_ * now);
    }
  }

  void BackwardChannel(const LayerContext& context, const Panel& x,
                       const Panel& dy, const InputGradient& dx,
                       int64_t c) const {
    const int64_t tiles = GroupTiles(x.layout);
    double weight_gradient = 0, bias_gradient = 0;
    for (int64_t g = 0; g < Groups(x.layout); ++g) {
      const float* saved = context.saved + 2 * (g * shape_.channels + c);
      const LaneValues mean = All(saved[0]);
      const auto inverse = static_cast<double>(saved[1]);
      double sum = 0, product = 0;
      for (int64_t t = g * tiles; t < (g + 1) * tiles; ++t) {
        double sums[kVectorLanes] = {}, products[kVectorLanes] = {};
        (*context.compute)
            ->lane_products(Map(dy, t, c), Map(x, t, c), mean.data(), Pixels(),
                            sums, products);
        sum += SumLanes(context, x.layout, t, sums);
        product += SumLanes(context, x.layout, t, products);
      }
      bias_gradient += sum;
      weight_gradient += product * inverse;
      if (dx.panel.data == nullptr) continue;
      const auto n = static_cast<double>(
          std::max<int64_t>(1, Count(context, x.layout, g * tiles, tiles)));
      const double scale =
          static_cast<double>(context.parameters[0].value[c]) * inverse;
      const auto a = static_cast<float>(scale);
      const auto b =
          static_cast<float>(-scale * inverse * inverse * product / n);
      const auto shift = static_cast<float>(-scale * sum / n);
      for (int64_t t = g * tiles; t < (g + 1) * tiles; ++t) {
        // A lane without a sample gets no gradient.
        LaneValues as, bs, shifts;
        for (size_t l = 0; l < as.size(); ++l) {
          const bool holds = context.HoldsSample(
              x.layout, t * kVectorLanes + static_cast<int64_t>(l));
          as[l] = holds ? a : 0.0f;
          bs[l] = holds ? b : 0.0f;
          shifts[l] = holds ? shift : 0.0f;
        }
        (*context.compute)
            ->lane_affine_gradient(Map(dy, t, c), Map(x, t, c), mean.data(),
                                   as.data(), bs.data(), shifts.data(), dx.add,
                                   Output(dx.panel, t, c), Pixels());
      }
    }
    context.parameters[0].gradient[c] = static_cast<float>(weight_gradient);
    context.parameters[1].gradient[c] = static_cast<float>(bias_gradient);
  }

  std::string name_;
  Shape shape_;
  int64_t group_;  // 0: by default
  double momentum_;
  double epsilon_;
  Init init_;
  std::string where_;
};

}  // namespace

const LayerRow kBatchNormRow = {
    "batch_norm", kKeys, "batch normalisation over groups of samples",
    [](const Json& spec, const std::string& name,
       std::span<const Shape> inputs) -> std::unique_ptr<Layer> {
      const Json& group = spec.at("group");
      return std::make_unique<BatchNorm>(
          name, OnlyInput(spec, inputs), group.is_null() ? 0 : group.integer(),
          spec.at("momentum").number(), spec.at("epsilon").number(),
          NormInit(spec), spec.where());
    }};

}  // namespace lumen::nn
