// SPDX-License-Identifier: Apache-2.0
// Training steps against the clock, without run folder, evaluation and
// checkpoints.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lumen/comm/communicator.h"
#include "lumen/sparse/compute.h"
#include "lumen/train/plan.h"
#include "lumen/train/spec.h"

namespace lumen::train {

// The best of the steps so far.
struct StepTimes {
  double step_seconds = 0;      // batch, forward, backward, exchange, update
  std::vector<double> forward;  // per layer of the plan, all shards of a rank
  std::vector<double> backward;
};

// A run that is ready for its next step. Collective, as training is.
class StepBench {
 public:
  // Reads the data of the spec and builds its model. Throws what training
  // throws. REQUIRES: spec, communicator and compute outlive it.
  StepBench(const Spec& spec, comm::Communicator* communicator,
            const sparse::Compute& compute);
  ~StepBench();
  StepBench(const StepBench&) = delete;
  StepBench& operator=(const StepBench&) = delete;

  const Plan& plan() const;
  // The next `count` steps. The first one of all does not count: it touches
  // memory for the first time.
  void Run(int64_t count);
  const StepTimes& times() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lumen::train
