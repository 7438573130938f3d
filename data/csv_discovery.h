// SPDX-License-Identifier: Apache-2.0
// What a table holds, for lumen new.
#pragma once

#include <optional>
#include <string>

#include "lumen/data/dataset.h"

namespace lumen::data {

// DatasetReader::discover of csv: a table, or a folder of nothing but tables of
// one data set. Reads the training file once. Columns are told by their cells,
// the target and the group by their names, else the target is the last column.
std::optional<Discovery> DiscoverCsv(const std::string& path);

}  // namespace lumen::data
