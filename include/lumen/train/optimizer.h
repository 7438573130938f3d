// SPDX-License-Identifier: Apache-2.0
// Optimizers over the flat array of nonzeros, and their table.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lumen/core/json.h"
#include "lumen/core/schema.h"
#include "lumen/nn/parameters.h"
#include "lumen/sparse/compute.h"

namespace lumen::train {

// A named array that checkpoints keep: [parameters].
struct OptimizerState {
  std::string name;
  std::span<float> values;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Updates entries [begin, begin + gradient.size()) of the flat parameters
  // with the mean gradient. Called once per bucket and step. Bits do not depend
  // on how the range is cut. `update` is the number of steps that were applied
  // before this one: it counts from 0 and leaves out what was skipped.
  virtual void Apply(const sparse::Compute& compute,
                     nn::ParameterSet* parameters, int64_t begin,
                     std::span<const float> gradient, double rate,
                     int64_t update) = 0;
  virtual std::vector<OptimizerState> State() = 0;
};

struct OptimizerRow {
  std::string_view type;
  std::span<const Key> keys;
  std::string_view help;
  std::unique_ptr<Optimizer> (*create)(const Json& spec,
                                       const nn::ParameterSet& parameters);
  // State floats per parameter, for plan.
  int64_t (*state_floats)(const Json& spec);
};
std::span<const OptimizerRow> Optimizers();
std::vector<Variant> OptimizerVariants();
std::unique_ptr<Optimizer> NewOptimizer(const Json& spec,
                                        const nn::ParameterSet& parameters);
int64_t OptimizerStateFloats(const Json& spec);

}  // namespace lumen::train
