// SPDX-License-Identifier: Apache-2.0
// A window that slides over a map, for pooling.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "layers.h"
#include "lumen/core/error.h"

namespace lumen::nn {

// Keys of a pooling layer.
inline constexpr Key kPoolKeys[] = {
    {.name = "window",
     .kind = KeyKind::kIntegers,
     .help = "rows and columns of the window; one number for both",
     .minimum = 1,
     .maximum = 65536},
    {.name = "stride",
     .kind = KeyKind::kIntegers,
     .fallback = "null",
     .help = "step from one output to the next; default: the window",
     .minimum = 1,
     .maximum = 65536},
    {.name = "padding",
     .kind = KeyKind::kIntegers,
     .fallback = "[0]",
     .help = "pixels put on each side, at most half a window",
     .minimum = 0,
     .maximum = 65536},
};

struct PoolWindow {
  // Numbers of a range.
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };

  Shape input;
  std::array<int64_t, 2> size = {1, 1};  // rows, columns
  std::array<int64_t, 2> stride = {1, 1};
  std::array<int64_t, 2> padding = {0, 0};

  // Throws SpecError when the window does not fit.
  static PoolWindow New(const Json& spec, const std::string& name,
                        std::span<const Shape> inputs) {
    const char* stride = spec.at("stride").is_null() ? "window" : "stride";
    const PoolWindow window = {
        .input = OnlyInput(spec, inputs),
        .size = RowsAndColumns(spec, name, "window"),
        .stride = RowsAndColumns(spec, name, stride),
        .padding = RowsAndColumns(spec, name, "padding")};
    const std::string where =
        spec.where() + ": " + spec.at("type").text() + " \"" + name + "\": ";
    if (window.input.depth != 1) {
      throw SpecError(where + "input is " + window.input.ToString() +
                      "; expected channels, height and width");
    }
    for (size_t d = 0; d < 2; ++d) {
      const int64_t size = window.size[d];
      if (2 * window.padding[d] > size) {
        throw SpecError(where + "padding " + std::to_string(window.padding[d]) +
                        " for a window of " + std::to_string(size) +
                        "; expected at most half of it");
      }
      if (window.extent(d) + 2 * window.padding[d] < size) {
        throw SpecError(where + "input is " + window.input.ToString() +
                        " and the window spans " + std::to_string(size) +
                        "; expected a window no larger than input and padding");
      }
    }
    return window;
  }

  int64_t extent(size_t d) const { return d == 0 ? input.height : input.width; }
  int64_t pixels() const { return input.height * input.width; }
  int64_t area() const { return size[0] * size[1]; }
  int64_t outputs(size_t d) const {
    return (extent(d) + 2 * padding[d] - size[d]) / stride[d] + 1;
  }
  Shape output() const {
    return {
        .channels = input.channels, .height = outputs(0), .width = outputs(1)};
  }
  // Does no pixel lie in two windows?
  bool is_apart() const { return stride[0] >= size[0] && stride[1] >= size[1]; }

  // Pixels of the window of an output; never none.
  Range Inputs(size_t d, int64_t output) const {
    const int64_t begin = output * stride[d] - padding[d];
    return {std::max<int64_t>(0, begin), std::min(extent(d), begin + size[d])};
  }
  // Outputs whose windows a pixel lies in.
  Range Outputs(size_t d, int64_t pixel) const {
    const int64_t end = (pixel + padding[d]) / stride[d] + 1;
    const int64_t before = pixel + padding[d] - size[d];  // the last without it
    return {before < 0 ? 0 : before / stride[d] + 1, std::min(outputs(d), end)};
  }
};

}  // namespace lumen::nn
