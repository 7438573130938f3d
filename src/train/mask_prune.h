// SPDX-License-Identifier: Apache-2.0
// Gradual magnitude pruning (Zhu and Gupta 2017): weights go for good.
#pragma once

#include <cstdint>

#include "lumen/comm/communicator.h"
#include "lumen/core/buffer.h"
#include "lumen/sparse/compute.h"
#include "lumen/train/spec.h"
#include "start.h"

namespace lumen::train {

class MaskPruning {
 public:
  MaskPruning(const Spec& spec, int64_t total_steps);

  // Do weights go after this step?
  bool Due(int64_t step) const;
  // Drops the smallest weights of each tensor down to the density of this step,
  // with their moments and residuals; what is left keeps its state. Collective.
  // Moves the owner state over rank 0. For a moment the state exists twice.
  void Apply(int64_t step, Start* start, comm::Communicator* communicator,
             const sparse::Compute& compute) const;

  // The most that pruning adds, for plan: masks of weights that were dense, and
  // the state twice. `state_floats` per weight beside its value.
  static int64_t MemoryBytes(const Spec& spec, const nn::Graph& graph,
                             int64_t state_floats);

 private:
  double Density(int64_t step) const;

  const Spec& spec_;
  bool active_;
  int64_t every_;
  int64_t start_step_;
  int64_t stop_step_;
};

}  // namespace lumen::train
