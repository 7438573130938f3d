// SPDX-License-Identifier: Apache-2.0
// The rows of the layer, preset and loss tables: one per file.
#pragma once

#include <array>

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
// A key of a window: one number for rows and columns, or two. Throws SpecError.
std::array<int64_t, 2> RowsAndColumns(const Json& spec, const std::string& name,
                                      const char* key);

}  // namespace lumen::nn
