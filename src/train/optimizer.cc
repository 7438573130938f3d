// SPDX-License-Identifier: Apache-2.0
#include "lumen/train/optimizer.h"

#include <glog/logging.h>

#include <algorithm>

#include "lumen/core/buffer.h"

namespace lumen::train {
namespace {

constexpr int64_t kChunk = int64_t{1} << 16;

constexpr Key kSgdKeys[] = {
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
    {.name = "decay_exclude",
     .kind = KeyKind::kTexts,
     .fallback = "[]",
     .help = "parameters without decay, by the end of their name: \"bias\""},
};

// Sutskever et al. 2013 as PyTorch writes it: the rate multiplies the velocity.
class Sgd : public Optimizer {
 public:
  Sgd(const Json& spec, const nn::ParameterSet& parameters)
      : momentum_(static_cast<float>(spec.at("momentum").number())),
        nesterov_(spec.at("nesterov").boolean()),
        velocity_(momentum_ > 0 ? parameters.size() : 0) {
    const auto decay = static_cast<float>(spec.at("weight_decay").number());
    for (const nn::Parameter& tensor : parameters.tensors()) {
      bool excluded = false;
      for (const Json& suffix : spec.at("decay_exclude").items()) {
        excluded |= tensor.decl.name.ends_with(suffix.text());
      }
      end_.push_back(tensor.offset + tensor.size());
      decay_.push_back(excluded ? 0.0f : decay);
    }
  }

  void Apply(const sparse::Compute& compute, nn::ParameterSet* parameters,
             int64_t begin, std::span<const float> gradient,
             double rate) override {
    const int64_t end = begin + static_cast<int64_t>(gradient.size());
    const int64_t chunks = (end - begin + kChunk - 1) / kChunk;
    compute.parallel.For(chunks, [&](int64_t c) {
      int64_t at = begin + c * kChunk;
      const int64_t stop = std::min(end, at + kChunk);
      auto tensor = static_cast<size_t>(
          std::upper_bound(end_.begin(), end_.end(), at) - end_.begin());
      for (; at < stop; ++tensor) {
        const int64_t n = std::min(stop, end_[tensor]) - at;
        compute->sgd(parameters->values().data() + at,
                     velocity_.size() ? velocity_.data() + at : nullptr,
                     gradient.data() + (at - begin), static_cast<float>(rate),
                     momentum_, decay_[tensor], nesterov_, 0, n);
        at += n;
      }
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
  std::vector<int64_t> end_;  // of each tensor, in the flat array
  std::vector<float> decay_;
};

constexpr OptimizerRow kOptimizers[] = {
    {"sgd", kSgdKeys, "stochastic gradient descent with momentum",
     [](const Json& spec,
        const nn::ParameterSet& parameters) -> std::unique_ptr<Optimizer> {
       return std::make_unique<Sgd>(spec, parameters);
     },
     [](const Json& spec) -> int64_t {
       return spec.at("momentum").number() > 0 ? 1 : 0;
     }},
};

const OptimizerRow& Find(const Json& spec) {
  const std::string& type = spec.at("type").text();
  for (const OptimizerRow& row : kOptimizers) {
    if (row.type == type) return row;
  }
  LOG(FATAL) << "optimizer " << type << " passed the schema";
  return kOptimizers[0];
}

}  // namespace

std::span<const OptimizerRow> Optimizers() { return kOptimizers; }

std::vector<Variant> OptimizerVariants() {
  std::vector<Variant> variants;
  for (const OptimizerRow& row : kOptimizers) {
    variants.push_back({row.type, row.keys, row.help});
  }
  return variants;
}

std::unique_ptr<Optimizer> NewOptimizer(const Json& spec,
                                        const nn::ParameterSet& parameters) {
  return Find(spec).create(spec, parameters);
}

int64_t OptimizerStateFloats(const Json& spec) {
  return Find(spec).state_floats(spec);
}

}  // namespace lumen::train
