// SPDX-License-Identifier: Apache-2.0
// The table of presets: well-known networks as a list of layers.
#include "presets.h"

#include <glog/logging.h>

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

Json Mlp(const Json& spec, const Shape& input, int64_t classes) {
  LayerList layers;
  if (input.elements() != input.channels) layers.Add("flatten", "flatten");
  int index = 1;
  for (const Json& units : spec.at("units").items()) {
    const std::string number = std::to_string(index++);
    layers.AddLinear("fc" + number, units.integer());
    layers.Add("relu" + number, "relu");
    if (spec.at("dropout").number() > 0) {
      layers.AddDropout("dropout" + number, spec.at("dropout"));
    }
  }
  layers.AddLinear("fc" + std::to_string(index), classes);
  return layers.Take();
}

// LeCun et al. 1998 with ReLU and max pooling.
Json Lenet(const Json&, const Shape&, int64_t classes) {
  LayerList layers;
  layers.AddConv("conv1", "input", 6, 5, 1);
  layers.Add("relu1", "relu");
  layers.AddMaxPool("pool1", 2, 2, 0);
  layers.AddConv("conv2", "pool1", 16, 5, 1);
  layers.Add("relu2", "relu");
  layers.AddMaxPool("pool2", 2, 2, 0);
  layers.Add("flatten", "flatten");
  layers.AddLinear("fc1", 120);
  layers.Add("relu3", "relu");
  layers.AddLinear("fc2", 84);
  layers.Add("relu4", "relu");
  layers.AddLinear("fc3", classes);
  return layers.Take();
}

const PresetRow* const kPresets[] = {&kMlpRow, &kLenetRow, &kResnetRow,
                                     &kWrnRow};

Json Numbers(int64_t number) {
  Json numbers = Json::Array();
  numbers.Append(number);
  return numbers;
}

}  // namespace

const PresetRow kMlpRow = {
    "mlp", kMlpKeys, "fully connected layers fc1, fc2, ... with ReLU", Mlp};
const PresetRow kLenetRow = {
    "lenet", {}, "two convolutions and three fully connected layers", Lenet};

void LayerList::AddLinear(const std::string& name, int64_t units) {
  Json layer = OfType("linear");
  layer.Set("units", units);
  Add(name, std::move(layer));
}

void LayerList::AddDropout(const std::string& name, const Json& rate) {
  Json layer = OfType("dropout");
  layer.Set("rate", rate);
  Add(name, std::move(layer));
}

void LayerList::AddConv(const std::string& name, const std::string& from,
                        int64_t channels, int64_t window, int64_t stride) {
  Json layer = OfType("conv2d");
  Json source = Json::Array();
  source.Append(from);
  layer.Set("from", std::move(source));
  layer.Set("channels", channels);
  layer.Set("window", Numbers(window));
  layer.Set("stride", Numbers(stride));
  layer.Set("padding", Numbers(window / 2));
  Add(name, std::move(layer));
}

void LayerList::AddMaxPool(const std::string& name, int64_t window,
                           int64_t stride, int64_t padding) {
  Json layer = OfType("max_pool");
  layer.Set("window", Numbers(window));
  layer.Set("stride", Numbers(stride));
  layer.Set("padding", Numbers(padding));
  Add(name, std::move(layer));
}

void LayerList::AddSum(const std::string& name, const std::string& a,
                       const std::string& b) {
  Json layer = OfType("add");
  Json source = Json::Array();
  source.Append(a);
  source.Append(b);
  layer.Set("from", std::move(source));
  Add(name, std::move(layer));
}

std::vector<Variant> PresetVariants() {
  std::vector<Variant> variants;
  for (const PresetRow* row : kPresets) {
    variants.push_back({row->type, row->keys, row->help});
  }
  return variants;
}

Json ExpandPreset(const Json& preset, const Shape& input, int64_t classes) {
  for (const PresetRow* row : kPresets) {
    if (row->type != preset.at("type").text()) continue;
    Json layers = row->expand(preset, input, classes);
    layers.set_source_like(preset);
    return layers;
  }
  LOG(FATAL) << "preset passed the schema";
  return {};
}

}  // namespace lumen::nn
