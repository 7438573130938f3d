// SPDX-License-Identifier: Apache-2.0
// The table of presets: well-known networks as a list of layers.
#include <glog/logging.h>

#include "lumen/nn/model.h"

namespace lumen::nn {
namespace {

constexpr Key kMlpKeys[] = {
    {.name = "units",
     .kind = KeyKind::kIntegers,
     .help = "outputs of each hidden layer",
     .minimum = 1},
    {.name = "dropout",
     .kind = KeyKind::kNumber,
     .fallback = "0",
     .help = "rate after each hidden layer",
     .minimum = 0,
     .maximum = 0.999},
};

Json NewLayer(const char* type) {
  Json layer = Json::Object();
  layer.Set("type", type);
  return layer;
}

Json NewLinear(int index, int64_t units) {
  Json layer = NewLayer("linear");
  layer.Set("name", "fc" + std::to_string(index));
  layer.Set("units", units);
  return layer;
}

Json Mlp(const Json& spec, const Shape& input, int64_t classes) {
  Json layers = Json::Array();
  if (input.elements() != input.channels) layers.Append(NewLayer("flatten"));
  int index = 1;
  for (const Json& units : spec.at("units").items()) {
    layers.Append(NewLinear(index++, units.integer()));
    layers.Append(NewLayer("relu"));
    if (spec.at("dropout").number() > 0) {
      Json dropout = NewLayer("dropout");
      dropout.Set("rate", spec.at("dropout"));
      layers.Append(std::move(dropout));
    }
  }
  layers.Append(NewLinear(index, classes));
  return layers;
}

struct PresetRow {
  std::string_view type;
  std::span<const Key> keys;
  std::string_view help;
  Json (*expand)(const Json& spec, const Shape& input, int64_t classes);
};

constexpr PresetRow kPresets[] = {
    {"mlp", kMlpKeys, "fully connected layers fc1, fc2, ... with ReLU", Mlp},
};

}  // namespace

std::vector<Variant> PresetVariants() {
  std::vector<Variant> variants;
  for (const PresetRow& row : kPresets) {
    variants.push_back({row.type, row.keys, row.help});
  }
  return variants;
}

Json ExpandPreset(const Json& preset, const Shape& input, int64_t classes) {
  for (const PresetRow& row : kPresets) {
    if (row.type != preset.at("type").text()) continue;
    Json layers = row.expand(preset, input, classes);
    layers.set_source_like(preset);
    return layers;
  }
  LOG(FATAL) << "preset passed the schema";
  return {};
}

}  // namespace lumen::nn
