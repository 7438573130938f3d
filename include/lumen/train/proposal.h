// SPDX-License-Identifier: Apache-2.0
// A first spec for data that nobody described yet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lumen/core/json.h"
#include "lumen/data/discovery.h"
#include "lumen/train/plan.h"

namespace lumen::train {

struct Proposal {
  std::string text;     // a spec with comments, ready for train
  std::string network;  // "a residual network for small images"
  Plan plan;            // of one rank
};

// The largest network of the kind that suits the data (proposal_networks.cc)
// whose plan fits into `memory_bytes`. Equal data and memory give equal specs.
// `data` is the "data" object; `comments` go before it, a line each; `source`
// names the spec in errors. Throws SpecError when nothing fits.
Proposal ProposeSpec(const Json& data, const data::Survey& survey,
                     int64_t memory_bytes,
                     const std::vector<std::string>& comments,
                     const std::string& source);

}  // namespace lumen::train
