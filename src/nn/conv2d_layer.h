// SPDX-License-Identifier: Apache-2.0
// The convolution itself; conv2d.cc reads it from a spec.
#pragma once

#include <memory>
#include <string>

#include "lumen/nn/layer.h"
#include "lumen/sparse/window.h"

namespace lumen::nn {

// REQUIRES: the window fits into `input` with its padding, groups divide inputs
// and outputs, and addresses stay below 2^31.
std::unique_ptr<Layer> NewConv2dLayer(const std::string& name,
                                      const Shape& input, int64_t outputs,
                                      const sparse::Window& window, bool bias);

}  // namespace lumen::nn
