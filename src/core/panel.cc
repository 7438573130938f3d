// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/panel.h"

namespace lumen {

std::string Shape::ToString() const {
  std::string text = std::to_string(channels);
  if (depth > 1) text += "x" + std::to_string(depth);
  if (depth > 1 || height > 1 || width > 1) {
    text += "x" + std::to_string(height) + "x" + std::to_string(width);
  }
  return text;
}

LaneLayout LaneLayout::For(int64_t samples, int64_t max_lanes) {
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
                      : static_cast<double>(samples) /
                            static_cast<double>(total_lanes());
}

}  // namespace lumen
