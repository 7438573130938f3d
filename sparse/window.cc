// SPDX-License-Identifier: Apache-2.0
#include "lumen/sparse/window.h"

#include <glog/logging.h>

#include <algorithm>

namespace lumen::sparse {
namespace {

// Phase of the inputs that window position r of one dimension belongs to.
int64_t Phase(const Window& w, size_t d, int64_t r) {
  const int64_t s = w.stride[d];
  return ((r * w.dilation[d] - w.padding[d]) % s + s) % s;
}

// Output that it reads, relative to the number of the input in its phase.
int64_t Shift(const Window& w, size_t d, int64_t r) {
  return (Phase(w, d, r) + w.padding[d] - r * w.dilation[d]) / w.stride[d];
}

void SetPitches(MapLayout* map) {
  if (map->copied) {
    map->channel_pitch = map->extent[1];
    map->row_pitch = map->channels * map->extent[1];
  } else {
    map->channel_pitch = map->extent[0] * map->extent[1];
    map->row_pitch = map->extent[1];
  }
}

// One past the furthest offset, when an output reads `span` rows of the map.
int64_t Reach(const MapLayout& map, int64_t span) {
  const int64_t rows = map.copied ? span : map.extent[0];
  return rows * map.channels * map.extent[1];
}

}  // namespace

Addressing Addressing::OfLinear(int64_t rows, int64_t columns, int64_t lanes) {
  Addressing a;
  a.rows_ = rows;
  a.columns_ = columns;
  a.inputs_ = columns;
  a.pointwise_ = true;
  a.input_ = {.channels = columns};
  a.output_ = {.channels = rows};
  const int64_t vectors = lanes / kVectorLanes;
  a.forward_.channel_pitch = a.backward_.channel_pitch = vectors;
  a.forward_.row_pitch = a.backward_.row_pitch = vectors;
  a.reach_ = std::max(rows, columns) * vectors;
  return a;
}

Addressing Addressing::OfWindow(const Shape& input, int64_t outputs,
                                const Window& window) {
  Addressing a;
  a.window_ = window;
  a.input_ = input;
  a.inputs_ = input.channels;
  a.rows_ = outputs;
  a.columns_ = input.channels / window.groups * window.size[0] * window.size[1];
  const std::array<int64_t, 2> in = {input.height, input.width};
  std::array<int64_t, 2> out;
  a.forward_.channels = input.channels;
  a.backward_.channels = outputs;
  a.pointwise_ = window.groups == 1 && window.size[0] * window.size[1] == 1 &&
                 window.padding[0] + window.padding[1] == 0;
  for (size_t d = 0; d < 2; ++d) {
    a.span_[d] = window.dilation[d] * (window.size[d] - 1) + 1;
    const int64_t padded = in[d] + 2 * window.padding[d];
    CHECK_GE(padded, a.span_[d]);
    out[d] = (padded - a.span_[d]) / window.stride[d] + 1;
    a.forward_.before[d] = window.padding[d];
    a.forward_.extent[d] = padded;
    a.forward_.copied |= window.padding[d] > 0;
    int64_t lowest = 0, highest = 0;
    for (int64_t r = 0; r < window.size[d]; ++r) {
      lowest = std::min(lowest, Shift(window, d, r));
      highest = std::max(highest, Shift(window, d, r));
    }
    const int64_t in_phase = (in[d] + window.stride[d] - 1) / window.stride[d];
    a.backward_.before[d] = -lowest;
    a.backward_.extent[d] = in_phase + highest - lowest;
    a.transposed_span_[d] = highest - lowest + 1;
    a.backward_.copied |= lowest < 0 || a.backward_.extent[d] != out[d];
  }
  a.output_ = {.channels = outputs, .height = out[0], .width = out[1]};
  SetPitches(&a.forward_);
  SetPitches(&a.backward_);
  a.reach_ = std::max(Reach(a.forward_, a.span_[0]),
                      Reach(a.backward_, a.transposed_span_[0]));
  return a;
}

int64_t Addressing::Offset(int64_t row, int64_t column) const {
  if (pointwise_) return column * forward_.channel_pitch;
  const int64_t positions = window_.size[0] * window_.size[1];
  const int64_t group = row / (rows_ / window_.groups);
  const int64_t channel =
      group * (inputs_ / window_.groups) + column / positions;
  const int64_t r = column % positions / window_.size[1];
  const int64_t q = column % window_.size[1];
  return channel * forward_.channel_pitch +
         r * window_.dilation[0] * forward_.row_pitch + q * window_.dilation[1];
}

int64_t Addressing::Column(int64_t row, int64_t offset) const {
  if (pointwise_) return offset / forward_.channel_pitch;
  int64_t channel, r;
  if (forward_.copied) {
    r = offset / forward_.row_pitch;
    offset %= forward_.row_pitch;
    channel = offset / forward_.channel_pitch;
    offset %= forward_.channel_pitch;
  } else {
    channel = offset / forward_.channel_pitch;
    offset %= forward_.channel_pitch;
    r = offset / forward_.row_pitch;
    offset %= forward_.row_pitch;
  }
  const int64_t group = row / (rows_ / window_.groups);
  channel -= group * (inputs_ / window_.groups);
  return (channel * window_.size[0] + r / window_.dilation[0]) *
             window_.size[1] +
         offset / window_.dilation[1];
}

int64_t Addressing::TransposedRow(int64_t row, int64_t column) const {
  if (pointwise_) return column;
  const int64_t positions = window_.size[0] * window_.size[1];
  const int64_t group = row / (rows_ / window_.groups);
  const int64_t channel =
      group * (inputs_ / window_.groups) + column / positions;
  const int64_t r = column % positions / window_.size[1];
  const int64_t q = column % window_.size[1];
  const int64_t phase =
      Phase(window_, 0, r) * window_.stride[1] + Phase(window_, 1, q);
  return phase * inputs_ + channel;
}

int64_t Addressing::TransposedOffset(int64_t row, int64_t column) const {
  if (pointwise_) return row * backward_.channel_pitch;
  const int64_t positions = window_.size[0] * window_.size[1];
  const int64_t r = column % positions / window_.size[1];
  const int64_t q = column % window_.size[1];
  return row * backward_.channel_pitch +
         (Shift(window_, 0, r) + backward_.before[0]) * backward_.row_pitch +
         Shift(window_, 1, q) + backward_.before[1];
}

}  // namespace lumen::sparse
