// SPDX-License-Identifier: Apache-2.0
// From a spec to a run that is ready for its next step.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "counters.h"
#include "journal.h"
#include "lumen/comm/exchange.h"
#include "lumen/data/dataset.h"
#include "lumen/data/loader.h"
#include "lumen/nn/loss.h"
#include "lumen/nn/model.h"
#include "lumen/train/optimizer.h"
#include "lumen/train/plan.h"
#include "lumen/train/spec.h"
#include "lumen/train/trainer.h"
#include "model_state.h"
#include "weight_average.h"

namespace lumen::train {

// Everything a run owns. Movable.
struct Start {
  std::unique_ptr<data::Dataset> train_data;
  std::unique_ptr<data::Dataset> valid_data;  // null: no such split
  std::unique_ptr<data::Dataset> test_data;
  std::vector<float> class_weights;  // empty: 1 for all
  std::string mathematical_text;
  std::optional<data::SampleOrder> order;
  Plan plan;
  std::vector<int> hosted_shards;
  std::vector<comm::Bucket> buckets;
  std::unique_ptr<nn::Model> model;
  std::unique_ptr<nn::Loss> loss;
  std::unique_ptr<Optimizer> optimizer;
  WeightAverage average;
  std::unique_ptr<comm::Exchange> exchange;
  std::unique_ptr<ShardStatistics> statistics;
  Counters counters;         // of the checkpoint, or zero
  std::string resumed_from;  // checkpoint folder, or empty
};

// Opens the data, makes sure that all ranks mean the same run, plans, finds the
// newest whole checkpoint (saying what it skipped), builds the model and
// restores the state. Collective: a cause that all ranks see throws alike on
// all.
Start NewStart(const Spec& spec, const RunOptions& options,
               comm::Communicator* communicator, const sparse::Compute& compute,
               Journal* journal);

// Makes anew what depends on the number of weights: optimizer, average, buckets
// and exchange, all at their start. Collective.
void NewWeightState(const Spec& spec, comm::Communicator* communicator,
                    const sparse::Compute& compute, Start* start);

// The buckets of the exchange of this model.
std::vector<comm::Bucket> BucketsOf(const Spec& spec,
                                    std::span<const int64_t> tensor_sizes);

}  // namespace lumen::train
