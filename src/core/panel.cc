// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/panel.h"

#include <fmt/format.h>
#include <glog/logging.h>

namespace lumen {

std::string Shape::ToString() const {
  if (depth > 1) {
    return fmt::format("{}x{}x{}x{}", channels, depth, height, width);
  }
  if (height > 1 || width > 1) {
    return fmt::format("{}x{}x{}", channels, height, width);
  }
  return fmt::format("{}", channels);
}

LaneLayout LaneLayout::For(int64_t samples, int64_t max_lanes) {
  CHECK_GE(samples, 0);
  CHECK(max_lanes > 0 && max_lanes % kVectorLanes == 0) << max_lanes;
  LaneLayout layout;
  layout.samples = samples;
  if (samples == 0) {
    layout.lanes = kVectorLanes;
    return layout;
  }
  layout.tiles = (samples + max_lanes - 1) / max_lanes;
  const int64_t share = (samples + layout.tiles - 1) / layout.tiles;
  layout.lanes = (share + kVectorLanes - 1) / kVectorLanes * kVectorLanes;
  return layout;
}

double LaneLayout::lane_use() const {
  return samples == 0 ? 0.0
                      : static_cast<double>(samples * strips) /
                            static_cast<double>(total_lanes());
}

}  // namespace lumen
