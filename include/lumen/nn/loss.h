// SPDX-License-Identifier: Apache-2.0
// Losses and metrics, and their tables.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lumen/core/json.h"
#include "lumen/core/panel.h"
#include "lumen/core/schema.h"
#include "lumen/core/sparse_rows.h"
#include "lumen/sparse/compute.h"

namespace lumen::nn {

// Sums over the valid samples of a shard; divide by `samples` for the mean.
struct LossSums {
  int64_t samples = 0;
  double loss = 0;
  std::vector<double> metrics;  // in the order of Loss::metric_names()
  // What a loss counts for Loss::CountMetrics, in evaluations only.
  std::vector<int64_t> counts;

  // Metrics and counts are sized on first use.
  void Add(const LossSums& other);
};

// What the outputs are compared with.
struct Targets {
  // Class of each sample. A negative label masks the lane, also beside values.
  std::span<const int32_t> labels;
  // A number per output, in the layout of the outputs; without data the labels
  // are the targets.
  Panel values = {};
  // The labels of each sample, where it has any number of them: the targets are
  // 1 for these and 0 for the others.
  LabelSets sets = {};
  // A factor of loss and gradient per class; empty: 1. Without sets.
  std::span<const float> class_weights = {};
};

struct Metric {
  std::string_view name;
  std::optional<double> value;
};

// Deterministic: probabilities and gradients in fp32, the loss of a sample in
// double, summed in the order of the samples. Lanes whose label is negative, or
// that have none, are masked: they add nothing and get zero gradient.
class Loss {
 public:
  virtual ~Loss() = default;
  virtual std::span<const std::string_view> metric_names() const = 0;
  // Metrics that are no means over samples, from `sums.counts`; without a value
  // where there is none.
  virtual std::vector<Metric> CountMetrics(const LossSums& sums) const;
  enum Mode { kSumsOnly, kWithGradient };
  // Reads the outputs and overwrites them: with d(sum of losses) * scale for
  // kWithGradient, else with the scores of the samples: the probabilities of
  // the classes or outputs, or the values themselves. REQUIRES: labels below
  // the number of classes; no values and no sets where the row of the loss
  // takes none.
  virtual LossSums Compute(const sparse::Compute& compute, const Panel& output,
                           const Targets& targets, Mode mode,
                           float scale) const = 0;
};

struct LossRow {
  std::string_view type;
  std::span<const Key> keys;
  std::string_view help;
  enum Accepts { kLabels, kLabelsOrValues, kLabelsValuesOrSets } accepts;
  std::unique_ptr<Loss> (*create)(const Json& spec, int64_t classes);
};
std::span<const LossRow> LossTable();
std::vector<Variant> LossVariants();
bool TakesValues(const Json& spec);  // of the data, as targets
bool TakesSets(const Json& spec);    // of labels
std::unique_ptr<Loss> NewLoss(const Json& spec, int64_t classes);

}  // namespace lumen::nn
