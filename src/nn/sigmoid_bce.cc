// SPDX-License-Identifier: Apache-2.0
// Binary cross entropy of a sigmoid per output, as PyTorch's BCEWithLogitsLoss
// has it: every output of every sample counts alike.
#include <algorithm>
#include <array>

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
    TargetWalk walk(vector);
    for (int64_t c = 0; c < vector.outputs; ++c) {
      float target[kVectorLanes];
      walk.Next(target);
      for (int64_t l = 0; l < kVectorLanes; ++l) {
        if (vector.label[l] < 0) continue;
        const int64_t bin = Bin(vector.output[c * vector.stride + l]);
        const int64_t half = IsPositive(target[l]) ? kBins : 0;
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

// Precision at k (Prabhu and Varma 2014, section 5): the share of positive
// outputs among the k with the best scores, the lower output first where scores
// are equal.
constexpr int64_t kPlaces[] = {1, 3, 5};
constexpr std::string_view kPlaceNames[] = {"p_at_1", "p_at_3", "p_at_5"};
constexpr int64_t kMostPlaces = 5;

// Of one sample: its best outputs so far.
struct Best {
  int64_t places = 0;
  float score[kMostPlaces];
  bool positive[kMostPlaces];

  void Add(float new_score, bool is_positive) {
    int64_t at = places;
    while (at > 0 && new_score > score[at - 1]) --at;
    if (at == kMostPlaces || new_score != new_score) return;
    places = std::min(places + 1, kMostPlaces);
    for (int64_t i = places - 1; i > at; --i) {
      score[i] = score[i - 1];
      positive[i] = positive[i - 1];
    }
    score[at] = new_score;
    positive[at] = is_positive;
  }
};

// For each k the hits among the first k places, and the places; none where
// there are fewer than k outputs, or one.
std::vector<int64_t> CountHits(const sparse::Compute& compute,
                               const Panel& output, const Targets& targets) {
  constexpr size_t kCounts = 2 * std::size(kPlaces);
  using Counts = std::array<int64_t, kCounts>;
  std::vector<Counts> counts(static_cast<size_t>(LossVectors(output)));
  compute.parallel.For(LossVectors(output), [&](int64_t i) {
    const LossVector vector = LossVectorAt(output, targets, i);
    if (vector.outputs == 1) return;
    Best best[kVectorLanes];
    TargetWalk walk(vector);
    for (int64_t c = 0; c < vector.outputs; ++c) {
      float target[kVectorLanes];
      walk.Next(target);
      for (int64_t l = 0; l < kVectorLanes; ++l) {
        best[l].Add(vector.output[c * vector.stride + l],
                    IsPositive(target[l]));
      }
    }
    Counts& sum = counts[static_cast<size_t>(i)];
    for (int64_t l = 0; l < kVectorLanes; ++l) {
      if (vector.label[l] < 0) continue;
      for (size_t p = 0; p < std::size(kPlaces); ++p) {
        if (vector.outputs < kPlaces[p]) continue;
        const int64_t filled = std::min(kPlaces[p], best[l].places);
        sum[2 * p] +=
            std::count(best[l].positive, best[l].positive + filled, true);
        sum[2 * p + 1] += kPlaces[p];
      }
    }
  });
  std::vector<int64_t> total(kCounts);
  for (const Counts& sum : counts) {
    for (size_t i = 0; i < kCounts; ++i) total[i] += sum[i];
  }
  return total;
}

std::optional<double> PrecisionAt(std::span<const int64_t> counts, size_t i) {
  if (counts.empty()) return std::nullopt;
  const auto hits = counts.subspan(2 * kBins + 2 * i, 2);
  if (hits[1] == 0) return std::nullopt;
  return static_cast<double>(hits[0]) / static_cast<double>(hits[1]);
}

void Vector(const sparse::Compute& compute, const LossVector& vector,
            Loss::Mode mode, float scale, SampleLoss* samples) {
  const auto outputs = static_cast<double>(vector.outputs);
  const auto factor = static_cast<float>(double{scale} / outputs);
  double losses[kVectorLanes] = {};
  int64_t right[kVectorLanes] = {};
  TargetWalk walk(vector);
  for (int64_t c = 0; c < vector.outputs; ++c) {
    float* z = vector.output + c * vector.stride;
    float targets[kVectorLanes];
    walk.Next(targets);
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
      const float target = targets[l];
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
    std::vector<Metric> metrics = {{"auc", AreaUnderCurve(sums.counts)}};
    for (size_t i = 0; i < std::size(kPlaces); ++i) {
      metrics.push_back({kPlaceNames[i], PrecisionAt(sums.counts, i)});
    }
    return metrics;
  }

  LossSums Compute(const sparse::Compute& compute, const Panel& output,
                   const Targets& targets, Mode mode,
                   float scale) const override {
    std::vector<int64_t> hits;
    if (mode == kSumsOnly) hits = CountHits(compute, output, targets);
    LossSums sums =
        SumLossVectors(compute, output, targets, std::size(kMetrics),
                       [&](const LossVector& vector, SampleLoss* samples) {
                         Vector(compute, vector, mode, scale, samples);
                       });
    if (mode == kSumsOnly) {
      sums.counts = CountBins(output, targets);
      sums.counts.insert(sums.counts.end(), hits.begin(), hits.end());
    }
    return sums;
  }
};

}  // namespace

const LossRow kSigmoidBceRow = {
    "sigmoid_bce",
    {},
    "a yes or no per output, the mean over samples of the mean over outputs; "
    "targets are the values of the data, in 0 .. 1, or 1 for the class and 0 "
    "for the others (with one output: the label, 0 or 1); with several labels "
    "per sample, 1 for each of these",
    LossRow::kLabelsValuesOrSets,
    [](const Json& /*spec*/, int64_t /*classes*/) -> std::unique_ptr<Loss> {
      return std::make_unique<SigmoidBce>();
    }};

}  // namespace lumen::nn
