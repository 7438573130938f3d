// SPDX-License-Identifier: Apache-2.0
// Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019) as PyTorch
// writes them. They differ in the weight decay: Adam adds it to the gradient,
// AdamW shrinks the weights by rate * decay beside the step.
#include <cmath>
#include <memory>

#include "lumen/core/buffer.h"
#include "lumen/core/math.h"
#include "optimizer_rows.h"

namespace lumen::train {
namespace {

// The bias corrections divide by 1 - beta^t.
constexpr double kMaxBeta = 0.999999;

constexpr Key kBeta1Key = {.name = "beta1",
                           .kind = KeyKind::kNumber,
                           .fallback = "0.9",
                           .help = "share of the mean gradient that is kept",
                           .minimum = 0,
                           .maximum = kMaxBeta};
constexpr Key kBeta2Key = {.name = "beta2",
                           .kind = KeyKind::kNumber,
                           .fallback = "0.999",
                           .help = "share of the mean square that is kept",
                           .minimum = 0,
                           .maximum = kMaxBeta};
constexpr Key kEpsilonKey = {
    .name = "epsilon",
    .kind = KeyKind::kNumber,
    .fallback = "1e-8",
    .help = "added to the root of the mean square, so that zero can divide",
    .minimum = 1e-30};

constexpr Key kAdamKeys[] = {
    kBeta1Key,
    kBeta2Key,
    kEpsilonKey,
    {.name = "weight_decay",
     .kind = KeyKind::kNumber,
     .fallback = "0",
     .help = "added to the gradient, times the weight",
     .minimum = 0},
    kDecayExcludeKey,
};

constexpr Key kAdamWKeys[] = {
    kBeta1Key,
    kBeta2Key,
    kEpsilonKey,
    {.name = "weight_decay",
     .kind = KeyKind::kNumber,
     .fallback = "0.01",
     .help = "weights lose this share of themselves per step, times the rate",
     .minimum = 0},
    kDecayExcludeKey,
};

class Adam : public Optimizer {
 public:
  enum Decay { kInGradient, kDecoupled };

  Adam(const Json& spec, const nn::ParameterSet& parameters, Decay decay_kind)
      : beta1_(spec.at("beta1").number()),
        beta2_(spec.at("beta2").number()),
        epsilon_(spec.at("epsilon").number()),
        decay_kind_(decay_kind),
        mean_(parameters.size()),
        square_(parameters.size()),
        decay_(spec, parameters) {}

  void Apply(const sparse::Compute& compute, nn::ParameterSet* parameters,
             int64_t begin, std::span<const float> gradient, double rate,
             int64_t update) override {
    const sparse::AdamStep step = Step(rate, update);
    const int64_t end = begin + std::ssize(gradient);
    float* w = parameters->values().data();
    decay_.For(compute.parallel, begin, end,
               [&](int64_t at, int64_t n, double decay) {
                 const bool decoupled = decay_kind_ == kDecoupled;
                 const double added = decoupled ? 0 : decay;
                 const double shrink = decoupled ? 1 - rate * decay : 1;
                 compute->adam(w + at, mean_.data() + at, square_.data() + at,
                               gradient.data() + (at - begin), step,
                               static_cast<float>(added),
                               static_cast<float>(shrink), n);
               });
  }

  std::vector<OptimizerState> State() override {
    return {{"mean", mean_.span()}, {"square", square_.span()}};
  }

 private:
  sparse::AdamStep Step(double rate, int64_t update) const {
    const auto t = static_cast<double>(update + 1);
    return {.keep_mean = static_cast<float>(beta1_),
            .take_mean = static_cast<float>(1 - beta1_),
            .keep_square = static_cast<float>(beta2_),
            .take_square = static_cast<float>(1 - beta2_),
            .rate = static_cast<float>(rate / (1 - Pow(beta1_, t))),
            // The root is exact by IEEE, so it has the same bits everywhere.
            .root_scale = static_cast<float>(1 / std::sqrt(1 - Pow(beta2_, t))),
            .epsilon = static_cast<float>(epsilon_)};
  }

  double beta1_;
  double beta2_;
  double epsilon_;
  Decay decay_kind_;
  Buffer<float> mean_;    // of the gradients
  Buffer<float> square_;  // of their squares
  WeightDecay decay_;
};

int64_t TwoFloats(const Json& /*spec*/) { return 2; }

}  // namespace

const OptimizerRow kAdamRow = {
    "adam", kAdamKeys, "Adam; the decay is part of the gradient",
    [](const Json& spec,
       const nn::ParameterSet& parameters) -> std::unique_ptr<Optimizer> {
      return std::make_unique<Adam>(spec, parameters, Adam::kInGradient);
    },
    TwoFloats};

const OptimizerRow kAdamWRow = {
    "adamw", kAdamWKeys, "Adam with decoupled weight decay",
    [](const Json& spec,
       const nn::ParameterSet& parameters) -> std::unique_ptr<Optimizer> {
      return std::make_unique<Adam>(spec, parameters, Adam::kDecoupled);
    },
    TwoFloats};

}  // namespace lumen::train
