// SPDX-License-Identifier: Apache-2.0
// The table of losses: a new one is a file and a line here.
#include "lumen/nn/loss.h"

#include <glog/logging.h>

#include "layers.h"

namespace lumen::nn {
namespace {

const LossRow* const kRows[] = {&kSoftmaxCrossEntropyRow};

}  // namespace

void LossSums::Add(const LossSums& other) {
  samples += other.samples;
  loss += other.loss;
  if (metrics.size() < other.metrics.size()) {
    metrics.resize(other.metrics.size(), 0.0);
  }
  for (size_t m = 0; m < other.metrics.size(); ++m) {
    metrics[m] += other.metrics[m];
  }
}

std::span<const LossRow> LossTable() {
  static const std::vector<LossRow> table = [] {
    std::vector<LossRow> rows;
    for (const LossRow* row : kRows) rows.push_back(*row);
    return rows;
  }();
  return table;
}

std::vector<Variant> LossVariants() {
  std::vector<Variant> variants;
  for (const LossRow& row : LossTable()) {
    variants.push_back({row.type, row.keys, row.help});
  }
  return variants;
}

std::unique_ptr<Loss> NewLoss(const Json& spec, int64_t classes) {
  for (const LossRow& row : LossTable()) {
    if (row.type == spec.at("type").text()) return row.create(spec, classes);
  }
  LOG(FATAL) << "loss passed the schema";
  return nullptr;
}

}  // namespace lumen::nn
