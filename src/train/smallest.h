// SPDX-License-Identifier: Apache-2.0
// Which weights of a tensor are the least.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace lumen::train {

// Entries of the `count` smallest magnitudes, ties to the first; ascending.
inline std::vector<int64_t> SmallestEntries(std::span<const float> values,
                                            int64_t count) {
  std::vector<int64_t> entries(values.size());
  std::iota(entries.begin(), entries.end(), int64_t{0});
  const auto smaller = [&](int64_t a, int64_t b) {
    const float x = std::abs(values[static_cast<size_t>(a)]);
    const float y = std::abs(values[static_cast<size_t>(b)]);
    return x != y ? x < y : a < b;
  };
  std::nth_element(entries.begin(), entries.begin() + count, entries.end(),
                   smaller);
  entries.resize(static_cast<size_t>(count));
  std::sort(entries.begin(), entries.end());
  return entries;
}

}  // namespace lumen::train
