// SPDX-License-Identifier: Apache-2.0
// Sparse text that nobody described: where ids begin, how many there are.
#pragma once

#include <optional>
#include <string>

#include "lumen/data/dataset.h"

namespace lumen::data {

// DatasetReader::discover of both formats. Read all files once.
std::optional<Discovery> DiscoverSvmlight(const std::string& path);
std::optional<Discovery> DiscoverXmc(const std::string& path);

}  // namespace lumen::data
