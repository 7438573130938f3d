// SPDX-License-Identifier: Apache-2.0
// Resolved "data" objects and IDX files for tests.
#pragma once

#include <string>
#include <vector>

#include "lumen/core/json.h"
#include "lumen/core/schema.h"
#include "lumen/data/dataset.h"

namespace lumen::data {

// `text` is the data object; it stands on line 1 of test.json.
inline Json DataSpec(const std::string& text) {
  const Key keys[] = {{.name = "data",
                       .kind = KeyKind::kVariant,
                       .help = "The data set.",
                       .variants = DatasetVariants,
                       .common = kCommonDataKeys}};
  return Resolve(Json::Parse("{\"data\": " + text + "}", "test.json"), keys)
      .at("data");
}

inline std::string Idx(const std::vector<int64_t>& sizes,
                       const std::string& values, char type = 8) {
  std::string bytes = {'\0', '\0', type, static_cast<char>(sizes.size())};
  for (const int64_t size : sizes) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes += static_cast<char>(size >> shift & 0xff);
    }
  }
  return bytes + values;
}

}  // namespace lumen::data
