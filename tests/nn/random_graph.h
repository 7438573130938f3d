// SPDX-License-Identifier: Apache-2.0
// Random networks with branches, for the tests of memory.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "lumen/core/panel.h"

namespace lumen::nn {

inline constexpr Shape kRandomGraphInput = {
    .channels = 2, .height = 3, .width = 3};
inline constexpr int64_t kRandomGraphClasses = 18;

// Builds a "layers" list whose maps have the shape of the input and whose
// features are as many as its elements, so that any two of a kind can be added.
class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed) {}

  std::string Layers(int count) {
    for (int i = 0; i < count; ++i) AddAny();
    Join();
    if (Draw(2) == 0 || last_needs_scores_) {
      Add("linear", R"(, "units": 18)", {Last()}, kFeatures);
    }
    return "[" + text_ + "]";
  }

 private:
  enum Kind { kMap, kFeatures };
  struct Source {
    std::string name;
    Kind kind;
    bool used = false;
    bool hidden = false;  // of another shape
  };

  size_t Draw(size_t n) { return random_() % n; }
  size_t Last() const { return sources_.size() - 1; }

  void AddAny() {
    const size_t a = Pick();
    if (sources_[a].kind == kMap) {
      const std::string same = R"(, "window": [3], "padding": [1])";
      const std::string pool = same + R"(, "stride": [1])";
      switch (Draw(10)) {
        case 0:
        case 1:
          return Add("conv2d", R"(, "channels": 2)" + same, {a}, kMap);
        case 2:
          return Add("batch_norm", "", {a}, kMap);
        case 3:
          return Add("group_norm", R"(, "groups": 2)", {a}, kMap);
        case 4:
          return Add("max_pool", pool, {a}, kMap);
        case 5:
          return Add("avg_pool", pool, {a}, kMap);
        case 6:
          return Add("flatten", "", {a}, kFeatures);
        default:
          break;
      }
    } else if (Draw(3) == 0) {
      return Add("linear", R"(, "units": 18)", {a}, kFeatures);
    }
    switch (Draw(4)) {
      case 0:
        return Add("relu", "", {a}, sources_[a].kind);
      case 1:
        return Add("dropout", R"(, "rate": 0.3)", {a}, sources_[a].kind);
      default:
        for (int tries = 0; tries < 5; ++tries) {
          const size_t b = Pick();
          if (b == a || sources_[b].kind != sources_[a].kind) continue;
          return Draw(3) == 0 ? AddConcat(a, b)
                              : Add("add", "", {a, b}, sources_[a].kind);
        }
    }
  }

  // Both, and a layer that takes them back to the common shape.
  void AddConcat(size_t a, size_t b) {
    const Kind kind = sources_[a].kind;
    Add("concat", "", {a, b}, kind);
    if (kind == kMap) {
      Add("conv2d", R"(, "channels": 2, "window": [1])", {Last()}, kMap);
    } else {
      Add("linear", R"(, "units": 18)", {Last()}, kFeatures);
    }
    sources_[Last() - 1].hidden = true;
  }

  // Mostly one of the latest.
  size_t Pick() {
    const size_t n = sources_.size();
    const size_t at =
        Draw(3) == 0 ? Draw(n) : n - 1 - Draw(std::min<size_t>(n, 3));
    return sources_[at].hidden ? at + 1 : at;
  }

  // Nothing may stay unread, and the end is a list of features.
  void Join() {
    size_t end = Last();
    for (size_t i = sources_.size(); i-- > 0;) {
      if (sources_[i].used || i == 0) continue;
      size_t source = i;
      if (sources_[i].kind == kMap) {
        Add("flatten", "", {i}, kFeatures);
        source = Last();
      }
      if (sources_[end].kind == kFeatures && end != source) {
        Add("add", "", {source, end}, kFeatures);
        source = Last();
      }
      end = source;
    }
    if (sources_[end].kind == kMap) Add("flatten", "", {end}, kFeatures);
  }

  void Add(const std::string& type, const std::string& keys,
           const std::vector<size_t>& from, Kind kind) {
    const std::string name = "n" + std::to_string(sources_.size());
    std::string names;
    for (size_t source : from) {
      names += (names.empty() ? "\"" : ", \"") + sources_[source].name + "\"";
      sources_[source].used = true;
    }
    text_ += std::string(text_.empty() ? "" : ",\n") + R"({"type": ")" + type +
             R"(", "name": ")" + name + R"(", "from": [)" + names + "]" + keys +
             "}";
    sources_.push_back({name, kind});
    last_needs_scores_ = type == "relu";
  }

  std::mt19937 random_;
  std::vector<Source> sources_ = {{"input", kMap}};
  std::string text_;
  bool last_needs_scores_ = false;  // may not be the last layer
};

inline std::string RandomLayers(uint32_t seed) {
  return RandomGraph(seed).Layers(static_cast<int>(2 + seed % 13));
}

}  // namespace lumen::nn
