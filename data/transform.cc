// SPDX-License-Identifier: Apache-2.0
// What the data object of a spec says about batches.
#include <fmt/format.h>

#include "lumen/core/error.h"
#include "lumen/data/loader.h"

namespace lumen::data {
namespace {

std::vector<float> PerChannel(const Json& values, std::string_view key,
                              int64_t channels) {
  const auto given = static_cast<int64_t>(values.items().size());
  if (given != 1 && given != channels) {
    throw SpecError(fmt::format(
        "{}{}data.normalize.{}: found {} values; expected 1 or {}, one per "
        "channel",
        values.where(), values.where().empty() ? "" : ": ", key, given,
        channels));
  }
  std::vector<float> result(channels);
  for (int64_t c = 0; c < channels; ++c) {
    result[c] = static_cast<float>(values.items()[given == 1 ? 0 : c].number());
  }
  return result;
}

}  // namespace

Order DataOrder(const Json& data_spec) {
  return data_spec.at("order").text() == "file" ? Order::kFile
                                                : Order::kShuffle;
}

Transform NewTransform(const Json& data_spec, const Shape& shape) {
  const BadSample on_bad_sample = data_spec.at("on_bad_sample").text() == "skip"
                                      ? BadSample::kSkip
                                      : BadSample::kError;
  const Json* normalize = data_spec.Find("normalize");
  if (normalize == nullptr || normalize->is_null()) {
    return {.on_bad_sample = on_bad_sample};
  }
  const Json& deviation = normalize->at("std");
  Transform transform{PerChannel(normalize->at("mean"), "mean", shape.channels),
                      PerChannel(deviation, "std", shape.channels),
                      {},
                      on_bad_sample};
  for (const float value : transform.deviation) {
    if (value > 0) continue;
    throw SpecError(fmt::format(
        "{}{}data.normalize.std: {}; expected values above 0",
        deviation.where(), deviation.where().empty() ? "" : ": ", value));
  }
  return transform;
}

Transform NewTrainingTransform(const Json& data_spec, const Shape& shape,
                               uint64_t seed) {
  Transform transform = NewTransform(data_spec, shape);
  transform.augmentations =
      NewAugmentations(data_spec, shape, transform.mean, seed);
  return transform;
}

}  // namespace lumen::data
