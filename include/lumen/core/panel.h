// SPDX-License-Identifier: Apache-2.0
// Activations: lanes innermost.
//
// The samples of one shard are cut into tiles of T lanes. A panel holds
// [tile][channel][depth][height][width][T] fp32, 64-byte aligned. Lanes beyond
// the number of samples hold zeros in inputs and are masked in losses.
#pragma once

#include <cstdint>
#include <string>

namespace lumen {

inline constexpr int64_t kVectorLanes = 16;  // one vector, on every ISA
inline constexpr int64_t kMaxTileLanes = 128;

// Shape of one sample.
struct Shape {
  int64_t channels = 1;
  int64_t depth = 1;
  int64_t height = 1;
  int64_t width = 1;

  int64_t elements() const { return channels * depth * height * width; }
  bool operator==(const Shape&) const = default;
  std::string ToString() const;  // "64x28x28", "512"
};

// How the samples of a shard lie in lanes: a pure function of their number.
struct LaneLayout {
  int64_t samples = 0;
  int64_t tiles = 0;
  int64_t lanes = 0;  // T, a multiple of kVectorLanes
  // With more than one, the only sample lies in this many lanes of one tile:
  // lane l holds the columns [l, l + 1) * width of a strip, and a panel has the
  // shape of a strip.
  int64_t strips = 1;

  // As few tiles as possible of at most max_lanes, all of equal width, none
  // without a sample. REQUIRES: max_lanes is a multiple of kVectorLanes.
  static LaneLayout For(int64_t samples, int64_t max_lanes = kMaxTileLanes);
  int64_t total_lanes() const { return tiles * lanes; }
  // Samples, or strips, over lanes; 0 for no samples.
  double lane_use() const;
  bool operator==(const LaneLayout&) const = default;
};

// A view; it owns nothing.
struct Panel {
  float* data = nullptr;
  Shape shape;
  LaneLayout layout;

  int64_t tile_size() const { return shape.elements() * layout.lanes; }
  int64_t size() const { return tile_size() * layout.tiles; }
  float* tile(int64_t t) const { return data + t * tile_size(); }
};

}  // namespace lumen
