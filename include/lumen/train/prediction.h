// SPDX-License-Identifier: Apache-2.0
// What a checkpoint says about samples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lumen/comm/communicator.h"
#include "lumen/sparse/compute.h"
#include "lumen/train/export.h"

namespace lumen::train {

struct PredictionOptions {
  std::string checkpoint;  // a run folder gives its best checkpoint
  std::string input;       // train, valid, test, or a NumPy file of samples
  std::string output;      // FILE.csv or FILE.h5
  Weights weights = Weights::kBest;
  std::vector<std::string> overrides;  // "data.root=..."
};

struct PredictionResult {
  std::string checkpoint;
  int64_t samples = 0;
};

// Writes one row per sample, in the order of the file: probabilities of the
// classes, or the values of a model with mse, and the class with the highest
// score. Samples are shared out as in training; the bits do not depend on the
// number of ranks. Rank 0 writes, the file appears in one step. Collective.
// Throws SpecError, IoError.
PredictionResult RunPrediction(const PredictionOptions& options,
                               comm::Communicator* communicator,
                               const sparse::Compute& compute);

}  // namespace lumen::train
