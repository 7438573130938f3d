// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient descent with momentum (Sutskever et al. 2013) as PyTorch
// writes it: the rate multiplies the velocity.
#include <memory>

#include "lumen/core/buffer.h"
#include "optimizer_rows.h"

namespace lumen::train {
namespace {

constexpr Key kKeys[] = {
    {.name = "momentum",
     .kind = KeyKind::kNumber,
     .fallback = "0.9",
     .help = "share of the velocity that is kept",
     .minimum = 0,
     .maximum = 1},
    {.name = "nesterov",
     .kind = KeyKind::kBool,
     .fallback = "false",
     .help = "look ahead by one velocity"},
    {.name = "weight_decay",
     .kind = KeyKind::kNumber,
     .fallback = "0",
     .help = "added to the gradient, times the weight",
     .minimum = 0},
    kDecayExcludeKey,
};

class Sgd : public Optimizer {
 public:
  Sgd(const Json& spec, const nn::ParameterSet& parameters)
      : momentum_(static_cast<float>(spec.at("momentum").number())),
        nesterov_(spec.at("nesterov").boolean()),
        velocity_(momentum_ > 0 ? parameters.size() : 0),
        decay_(spec, parameters) {}

  void Apply(const sparse::Compute& compute, nn::ParameterSet* parameters,
             int64_t begin, std::span<const float> gradient, double rate,
             int64_t /*update*/) override {
    const int64_t end = begin + std::ssize(gradient);
    float* w = parameters->values().data();
    float* velocity = velocity_.size() ? velocity_.data() : nullptr;
    decay_.For(
        compute.parallel, begin, end, [&](int64_t at, int64_t n, double decay) {
          compute->sgd(w + at, velocity ? velocity + at : nullptr,
                       gradient.data() + (at - begin), static_cast<float>(rate),
                       momentum_, static_cast<float>(decay), nesterov_, 0, n);
        });
  }

  std::vector<OptimizerState> State() override {
    if (velocity_.size() == 0) return {};
    return {{"velocity", velocity_.span()}};
  }

 private:
  float momentum_;
  int nesterov_;
  Buffer<float> velocity_;
  WeightDecay decay_;
};

}  // namespace

const OptimizerRow kSgdRow = {
    "sgd", kKeys, "stochastic gradient descent with momentum",
    [](const Json& spec,
       const nn::ParameterSet& parameters) -> std::unique_ptr<Optimizer> {
      return std::make_unique<Sgd>(spec, parameters);
    },
    [](const Json& spec) -> int64_t {
      return spec.at("momentum").number() > 0 ? 1 : 0;
    }};

}  // namespace lumen::train
