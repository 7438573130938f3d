// SPDX-License-Identifier: Apache-2.0
// What losses share: the walk over vectors of 16 samples, and their targets.
#pragma once

#include <cstdint>
#include <functional>

#include "lumen/core/panel.h"
#include "lumen/nn/loss.h"

namespace lumen::nn {

// 16 samples of the output.
struct LossVector {
  float* output = nullptr;        // of output c: output[c * stride + lane]
  const float* values = nullptr;  // the same for targets; null: class labels
  int64_t outputs = 0;
  int64_t stride = 0;
  int64_t first = 0;                 // sample in lane 0
  int32_t label[kVectorLanes] = {};  // negative: masked
  const LabelSets* sets = nullptr;   // null: none

  // A value, or for class labels 1 on the label and 0 elsewhere; with a single
  // output the label itself.
  float Target(int64_t c, int64_t lane) const {
    if (values) return values[c * stride + lane];
    if (outputs == 1) return static_cast<float>(label[lane]);
    return label[lane] == c ? 1.0f : 0.0f;
  }
};

// The targets of a vector, output by output.
class TargetWalk {
 public:
  // REQUIRES: `vector` outlives it.
  explicit TargetWalk(const LossVector& vector);
  // Those of the next output; 0 where the lane is masked.
  void Next(float target[kVectorLanes]);

 private:
  const LossVector& vector_;
  int64_t output_ = 0;
  std::span<const int32_t> left_[kVectorLanes];  // of the sets
};

int64_t LossVectors(const Panel& output);  // how many there are
LossVector LossVectorAt(const Panel& output, const Targets& targets, int64_t i);

// One sample's part of LossSums.
struct SampleLoss {
  int valid = 0;
  double loss = 0;
  double metrics[2] = {};
};

// Calls task(vector, samples) for all vectors on several threads, where
// `samples` are the 16 of the vector, and adds them up in sample order.
using LossTask = std::function<void(const LossVector&, SampleLoss*)>;
LossSums SumLossVectors(const sparse::Compute& compute, const Panel& output,
                        const Targets& targets, size_t metrics,
                        const LossTask& task);

}  // namespace lumen::nn
