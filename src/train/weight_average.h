// SPDX-License-Identifier: Apache-2.0
// The running average of the weights, which evaluations use (Polyak and
// Juditsky 1992; exponential, as Tarvainen and Valpola 2017 have it).
#pragma once

#include <span>

#include "lumen/core/buffer.h"
#include "lumen/core/json.h"
#include "lumen/nn/parameters.h"
#include "lumen/sparse/compute.h"

namespace lumen::train {

class WeightAverage {
 public:
  WeightAverage() = default;  // none: nothing is done
  // `decay` is train.ema; null: none.
  // Starts at the parameters as they are.
  WeightAverage(const Json& decay, const nn::ParameterSet& parameters);

  // average = decay * average + (1 - decay) * parameters, after each step that
  // was applied. Bits do not depend on the threads.
  void Add(const sparse::Compute& compute, const nn::ParameterSet& parameters);
  // Exchanges average and parameters: once before an evaluation and once after
  // it.
  void Swap(const Parallel& parallel, nn::ParameterSet* parameters);
  // [parameters], or empty.
  std::span<float> values() { return values_.span(); }

 private:
  float decay_ = 0;
  Buffer<float> values_;
};

}  // namespace lumen::train
