// SPDX-License-Identifier: Apache-2.0
#include "loss_vectors.h"

#include <glog/logging.h>

#include <vector>

namespace lumen::nn {

int64_t LossVectors(const Panel& output) {
  return output.layout.total_lanes() / kVectorLanes;
}

LossVector LossVectorAt(const Panel& output, const Targets& targets,
                        int64_t i) {
  const int64_t lanes = output.layout.lanes;
  const int64_t tile = i * kVectorLanes / lanes;
  const int64_t lane = i * kVectorLanes % lanes;
  LossVector vector{.output = output.tile(tile) + lane,
                    .outputs = output.shape.elements(),
                    .stride = lanes,
                    .first = i * kVectorLanes};
  if (targets.values.data) {
    CHECK(targets.values.shape == output.shape);
    CHECK(targets.values.layout == output.layout);
    vector.values = targets.values.tile(tile) + lane;
  }
  if (targets.sets.rows() > 0) vector.sets = &targets.sets;
  for (int64_t l = 0; l < kVectorLanes; ++l) {
    const int64_t sample = vector.first + l;
    vector.label[l] = sample < std::ssize(targets.labels)
                          ? targets.labels[static_cast<size_t>(sample)]
                          : -1;
  }
  return vector;
}

TargetWalk::TargetWalk(const LossVector& vector) : vector_(vector) {
  if (vector.sets == nullptr) return;
  for (int64_t l = 0; l < kVectorLanes; ++l) {
    if (vector.label[l] >= 0) left_[l] = vector.sets->of(vector.first + l);
  }
}

void TargetWalk::Next(float target[kVectorLanes]) {
  for (int64_t l = 0; l < kVectorLanes; ++l) {
    if (vector_.sets == nullptr) {
      target[l] = vector_.label[l] < 0 ? 0.0f : vector_.Target(output_, l);
      continue;
    }
    const bool found = !left_[l].empty() && left_[l].front() == output_;
    if (found) left_[l] = left_[l].subspan(1);
    target[l] = found ? 1.0f : 0.0f;
  }
  ++output_;
}
namespace {

// Outputs hold gradients, or nothing that is needed.
void ApplyWeights(const LossVector& vector, std::span<const float> weights,
                  SampleLoss* samples) {
  float factors[kVectorLanes];
  for (int64_t l = 0; l < kVectorLanes; ++l) {
    const int32_t label = vector.label[l];
    factors[l] = label < 0 ? 0.0f : weights[static_cast<size_t>(label)];
    samples[l].loss *= static_cast<double>(factors[l]);
  }
  for (int64_t c = 0; c < vector.outputs; ++c) {
    float* output = vector.output + c * vector.stride;
    for (int64_t l = 0; l < kVectorLanes; ++l) output[l] *= factors[l];
  }
}

}  // namespace

LossSums SumLossVectors(const sparse::Compute& compute, const Panel& output,
                        const Targets& targets, size_t metrics,
                        const LossTask& task) {
  std::vector<SampleLoss> samples(
      static_cast<size_t>(output.layout.total_lanes()));
  compute.parallel.For(LossVectors(output), [&](int64_t i) {
    const LossVector vector = LossVectorAt(output, targets, i);
    SampleLoss* first = &samples[static_cast<size_t>(vector.first)];
    task(vector, first);
    if (!targets.class_weights.empty()) {
      ApplyWeights(vector, targets.class_weights, first);
    }
  });
  // In sample order, whatever computed them.
  LossSums sums;
  sums.metrics.resize(metrics);
  for (const SampleLoss& sample : samples) {
    sums.samples += sample.valid;
    sums.loss += sample.loss;
    for (size_t m = 0; m < metrics; ++m) sums.metrics[m] += sample.metrics[m];
  }
  return sums;
}

}  // namespace lumen::nn
