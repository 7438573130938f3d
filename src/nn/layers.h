// SPDX-License-Identifier: Apache-2.0
// The rows of the layer, preset and loss tables: one per file.
#pragma once

#include "lumen/nn/layer.h"
#include "lumen/nn/loss.h"

namespace lumen::nn {

extern const LayerRow kLinearRow;
extern const LayerRow kReluRow;
extern const LayerRow kDropoutRow;
extern const LayerRow kFlattenRow;

extern const LossRow kSoftmaxCrossEntropyRow;

// Channels of one layer: their offsets in vectors of lanes are 32-bit.
inline constexpr double kMaxUnits = 1 << 27;

// REQUIRES one input; throws SpecError otherwise.
const Shape& OnlyInput(const Json& spec, std::span<const Shape> inputs);

}  // namespace lumen::nn
