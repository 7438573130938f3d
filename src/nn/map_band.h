// SPDX-License-Identifier: Apache-2.0
// Rows of a padded map, copied to where a window reads them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "lumen/core/panel.h"
#include "lumen/sparse/compute.h"
#include "lumen/sparse/window.h"

namespace lumen::nn {

// A product over a map goes band by band: rows of outputs whose inputs fit into
// scratch memory near the core. Does not change a bit.
class MapBands {
 public:
  // `rows` outputs at `step` rows of the map apart, each reading `span` rows.
  // Bands hold a multiple of `multiple` rows, where that fits.
  MapBands(const sparse::MapLayout& map, int64_t rows, int64_t step,
           int64_t span, int64_t multiple)
      : map_(map), rows_(rows), step_(step), span_(span), band_(rows) {
    if (!map.copied) return;
    const int64_t fit = kMostFloats / (map.row_pitch * kVectorLanes);
    band_ = std::clamp<int64_t>((fit - span) / step + 1, 1, rows);
    band_ = std::max(band_ / multiple * multiple, std::min(multiple, rows));
  }

  int64_t scratch_floats() const {
    if (!map_.copied) return 0;
    return ((band_ - 1) * step_ + span_) * map_.row_pitch * kVectorLanes;
  }

  // Calls task(source, begin, end) for each band of output rows [begin, end);
  // `source` is where row `begin` starts to read.
  template <class Task>
  void ForEach(const sparse::Compute& compute, const float* tile,
               const Shape& shape, float* scratch, const Task& task) const {
    for (int64_t begin = 0; begin < rows_; begin += band_) {
      const int64_t end = std::min(rows_, begin + band_);
      if (map_.copied) {
        Copy(compute, tile, shape, begin * step_,
             (end - begin - 1) * step_ + span_, scratch);
        task(static_cast<const float*>(scratch), begin, end);
      } else {
        task(tile + begin * step_ * map_.row_pitch * kVectorLanes, begin, end);
      }
    }
  }

 private:
  static constexpr int64_t kMostFloats = int64_t{1} << 20;  // 4 MiB

  // Rows [first, first + rows) of the padded map.
  void Copy(const sparse::Compute& compute, const float* tile,
            const Shape& shape, int64_t first, int64_t rows,
            float* scratch) const {
    const int64_t plane = shape.height * shape.width * kVectorLanes;
    const int64_t left = map_.before[1] * kVectorLanes;
    const int64_t middle =
        std::min(shape.width * kVectorLanes,
                 (map_.extent[1] - map_.before[1]) * kVectorLanes);
    const int64_t right = map_.extent[1] * kVectorLanes - left - middle;
    compute.parallel.For(rows, [&](int64_t i) {
      const int64_t row = first + i - map_.before[0];
      const bool inside = row >= 0 && row < shape.height;
      const float* from = tile + row * shape.width * kVectorLanes;
      float* to = scratch + i * map_.row_pitch * kVectorLanes;
      for (int64_t c = 0; c < shape.channels; ++c) {
        if (inside) {
          std::fill_n(to, left, 0.0f);
          std::memcpy(to + left, from + c * plane,
                      static_cast<size_t>(middle) * sizeof(float));
          std::fill_n(to + left + middle, right, 0.0f);
        } else {
          std::fill_n(to, left + middle + right, 0.0f);
        }
        to += map_.channel_pitch * kVectorLanes;
      }
    });
  }

  sparse::MapLayout map_;
  int64_t rows_;
  int64_t step_;
  int64_t span_;
  int64_t band_;
};

}  // namespace lumen::nn
