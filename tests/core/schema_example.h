// SPDX-License-Identifier: Apache-2.0
// A small schema with every kind of key, for the tests of the schema.
#pragma once

#include <string>
#include <vector>

#include "lumen/core/error.h"
#include "lumen/core/schema.h"

namespace lumen::example {

inline constexpr Key kSgd[] = {
    {.name = "momentum",
     .kind = KeyKind::kNumber,
     .fallback = "0",
     .help = "Share of the last velocity that is kept",
     .minimum = 0,
     .maximum = 1},
    {.name = "nesterov", .kind = KeyKind::kBool, .fallback = "false"},
};
inline constexpr Key kAdam[] = {
    {.name = "betas", .kind = KeyKind::kNumbers, .fallback = "[0.9, 0.999]"},
};
inline std::vector<Variant> Optimizers() {
  return {{.type = "sgd", .keys = kSgd, .help = "Gradient descent."},
          {.type = "adam", .keys = kAdam}};
}

inline constexpr Key kConstant[] = {
    {.name = "base", .kind = KeyKind::kNumber, .minimum = 0},
    {.name = "warmup", .kind = KeyKind::kInterval, .fallback = "0"},
};
inline constexpr Key kCosine[] = {
    {.name = "base", .kind = KeyKind::kNumber, .minimum = 0},
    {.name = "floor", .kind = KeyKind::kNumber, .fallback = "0"},
};
inline std::vector<Variant> Schedules() {
  return {{.type = "constant", .keys = kConstant},
          {.type = "cosine", .keys = kCosine}};
}

std::vector<Variant> Layers();
inline constexpr Key kLayerCommon[] = {
    {.name = "name", .kind = KeyKind::kText, .fallback = "null"},
};
inline constexpr Key kLinear[] = {
    {.name = "units",
     .kind = KeyKind::kInteger,
     .help = "Number of outputs",
     .minimum = 1,
     .maximum = 1000000},
};
inline constexpr Key kResidual[] = {
    {.name = "body",
     .kind = KeyKind::kVariants,
     .fallback = "[]",
     .variants = Layers,
     .common = kLayerCommon,
     .shorthand_key = "type"},
};
inline std::vector<Variant> Layers() {
  return {{.type = "linear", .keys = kLinear},
          {.type = "relu"},
          {.type = "residual", .keys = kResidual}};
}

inline constexpr Key kModel[] = {
    {.name = "layers",
     .kind = KeyKind::kVariants,
     .variants = Layers,
     .common = kLayerCommon,
     .shorthand_key = "type"},
    {.name = "loss",
     .kind = KeyKind::kText,
     .fallback = "\"mse\"",
     .choices = "mse|cross_entropy"},
};
inline constexpr Key kTrain[] = {
    {.name = "seed", .kind = KeyKind::kInteger, .fallback = "1"},
    {.name = "epochs",
     .kind = KeyKind::kNumber,
     .fallback = "null",
     .minimum = 0},
    {.name = "steps", .kind = KeyKind::kInteger, .fallback = "null"},
    {.name = "optimizer",
     .kind = KeyKind::kVariant,
     .fallback = R"({"type": "sgd", "momentum": 0.9})",
     .variants = Optimizers,
     .shorthand_key = "type"},
    {.name = "lr",
     .kind = KeyKind::kVariant,
     .variants = Schedules,
     .shorthand_type = "constant",
     .shorthand_key = "base"},
    {.name = "eval_every",
     .kind = KeyKind::kInterval,
     .fallback = "\"1 epochs\"",
     .mathematical = false},
};
inline constexpr Key kMemory[] = {
    {.name = "limit", .kind = KeyKind::kBytes, .fallback = "null"},
    {.name = "activations",
     .kind = KeyKind::kText,
     .fallback = "\"fp32\"",
     .choices = "fp32|bf16"},
};
inline constexpr Key kData[] = {
    {.name = "files", .kind = KeyKind::kMap, .fallback = "{}"},
    {.name = "crop",
     .kind = KeyKind::kIntegers,
     .fallback = "[]",
     .minimum = 0},
    {.name = "tags",
     .kind = KeyKind::kTexts,
     .fallback = "[]",
     .choices = "a|b"},
};
inline constexpr Key kSpec[] = {
    {.name = "data", .kind = KeyKind::kObject, .fallback = "{}", .keys = kData},
    {.name = "model", .kind = KeyKind::kObject, .keys = kModel},
    {.name = "train", .kind = KeyKind::kObject, .keys = kTrain},
    {.name = "memory",
     .kind = KeyKind::kObject,
     .fallback = "{}",
     .keys = kMemory,
     .mathematical = false},
};

// The shortest legal spec.
inline constexpr char kShortest[] =
    R"({"model": {"layers": []}, "train": {"lr": 0.1}})";

inline Json ResolveText(const std::string& text) {
  return Resolve(Json::Parse(text, "a.json"), kSpec);
}

// What Resolve says of the spec `text`.
inline std::string ErrorOf(const std::string& text) {
  try {
    ResolveText(text);
  } catch (const SpecError& error) {
    return error.what();
  }
  return "no error";
}

// The shortest spec with one override, resolved; or the message.
inline std::string WithOverrides(const std::vector<std::string>& overrides,
                                 const std::string& text = kShortest) {
  try {
    Json spec = Json::Parse(text, "a.json");
    for (const auto& one : overrides) ApplyOverride(&spec, one);
    return Resolve(spec, kSpec).Dump();
  } catch (const SpecError& error) {
    return error.what();
  }
}

}  // namespace lumen::example
