// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "lumen/core/error.h"
#include "lumen/data/dataset.h"

namespace lumen::data {

std::vector<float> ClassWeights(const Json& spec, const Dataset& train) {
  const Json& given = spec.at("class_weights");
  const Json& values = given.at("values");
  const bool balanced = given.at("rule").text() == "balanced";
  if (values.is_null() && !balanced) return {};
  const auto fail = [&](const std::string& problem) {
    const std::string where = given.where();
    throw SpecError(fmt::format("{}{}data.class_weights: {}", where,
                                where.empty() ? "" : ": ", problem));
  };
  const int64_t classes = train.classes();
  if (train.targets() > 0) fail("given for real targets; expected classes");
  if (train.has_label_sets()) {
    fail("given for sets of labels; expected one class per sample");
  }
  std::vector<float> weights(classes);
  if (balanced) {
    if (!values.is_null()) fail("a rule and values; expected one of the two");
    std::vector<int64_t> counts(classes);
    for (int64_t i = 0; i < train.size(); ++i) ++counts[train.Label(i)];
    for (int64_t c = 0; c < classes; ++c) {
      if (counts[c] == 0) continue;  // no sample asks for its weight
      weights[c] = static_cast<float>(
          static_cast<double>(train.size()) /
          (static_cast<double>(classes) * static_cast<double>(counts[c])));
    }
    return weights;
  }
  if (static_cast<int64_t>(values.items().size()) != classes) {
    fail(fmt::format("{} values; expected {}, one per class",
                     values.items().size(), classes));
  }
  for (int64_t c = 0; c < classes; ++c) {
    weights[c] = static_cast<float>(values.items()[c].number());
  }
  return weights;
}

}  // namespace lumen::data
