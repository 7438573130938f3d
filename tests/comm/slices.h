// SPDX-License-Identifier: Apache-2.0
// Random slices for codec tests, a pure function of their seed.
#pragma once

#include <algorithm>
#include <cmath>

#include "lumen/comm/codec.h"
#include "lumen/core/philox.h"

namespace lumen::comm {

// Each position present with probability `density`; nonzero values.
inline SparseSlice UniformSlice(uint32_t seed, int64_t length, double density) {
  SparseSlice slice;
  slice.length = length;
  const auto threshold = static_cast<uint32_t>(density * 4294967295.0);
  for (int64_t i = 0; i < length; ++i) {
    const auto draw = Philox({static_cast<uint32_t>(i), seed, 1, 0}, {3, 4});
    if (draw[0] > threshold) continue;
    slice.position.push_back(static_cast<int32_t>(i));
    const float sign = draw[1] & 1 ? -1.0f : 1.0f;
    slice.value.push_back(sign * (UnitFloat(draw[2]) + 0x1p-24f) *
                          std::ldexp(1.0f, static_cast<int>(draw[3] % 6) - 3));
  }
  return slice;
}

// All kinds of lengths and densities, with clusters.
inline SparseSlice RandomSlice(uint32_t seed) {
  const auto draw = Philox({seed, 5, 5, 5}, {6, 7});
  const int64_t length = 1 + draw[0] % (draw[1] % 2 ? 40 : 5000);
  SparseSlice slice = UniformSlice(
      seed, length, std::ldexp(1.0, -static_cast<int>(draw[2] % 9)));
  if (draw[3] % 3 == 0 && slice.position.size() > 1) {  // pull together
    const auto start = slice.position.front();
    for (size_t i = 0; i + 1 < slice.position.size(); ++i) {
      slice.position[i] = start + static_cast<int32_t>(i);
    }
  }
  return slice;
}

}  // namespace lumen::comm
