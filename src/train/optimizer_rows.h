// SPDX-License-Identifier: Apache-2.0
// The rows of the optimizer table, one file per family, and what they share.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lumen/core/json.h"
#include "lumen/core/parallel.h"
#include "lumen/core/schema.h"
#include "lumen/nn/parameters.h"
#include "lumen/train/optimizer.h"

namespace lumen::train {

extern const OptimizerRow kSgdRow;
extern const OptimizerRow kAdamRow;
extern const OptimizerRow kAdamWRow;

inline constexpr Key kDecayExcludeKey = {
    .name = "decay_exclude",
    .kind = KeyKind::kTexts,
    .fallback = "[]",
    .help = "parameters without decay, by the end of their name: \"bias\""};

// The weight decay of each tensor, from the keys weight_decay and
// decay_exclude.
class WeightDecay {
 public:
  WeightDecay(const Json& spec, const nn::ParameterSet& parameters);

  // Calls task(at, n, decay) for pieces that cover entries [begin, end) of the
  // flat parameters, each inside one tensor; on several threads.
  using Task = std::function<void(int64_t at, int64_t n, double decay)>;
  void For(const Parallel& parallel, int64_t begin, int64_t end,
           const Task& task) const;

 private:
  std::vector<int64_t> end_;  // of each tensor, in the flat array
  std::vector<double> decay_;
};

}  // namespace lumen::train
