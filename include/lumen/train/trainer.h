// SPDX-License-Identifier: Apache-2.0
// One run from start or checkpoint to its end. Collective over all ranks.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lumen/comm/communicator.h"
#include "lumen/core/json.h"
#include "lumen/nn/loss.h"
#include "lumen/sparse/compute.h"
#include "lumen/train/plan.h"
#include "lumen/train/spec.h"

namespace lumen::train {

// Flags of the command line: they change speed and comfort, not the
// mathematics.
struct RunOptions {
  std::string out;              // run folder
  std::string resume = "auto";  // auto, never, or a checkpoint folder
  double max_seconds = 0;       // of this start; 0: no limit
  // Set from a signal handler; ranks agree on it at the next step boundary.
  const std::atomic<int>* stop_signal = nullptr;
};

struct Progress {
  int64_t step = 0;
  int64_t total_steps = 0;
  int64_t epoch = 0;
  double loss = 0;
  double metric = 0;
  std::string metric_name;
  double learning_rate = 0;
  double samples_per_s = 0;
  double wire_ratio = 0;  // dense bytes over sent bytes; 0 for one rank
  double eta_seconds = 0;
};

// Told on rank 0 only, never concurrently. The library itself prints nothing.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void OnMessage(const std::string& line) = 0;  // also in log.txt
  virtual void OnWarning(const std::string& line) = 0;  // also in log.txt
  virtual void OnPlan(const Plan& plan) = 0;            // before step 0
  virtual void OnStep(const Progress& progress) = 0;    // every step
  virtual void OnEvaluation(const Progress& progress, const std::string& split,
                            const Json& metrics) = 0;
};

enum class StoppedBy { kFinished, kSignal, kMaxTime, kNan, kError };
const char* StoppedByName(StoppedBy stopped_by);

struct RunResult {
  StoppedBy stopped_by = StoppedBy::kFinished;
  Json summary;  // the object of summary.json; on rank 0
};

// Trains to the end of the spec, or until asked to stop (then with a complete
// checkpoint). Writes the run folder. Throws SpecError, IoError, CommError; all
// ranks throw alike where the cause is shared. `observer` may be null.
RunResult RunTraining(const Spec& spec, const RunOptions& options,
                      comm::Communicator* communicator,
                      const sparse::Compute& compute, Observer* observer);

// Evaluates a checkpoint folder (or the newest of a run folder) on a split.
// Returns step, split, samples, loss and metrics. Collective.
struct EvaluationOptions {
  std::string checkpoint;
  std::string split = "test";
  std::vector<std::string> overrides;  // "data.root=..."
};
Json RunEvaluation(const EvaluationOptions& options,
                   comm::Communicator* communicator,
                   const sparse::Compute& compute);

}  // namespace lumen::train
