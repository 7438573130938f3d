// SPDX-License-Identifier: Apache-2.0
// Binary cross entropy of a sigmoid per output, as PyTorch's BCEWithLogitsLoss
// has it: every output of every sample counts alike.
#include <algorithm>

#include "layers.h"
#include "loss_vectors.h"
#include "lumen/core/math.h"

namespace lumen::nn {
namespace {

constexpr std::string_view kMetrics[] = {"accuracy"};

// Outputs whose target is above 0.5 are positive.
bool IsPositive(float target) { return target > 0.5f; }

// Counts of negative outputs by probability, then of positive ones.
constexpr int64_t kBins = 4096;

int64_t Bin(float probability) {
  if (!(probability > 0)) return 0;  // NaN as well
  return std::min(kBins - 1, static_cast<int64_t>(probability * float{kBins}));
}

// `output` holds probabilities.
std::vector<int64_t> CountBins(const Panel& output, const Targets& targets) {
  std::vector<int64_t> counts(2 * kBins);
  for (int64_t i = 0; i < LossVectors(output); ++i) {
    const LossVector vector = LossVectorAt(output, targets, i);
    for (int64_t c = 0; c < vector.outputs; ++c) {
      for (int64_t l = 0; l < kVectorLanes; ++l) {
        if (vector.label[l] < 0) continue;
        const int64_t bin = Bin(vector.output[c * vector.stride + l]);
        const int64_t half = IsPositive(vector.Target(c, l)) ? kBins : 0;
        ++counts[static_cast<size_t>(half + bin)];
      }
    }
  }
  return counts;
}

// The share of pairs of a positive and a negative output in which the positive
// one has the higher probability; equal bins count half (Hanley and McNeil
// 1982).
std::optional<double> AreaUnderCurve(std::span<const int64_t> counts) {
  if (counts.empty()) return std::nullopt;
  double negatives_below = 0;
  double positives = 0;
  double pairs_won = 0;
  for (size_t bin = 0; bin < size_t{kBins}; ++bin) {
    const auto negative = static_cast<double>(counts[bin]);
    const auto positive = static_cast<double>(counts[size_t{kBins} + bin]);
    pairs_won += positive * (negatives_below + 0.5 * negative);
    negatives_below += negative;
    positives += positive;
  }
  const double pairs = positives * negatives_below;
  if (pairs == 0) return std::nullopt;
  return pairs_won / pairs;
}

void Vector(const sparse::Compute& compute, const LossVector& vector,
            Loss::Mode mode, float scale, SampleLoss* samples) {
  const auto outputs = static_cast<double>(vector.outputs);
  const auto factor = static_cast<float>(double{scale} / outputs);
  double losses[kVectorLanes] = {};
  int64_t right[kVectorLanes] = {};
  for (int64_t c = 0; c < vector.outputs; ++c) {
    float* z = vector.output + c * vector.stride;
    // The sigmoid of z is the first softmax probability of the pair (z, 0).
    float pair[2 * kVectorLanes] = {};
    std::copy(z, z + kVectorLanes, pair);
    float largest[kVectorLanes];
    float total[kVectorLanes];
    compute->softmax(pair, 2, kVectorLanes, largest, total);
    for (int64_t l = 0; l < kVectorLanes; ++l) {
      if (vector.label[l] < 0) {
        z[l] = 0;
        continue;
      }
      const float target = vector.Target(c, l);
      // -t log p - (1 - t) log(1 - p) = log(1 + exp z) - t z.
      losses[l] += Log(double{total[l]}) + double{largest[l]} -
                   double{target} * double{z[l]};
      right[l] += (z[l] > 0) == IsPositive(target);
      z[l] =
          mode == Loss::kWithGradient ? (pair[l] - target) * factor : pair[l];
    }
  }
  for (int64_t l = 0; l < kVectorLanes; ++l) {
    samples[l].valid = vector.label[l] >= 0;
    samples[l].loss = losses[l] / outputs;
    samples[l].metrics[0] = static_cast<double>(right[l]) / outputs;
  }
}

class SigmoidBce : public Loss {
 public:
  std::span<const std::string_view> metric_names() const override {
    return kMetrics;
  }

  std::vector<Metric> CountMetrics(const LossSums& sums) const override {
    return {{"auc", AreaUnderCurve(sums.counts)}};
  }

  LossSums Compute(const sparse::Compute& compute, const Panel& output,
                   const Targets& targets, Mode mode,
                   float scale) const override {
    LossSums sums =
        SumLossVectors(compute, output, targets, std::size(kMetrics),
                       [&](const LossVector& vector, SampleLoss* samples) {
                         Vector(compute, vector, mode, scale, samples);
                       });
    if (mode == kSumsOnly) sums.counts = CountBins(output, targets);
    return sums;
  }
};

}  // namespace

const LossRow kSigmoidBceRow = {
    "sigmoid_bce",
    {},
    "a yes or no per output, the mean over samples of the mean over outputs; "
    "targets are the values of the data, in 0 .. 1, or 1 for the class and 0 "
    "for the others (with one output: the label, 0 or 1)",
    LossRow::kLabelsOrValues,
    [](const Json& /*spec*/, int64_t /*classes*/) -> std::unique_ptr<Loss> {
      return std::make_unique<SigmoidBce>();
    }};

}  // namespace lumen::nn
