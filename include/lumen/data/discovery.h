// SPDX-License-Identifier: Apache-2.0
// What lies at a path: which reader takes it, and what its samples are like.
// For lumen new; training needs none of this.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lumen/data/dataset.h"

namespace lumen::data {

// Asks every reader of the table. Throws IoError when none or more than one
// takes the path, or when what is there is damaged.
Discovery DiscoverDataset(const std::string& path);

// One channel over the samples looked at.
struct ChannelStatistics {
  double mean = 0;
  double deviation = 0;
};

struct Survey {
  SampleKind kind = SampleKind::kDense;
  DatasetInfo info;
  int64_t looked_at = 0;  // training samples that were read
  // Those that cannot be read, and what the first error says. Readers that
  // check a whole file throw it when they open.
  int64_t bad = 0;
  std::string first_bad;
  std::vector<ChannelStatistics> channels;  // of dense samples
  // Samples looked at of each class; empty with targets and sets of labels.
  std::vector<int64_t> per_class;
  bool targets_are_binary = false;  // all of them 0 or 1
  ChannelStatistics targets;        // over all targets
};

// `data` is an unresolved "data" object. Reads at most `most` training samples,
// evenly spread. Throws IoError, SpecError.
Survey SurveyDataset(const Json& data, int64_t most);

}  // namespace lumen::data
