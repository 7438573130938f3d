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

// A product over a map goes by pieces of a few rows of outputs, so that what
// was copied for them is still near the core. Rows that the next piece reads as
// well stay in scratch memory; when that is full, copying starts at its front
// again. Does not change a bit.
class MapBands {
 public:
  // `rows` outputs at `step` rows of the map apart, each reading `span` rows.
  // Pieces hold a multiple of `multiple` rows.
  MapBands(const sparse::MapLayout& map, int64_t rows, int64_t step,
           int64_t span, int64_t multiple)
      : map_(map),
        rows_(rows),
        step_(step),
        span_(span),
        multiple_(multiple),
        band_(rows) {
    if (!map.copied) return;
    const int64_t fit = kMostFloats / (map.row_pitch * kVectorLanes);
    band_ = std::clamp<int64_t>((fit - span) / step + 1, 1, rows);
    band_ = std::max(band_ / multiple * multiple, std::min(multiple, rows));
  }

  int64_t scratch_floats() const {
    if (!map_.copied) return 0;
    return ((band_ - 1) * step_ + span_) * map_.row_pitch * kVectorLanes;
  }

  // Columns beside a map of this width, at most as many as it has; so a strip
  // finds them all in its neighbours.
  bool ReachesAtMost(int64_t width) const {
    return map_.before[1] <= width &&
           map_.extent[1] - map_.before[1] - width <= width;
  }

  // Calls task(source, begin, end) for each piece of output rows [begin, end);
  // `source` is where row `begin` starts to read. With `strips` (see
  // LaneLayout) the columns beside a lane's map are those of its neighbours.
  template <class Task>
  void ForEach(const sparse::Compute& compute, const float* tile,
               const Shape& shape, int64_t strips, float* scratch,
               const Task& task) const {
    if (!map_.copied) {
      task(tile, int64_t{0}, rows_);
      return;
    }
    const int64_t pitch = map_.row_pitch * kVectorLanes;
    const int64_t piece = PieceRows(compute.parallel.threads());
    int64_t front = 0;   // row of the padded map at the front of the scratch
    int64_t copied = 0;  // rows before this one are there
    for (int64_t begin = 0; begin < rows_; begin += piece) {
      const int64_t end = std::min(rows_, begin + piece);
      const int64_t first = begin * step_;
      const int64_t last = (end - 1) * step_ + span_;
      if ((last - front) * pitch > scratch_floats()) front = copied = first;
      copied = std::max(copied, first);
      Copy(compute, tile, shape, strips, copied, last - copied,
           scratch + (copied - front) * pitch);
      copied = last;
      task(static_cast<const float*>(scratch + (first - front) * pitch), begin,
           end);
    }
  }

 private:
  static constexpr int64_t kMostFloats = int64_t{1} << 20;  // 4 MiB
  static constexpr int64_t kRowsPerThread = 4;

  // One multiple, or enough work for all threads.
  int64_t PieceRows(int threads) const {
    const int64_t wanted = threads == 1 ? 1 : kRowsPerThread * threads;
    const int64_t rows = (wanted + multiple_ - 1) / multiple_ * multiple_;
    return std::min(band_, rows);
  }

  // Rows [first, first + rows) of the padded map.
  void Copy(const sparse::Compute& compute, const float* tile,
            const Shape& shape, int64_t strips, int64_t first, int64_t rows,
            float* to_rows) const {
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
      float* to = to_rows + i * map_.row_pitch * kVectorLanes;
      for (int64_t c = 0; c < shape.channels; ++c) {
        if (inside) {
          const float* source = from + c * plane;
          std::memcpy(to + left, source,
                      static_cast<size_t>(middle) * sizeof(float));
          if (strips > 1) {
            CopyNeighbours(source + shape.width * kVectorLanes - left, left, -1,
                           strips, to);
            CopyNeighbours(source, right, 1, strips, to + left + middle);
          } else {
            std::fill_n(to, left, 0.0f);
            std::fill_n(to + left + middle, right, 0.0f);
          }
        } else {
          std::fill_n(to, left + middle + right, 0.0f);
        }
        to += map_.channel_pitch * kVectorLanes;
      }
    });
  }

  // Lane l of these columns gets lane l + side, 0 beyond the image and in lanes
  // without a strip.
  static void CopyNeighbours(const float* from, int64_t floats, int64_t side,
                             int64_t strips, float* to) {
    for (int64_t column = 0; column < floats; column += kVectorLanes) {
      for (int64_t l = 0; l < kVectorLanes; ++l) {
        const int64_t lane = l + side;
        const bool inside = l < strips && lane >= 0 && lane < strips;
        to[column + l] = inside ? from[column + lane] : 0.0f;
      }
    }
  }

  sparse::MapLayout map_;
  int64_t rows_;
  int64_t step_;
  int64_t span_;
  int64_t multiple_;
  int64_t band_;  // rows that fit into the scratch
};

}  // namespace lumen::nn
