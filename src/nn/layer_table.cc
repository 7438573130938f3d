// SPDX-License-Identifier: Apache-2.0
// The table of layers: a new one is a file and a line here.
#include <glog/logging.h>

#include "layers.h"
#include "lumen/core/error.h"

namespace lumen::nn {
namespace {

const LayerRow* const kRows[] = {
    &kLinearRow,     &kSparseLinearRow, &kConv2dRow,  &kBatchNormRow,
    &kGroupNormRow,  &kReluRow,         &kMaxPoolRow, &kAvgPoolRow,
    &kGlobalPoolRow, &kAddRow,          &kConcatRow,  &kDropoutRow,
    &kFlattenRow,    &kBlockRow};

constexpr Key kCommonKeys[] = {
    {.name = "name",
     .kind = KeyKind::kText,
     .fallback = "null",
     .help = "prefix of its parameters; default: type and index"},
    {.name = "from",
     .kind = KeyKind::kTexts,
     .fallback = "null",
     .help = "layers it reads, by name, or \"input\"; default: the one before"},
};

}  // namespace

const std::span<const Key> kCommonLayerKeys = kCommonKeys;

sparse::Addressing Layer::addressing(int64_t) const {
  LOG(FATAL) << "a layer without weights";
  return {};
}

void Layer::DenseWeightGradient(const LayerContext&, const Panel&, const Panel&,
                                int64_t, int64_t, float*) const {
  LOG(FATAL) << "a layer without weights";
}

std::span<const LayerRow> LayerTable() {
  static const std::vector<LayerRow> table = [] {
    std::vector<LayerRow> rows;
    for (const LayerRow* row : kRows) rows.push_back(*row);
    return rows;
  }();
  return table;
}

std::vector<Variant> LayerVariants() {
  std::vector<Variant> variants;
  for (const LayerRow& row : LayerTable()) {
    variants.push_back({row.type, row.keys, row.help});
  }
  return variants;
}

const Shape& OnlyInput(const Json& spec, std::span<const Shape> inputs) {
  if (inputs.size() != 1) {
    throw SpecError(spec.where() + ": " + spec.at("type").text() + ": " +
                    std::to_string(inputs.size()) + " inputs; expected one");
  }
  return inputs[0];
}

std::array<int64_t, 2> RowsAndColumns(const Json& spec, const std::string& name,
                                      const char* key) {
  const Json& values = spec.at(key);
  const auto& items = values.items();
  if (items.size() != 1 && items.size() != 2) {
    throw SpecError(values.where() + ": " + spec.at("type").text() + " \"" +
                    name + "\": " + key + " has " +
                    std::to_string(items.size()) +
                    " numbers; expected one, or rows and columns");
  }
  return {items.front().integer(), items.back().integer()};
}

}  // namespace lumen::nn
