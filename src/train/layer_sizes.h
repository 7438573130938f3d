// SPDX-License-Identifier: Apache-2.0
// How many weights of each layer exist, for run folders.
#pragma once

#include "lumen/core/json.h"
#include "lumen/nn/model.h"

namespace lumen::train {

// [name, weights of the dense layer, weights that exist] of each layer that has
// any, in model order, with the masks as they are.
Json LayerSizes(const nn::Graph& graph, const nn::ParameterSet& parameters);

}  // namespace lumen::train
