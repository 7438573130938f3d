// SPDX-License-Identifier: Apache-2.0
// Selection of the largest entries.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lumen/core/schema.h"

namespace lumen::comm {

// max(1, round(density * n)) for n > 0, at most n.
int64_t KeptEntries(double density, int64_t n);

// Positions of exactly k entries of largest magnitude, ascending; ties at the
// threshold go to the lowest index. Compares the bits of |x|, so NaN sorts
// above infinity and nothing depends on the FPU. `threshold_hint` (0: none) is
// only a speed hint and is replaced by the threshold found; it never changes
// the result. Cost: one pass with a good hint, two or three without.
void SelectLargest(std::span<const float> x, int64_t k, float* threshold_hint,
                   std::vector<int32_t>* position);

}  // namespace lumen::comm
