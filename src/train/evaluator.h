// SPDX-License-Identifier: Apache-2.0
// Loss and metrics of a model on a whole split.
#pragma once

#include <functional>
#include <vector>

#include "lumen/comm/communicator.h"
#include "lumen/core/json.h"
#include "lumen/data/dataset.h"
#include "lumen/data/loader.h"
#include "lumen/nn/loss.h"
#include "lumen/nn/model.h"
#include "lumen/sparse/compute.h"
#include "lumen/train/spec.h"

namespace lumen::train {

// Throws SpecError when the loss cannot compare with the targets of the data.
void RequireTargets(const Spec& spec, const data::Dataset& dataset);

// Every sample once, in file order, the tail masked. The shards divide the work
// as in training, so the sums do not depend on the number of ranks. Collective.
// `model` keeps its parameters; its activations are overwritten.
nn::LossSums EvaluateSplit(const Spec& spec, const data::Dataset& dataset,
                           const std::vector<int>& hosted_shards,
                           const nn::Loss& loss, nn::Model* model,
                           comm::Communicator* communicator,
                           const sparse::Compute& compute);

// {"samples": n, "loss": mean, metric: mean, ...}.
Json MetricsJson(const nn::LossSums& sums, const nn::Loss& loss);

}  // namespace lumen::train
