// SPDX-License-Identifier: Apache-2.0
// Which lanes are summed together in gradients of parameters.
#pragma once

#include <glog/logging.h>

#include <algorithm>
#include <cstdint>

#include "lumen/core/panel.h"
#include "lumen/sparse/kernels.h"

namespace lumen::nn {

// The canonical order of additions over samples: units of up to 128 lanes, a
// function of the number of samples alone, whatever the width of tiles. Hence
// the same sums with tiles of 16 lanes as with tiles of a whole unit.
class ReductionUnits {
 public:
  // REQUIRES: tiles of 16 lanes, or those of LaneLayout::For(samples).
  explicit ReductionUnits(LaneLayout layout)
      : layout_(layout), unit_(LaneLayout::For(layout.samples)) {
    CHECK(layout.lanes == kVectorLanes || layout == unit_)
        << layout.lanes << " lanes for " << layout.samples << " samples";
  }

  int64_t count() const { return unit_.tiles; }
  // Vectors of 16 lanes in a unit; those without any sample are left out.
  int64_t groups(int64_t unit) const {
    const int64_t all = (layout_.samples + kVectorLanes - 1) / kVectorLanes;
    return std::min(groups(), all - unit * groups());
  }
  sparse::Segment Segment(const Panel& x, const Panel& dy, int64_t unit) const {
    const int64_t tile = layout_ == unit_ ? unit : unit * groups();
    return {.x = x.tile(tile), .dy = dy.tile(tile), .vectors = groups(unit)};
  }
  // Of one segment, which outlives it.
  sparse::Unit Unit(const Panel& x, const Panel& dy,
                    const sparse::Segment* segment) const {
    const bool wide = layout_ == unit_;
    return {.segments = segment,
            .count = 1,
            .x_step = wide ? 1 : x.tile_size() / kVectorLanes,
            .dy_step = wide ? 1 : dy.tile_size() / kVectorLanes,
            .dy_row = layout_.lanes / kVectorLanes};
  }

 private:
  int64_t groups() const { return unit_.lanes / kVectorLanes; }

  LaneLayout layout_;
  LaneLayout unit_;
};

}  // namespace lumen::nn
