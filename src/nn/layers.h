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

// Key of normalisations: what their weight is at first.
inline constexpr Key kNormInitKey = {
    .name = "init",
    .kind = KeyKind::kText,
    .fallback = "\"ones\"",
    .help =
        "weights at first; with zeros a residual block whose last layer "
        "this is begins as the identity (Goyal et al. 2017)",
    .choices = "ones|zeros"};
inline Init NormInit(const Json& spec) {
  return spec.at("init").text() == "zeros" ? Init::kZeros : Init::kOnes;
}

// REQUIRES one input; throws SpecError otherwise.
const Shape& OnlyInput(const Json& spec, std::span<const Shape> inputs);
// A key of a window: one number for rows and columns, or two. Throws SpecError.
std::array<int64_t, 2> RowsAndColumns(const Json& spec, const std::string& name,
                                      const char* key);

}  // namespace lumen::nn
