// SPDX-License-Identifier: Apache-2.0
// The table of optimizers: a new one is a file and a line here.
#include "lumen/train/optimizer.h"

#include <glog/logging.h>

#include "optimizer_rows.h"

namespace lumen::train {
namespace {

const OptimizerRow* const kRows[] = {&kSgdRow, &kAdamRow, &kAdamWRow};

const OptimizerRow& Find(const Json& spec) {
  const std::string& type = spec.at("type").text();
  for (const OptimizerRow* row : kRows) {
    if (row->type == type) return *row;
  }
  LOG(FATAL) << "optimizer " << type << " passed the schema";
  return kSgdRow;
}

}  // namespace

std::span<const OptimizerRow> Optimizers() {
  static const std::vector<OptimizerRow> table = [] {
    std::vector<OptimizerRow> rows;
    for (const OptimizerRow* row : kRows) rows.push_back(*row);
    return rows;
  }();
  return table;
}

std::vector<Variant> OptimizerVariants() {
  std::vector<Variant> variants;
  for (const OptimizerRow& row : Optimizers()) {
    variants.push_back({row.type, row.keys, row.help});
  }
  return variants;
}

std::unique_ptr<Optimizer> NewOptimizer(const Json& spec,
                                        const nn::ParameterSet& parameters) {
  return Find(spec).create(spec, parameters);
}

int64_t OptimizerStateFloats(const Json& spec) {
  return Find(spec).state_floats(spec);
}

}  // namespace lumen::train
