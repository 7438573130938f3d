// SPDX-License-Identifier: Apache-2.0
// What an exchange must compute, written down naively: all shards in one
// process, dense arrays, sorting, no ranks. Also the gradients of the tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lumen/comm/exchange.h"

namespace lumen::comm {

// What a test varies.
struct Case {
  std::string type = "split";
  std::string values = "int8";
  int64_t parameters = 1000;
  int shards = 8;
  int64_t bucket = 4194304;
  int64_t regions = 0;  // 0: the default
  double density = 0.01;
  double out_density = 0;  // 0: the default
  double clip_norm = 0;
  int threads = 1;

  std::string Text() const;
  // Two tensors, the second one small.
  ExchangeOptions Options() const;
};

// A row's spec with all defaults, then those of the case.
Json ExchangeSpec(const Case& c);

// Heavy-tailed, about a tenth of it exactly zero.
std::vector<float> TestGradient(int step, int shard, int64_t n);

class Oracle {
 public:
  explicit Oracle(const Case& c);
  // The sum of the step; the state moves on. `gradient` is [shard][parameter].
  std::vector<float> Step(std::vector<std::vector<float>> gradient);

  std::vector<std::vector<float>> residual;  // [shard][parameter]
  std::vector<float> owner_residual;         // [parameter]

 private:
  std::vector<float> DenseStep(std::vector<std::vector<float>> gradient) const;
  std::vector<float> SplitStep(std::vector<std::vector<float>> gradient);

  Case case_;
  ExchangeOptions options_;
};

// Runs steps of an exchange on all ranks of World(): the engine's side.
class Engine {
 public:
  explicit Engine(const Case& c);
  // Fills the hosted gradients, reduces. False: the step was discarded.
  bool Step(const std::vector<std::vector<float>>& gradient,
            std::vector<float>* sum);
  std::vector<float> OwnerState();  // on rank 0, elsewhere empty
  Exchange* operator->() { return exchange_.get(); }
  std::vector<int> hosted() const;

 private:
  Case case_;
  sparse::Compute compute_;
  std::unique_ptr<Exchange> exchange_;
};

// Gradients of all shards at a step.
std::vector<std::vector<float>> TestGradients(int step, const Case& c);
// Bits of floats, so that comparisons see the sign of zero and NaN.
std::vector<uint32_t> BitsOf(std::span<const float> values);

}  // namespace lumen::comm
