// SPDX-License-Identifier: Apache-2.0
// The table of losses: a new one is a file and a line here.
#include "lumen/nn/loss.h"

#include <glog/logging.h>

#include "layers.h"

namespace lumen::nn {
namespace {

const LossRow* const kRows[] = {&kSoftmaxCrossEntropyRow, &kSigmoidBceRow,
                                &kMseRow};

const LossRow& Find(const Json& spec) {
  const std::string& type = spec.at("type").text();
  for (const LossRow* row : kRows) {
    if (row->type == type) return *row;
  }
  LOG(FATAL) << "loss " << type << " passed the schema";
  return *kRows[0];
}

// to += from, element by element.
template <class T>
void AddTo(const std::vector<T>& from, std::vector<T>* to) {
  if (to->size() < from.size()) to->resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) (*to)[i] += from[i];
}

}  // namespace

void LossSums::Add(const LossSums& other) {
  samples += other.samples;
  loss += other.loss;
  AddTo(other.metrics, &metrics);
  AddTo(other.counts, &counts);
}

std::vector<Metric> Loss::CountMetrics(const LossSums& /*sums*/) const {
  return {};
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

bool TakesValues(const Json& spec) {
  return Find(spec).accepts != LossRow::kLabels;
}

bool TakesSets(const Json& spec) {
  return Find(spec).accepts == LossRow::kLabelsValuesOrSets;
}

std::unique_ptr<Loss> NewLoss(const Json& spec, int64_t classes) {
  return Find(spec).create(spec, classes);
}

}  // namespace lumen::nn
