// SPDX-License-Identifier: Apache-2.0
// The rows of the layer, preset and loss tables: one per file.
#pragma once

#include "lumen/nn/layer.h"
#include "lumen/nn/loss.h"

namespace lumen::nn {

extern const LayerRow kAddRow;
extern const LayerRow kAvgPoolRow;
extern const LayerRow kBatchNormRow;
extern const LayerRow kBlockRow;
extern const LayerRow kConcatRow;
extern const LayerRow kConv2dRow;
extern const LayerRow kGlobalPoolRow;
extern const LayerRow kGroupNormRow;
extern const LayerRow kLinearRow;
extern const LayerRow kMaxPoolRow;
extern const LayerRow kReluRow;
extern const LayerRow kDropoutRow;
extern const LayerRow kFlattenRow;
extern const LayerRow kSparseLinearRow;

extern const LossRow kSoftmaxCrossEntropyRow;
extern const LossRow kSigmoidBceRow;
extern const LossRow kMseRow;

// REQUIRES one input; throws SpecError otherwise.
const Shape& OnlyInput(const Json& spec, std::span<const Shape> inputs);

}  // namespace lumen::nn
