// SPDX-License-Identifier: Apache-2.0
// What a spec says about a convolution, checked.
#include "conv2d_layer.h"
#include "layers.h"
#include "lumen/core/error.h"

namespace lumen::nn {
namespace {

using sparse::Addressing;
using sparse::Window;

constexpr Key kKeys[] = {
    {.name = "channels",
     .kind = KeyKind::kInteger,
     .help = "outputs",
     .minimum = 1,
     .maximum = 1 << 24},
    {.name = "window",
     .kind = KeyKind::kIntegers,
     .help = "rows and columns of the window; one number for both",
     .minimum = 1,
     .maximum = 65536},
    {.name = "stride",
     .kind = KeyKind::kIntegers,
     .fallback = "[1]",
     .help = "step from one output to the next",
     .minimum = 1,
     .maximum = 65536},
    {.name = "padding",
     .kind = KeyKind::kIntegers,
     .fallback = "[0]",
     .help = "zeros put on each side",
     .minimum = 0,
     .maximum = 65536},
    {.name = "dilation",
     .kind = KeyKind::kIntegers,
     .fallback = "[1]",
     .help = "step inside the window",
     .minimum = 1,
     .maximum = 65536},
    {.name = "groups",
     .kind = KeyKind::kInteger,
     .fallback = "1",
     .help = "parts that the channels are cut into, each seeing its own inputs",
     .minimum = 1},
    {.name = "bias",
     .kind = KeyKind::kBool,
     .fallback = "false",
     .help = "add a bias per output; off, as a batch_norm mostly follows"},
};

std::unique_ptr<Layer> NewConv2d(const Json& spec, const std::string& name,
                                 std::span<const Shape> inputs) {
  const Shape& input = OnlyInput(spec, inputs);
  const std::string where = spec.where() + ": conv2d \"" + name + "\": ";
  const Window window = {.size = RowsAndColumns(spec, name, "window"),
                         .stride = RowsAndColumns(spec, name, "stride"),
                         .padding = RowsAndColumns(spec, name, "padding"),
                         .dilation = RowsAndColumns(spec, name, "dilation"),
                         .groups = spec.at("groups").integer()};
  const int64_t outputs = spec.at("channels").integer();
  if (input.depth != 1) {
    throw SpecError(where + "input is " + input.ToString() +
                    "; expected channels, height and width");
  }
  if (input.channels % window.groups != 0 || outputs % window.groups != 0) {
    throw SpecError(where + std::to_string(window.groups) + " groups of " +
                    std::to_string(input.channels) + " inputs and " +
                    std::to_string(outputs) +
                    " outputs; expected groups to divide both");
  }
  const std::array<int64_t, 2> extent = {input.height, input.width};
  for (size_t d = 0; d < 2; ++d) {
    const int64_t span = window.dilation[d] * (window.size[d] - 1) + 1;
    if (extent[d] + 2 * window.padding[d] < span) {
      throw SpecError(where + "input is " + input.ToString() +
                      " and the window spans " + std::to_string(span) +
                      "; expected a window no larger than input and padding");
    }
  }
  if (Addressing::OfWindow(input, outputs, window).reach() >= int64_t{1}
                                                                  << 31) {
    throw SpecError(where + "input " + input.ToString() +
                    " is too large for 32-bit addresses");
  }
  return NewConv2dLayer(name, input, outputs, window,
                        spec.at("bias").boolean());
}

}  // namespace

const LayerRow kConv2dRow = {
    "conv2d", kKeys, "convolution of images, sparse or dense", NewConv2d};

}  // namespace lumen::nn
