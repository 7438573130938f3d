// SPDX-License-Identifier: Apache-2.0
// Rows of a map as a product computes them.
#pragma once

#include <cstdint>
#include <vector>

#include "lumen/sparse/pattern.h"

namespace lumen::nn {

// Outputs that one call of a kernel computes; offsets in vectors.
struct Line {
  int64_t x = 0;
  int64_t y = 0;
  sparse::Run run;
};

// Lines cut into strips, for rows that are computed in parts.
inline std::vector<Line> Strips(const std::vector<Line>& lines) {
  constexpr int64_t kMost = sparse::KernelRows::kStrip;
  std::vector<Line> strips;
  for (const Line& line : lines) {
    const int64_t all = line.run.vectors;
    const int64_t count = (all + kMost - 1) / kMost;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t begin = all * i / count;
      Line strip = line;
      strip.x += begin * line.run.x_step;
      strip.y += begin * line.run.y_step;
      strip.run.vectors = all * (i + 1) / count - begin;
      strips.push_back(strip);
    }
  }
  return strips;
}

}  // namespace lumen::nn
