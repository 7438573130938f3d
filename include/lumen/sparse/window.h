// SPDX-License-Identifier: Apache-2.0
// The window of a convolution, and how it turns into addresses.
//
// The input of a tile of 16 samples is either used where it is, [channel][row]
// [column], or copied with its padding into [row][channel][column]; a pixel is
// one vector. A weight then carries one offset: pixel (0, 0) of the outputs
// reads the vector offset(channel, window row, window column), pixel (h, w) the
// vector h * stride rows and w * stride columns further on.
//
// The gradient of the input is the same product. Input pixel s * j + f (stride
// s, phase f) hears only from the window positions r with (f + padding - r *
// dilation) divisible by s, and from output j + (f + padding - r * dilation) /
// s. So the transposed rows are (phase, channel), each weight lies in exactly
// one of them, and reads outputs at unit stride.
#pragma once

#include <array>
#include <cstdint>

#include "lumen/core/panel.h"

namespace lumen::sparse {

struct Window {
  std::array<int64_t, 2> size = {1, 1};  // rows, columns
  std::array<int64_t, 2> stride = {1, 1};
  std::array<int64_t, 2> padding = {0, 0};  // on every side
  std::array<int64_t, 2> dilation = {1, 1};
  int64_t groups = 1;
};

// How a map is laid out for a product to read from.
struct MapLayout {
  bool copied = false;  // else it is read in place
  int64_t channels = 0;
  std::array<int64_t, 2> before = {0, 0};  // zero rows, columns put in front
  std::array<int64_t, 2> extent = {0, 0};  // rows and columns with padding
  int64_t channel_pitch = 0;               // all in vectors
  int64_t row_pitch = 0;
};

// Which weight reads what: everything is a pure function of the layer.
class Addressing {
 public:
  // A linear layer over T lanes.
  static Addressing OfLinear(int64_t rows, int64_t columns, int64_t lanes);
  // A convolution of `input` to `outputs` channels. REQUIRES: the window fits
  // into the padded input; groups divides both numbers of channels.
  static Addressing OfWindow(const Shape& input, int64_t outputs,
                             const Window& window);

  int64_t rows() const { return rows_; }        // of the weight: outputs
  int64_t columns() const { return columns_; }  // inputs per group * window
  int64_t transposed_rows() const { return phases() * inputs_; }

  // Of the weight in `row` and `column`.
  int64_t Offset(int64_t row, int64_t column) const;
  int64_t TransposedRow(int64_t row, int64_t column) const;
  int64_t TransposedOffset(int64_t row, int64_t column) const;
  // The column whose offset in `row` this is.
  int64_t Column(int64_t row, int64_t offset) const;
  // Offsets are below this; they are stored in 32 bits.
  int64_t reach() const { return reach_; }

  // Columns are channels and nothing else: linear, or 1x1 at stride 1.
  bool is_pointwise() const { return pointwise_; }
  const Window& window() const { return window_; }
  const Shape& input() const { return input_; }
  const Shape& output() const { return output_; }
  const MapLayout& forward_map() const { return forward_; }
  const MapLayout& backward_map() const { return backward_; }  // of dy
  int64_t phases() const { return window_.stride[0] * window_.stride[1]; }
  // Rows and columns of the map that one output (an input of a phase) reads.
  const std::array<int64_t, 2>& span() const { return span_; }
  const std::array<int64_t, 2>& transposed_span() const {
    return transposed_span_;
  }

 private:
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  int64_t inputs_ = 0;  // channels, of all groups
  int64_t reach_ = 0;
  bool pointwise_ = false;  // columns are channels and nothing else
  Window window_;
  Shape input_;
  Shape output_;
  MapLayout forward_;
  MapLayout backward_;
  std::array<int64_t, 2> span_ = {1, 1};
  std::array<int64_t, 2> transposed_span_ = {1, 1};
};

}  // namespace lumen::sparse
