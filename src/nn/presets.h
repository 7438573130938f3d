// SPDX-License-Identifier: Apache-2.0
// The rows of the preset table, and how a preset writes layers.
#pragma once

#include <string>

#include "lumen/nn/model.h"

namespace lumen::nn {

// `expand` gives the layers list that the preset stands for.
struct PresetRow {
  std::string_view type;
  std::span<const Key> keys;
  std::string_view help;
  Json (*expand)(const Json& spec, const Shape& input, int64_t classes);
};

extern const PresetRow kMlpRow;
extern const PresetRow kLenetRow;
extern const PresetRow kResnetRow;
extern const PresetRow kWrnRow;

// Layers one after the other; each reads the one before, or `from`.
class LayerList {
 public:
  LayerList() : layers_(Json::Array()) {}
  Json Take() { return std::move(layers_); }
  // Name of the newest layer; "input" at first.
  const std::string& last() const { return last_; }

  void Add(const std::string& name, Json layer) {
    layer.Set("name", name);
    layers_.Append(std::move(layer));
    last_ = name;
  }
  void Add(const std::string& name, const char* type) {
    Add(name, OfType(type));
  }
  void AddLinear(const std::string& name, int64_t units);
  void AddDropout(const std::string& name, const Json& rate);
  // A square window with the padding that keeps the size at stride 1.
  void AddConv(const std::string& name, const std::string& from,
               int64_t channels, int64_t window, int64_t stride);
  void AddMaxPool(const std::string& name, int64_t window, int64_t stride,
                  int64_t padding);
  void AddSum(const std::string& name, const std::string& a,
              const std::string& b);

  static Json OfType(const char* type) {
    Json layer = Json::Object();
    layer.Set("type", type);
    return layer;
  }

 private:
  Json layers_;
  std::string last_ = "input";
};

}  // namespace lumen::nn
