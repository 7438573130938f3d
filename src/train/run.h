// SPDX-License-Identifier: Apache-2.0
// The loop: steps, and what happens between them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint_writer.h"
#include "energy.h"
#include "journal.h"
#include "lumen/data/loader.h"
#include "lumen/train/schedule.h"
#include "lumen/train/trainer.h"
#include "mask_prune.h"
#include "mask_update.h"
#include "model_state.h"
#include "start.h"
#include "vote.h"

namespace lumen::train {

class Run {
 public:
  Run(const Spec& spec, const RunOptions& options, Start start,
      comm::Communicator* communicator, const sparse::Compute& compute,
      Journal* journal);
  // Collective. Trains until the end or until asked to stop.
  RunResult ToEnd();
  // Collective. The next steps and nothing between them. Returns the seconds of
  // each; `nodes` may be null.
  std::vector<double> Steps(int64_t count, nn::Model::NodeSeconds* nodes);

 private:
  using Clock = std::chrono::steady_clock;

  // Batches from the next step on.
  data::Loader NewLoader(int64_t last_step) const;
  // One transactional step: compute, exchange, commit or discard, vote.
  void Step(data::Loader* loader);
  void ComputeShard(const data::Batch& batch, float scale);
  void Count(int64_t valid, VoteResult* vote);
  void UpdateMasks(int64_t valid);
  // Of a sample, with the masks as they are.
  void CountFlopsPerSample();

  void LogInterval();
  void EvaluateAll(data::Split because);
  void Evaluate(const data::Dataset& dataset, data::Split split);
  void RememberBest(const Json& metrics);
  // Brings the counters up to date. Collective.
  void MeasureEnergy();
  // What was spent so far: {seconds, gflop, joules, energy}.
  Json Cost() const;
  void BeginCheckpoint();
  void CompleteCheckpoint();

  StateParts Parts();
  bool Every(int64_t interval) const;
  bool TimeIsUp() const;
  double SecondsSinceStart() const;
  Progress CurrentProgress() const;
  Json MetricsLine(const std::string& split) const;
  Json Summary(StoppedBy stopped_by, const std::string& state_hash);

  const Spec& spec_;
  const RunOptions& options_;
  Start start_;
  nn::Model::NodeSeconds* node_seconds_ = nullptr;
  comm::Communicator* communicator_;
  const sparse::Compute& compute_;
  Journal* journal_;
  Counters counters_;
  ScheduleLength length_;
  int64_t metrics_ = 0;  // of the loss
  int64_t flops_executed_per_sample_ = 0;
  int64_t flops_dense_per_sample_ = 0;
  int64_t eval_every_ = 0;
  int64_t checkpoint_every_ = 0;

  MaskUpdates masks_;
  MaskPruning pruning_;
  Snapshot snapshot_;
  CheckpointWriter writer_;       // after what it reads, so that it ends first
  int64_t checkpoint_step_ = -1;  // of the newest checkpoint begun or read
  std::vector<nn::LossSums> shard_sums_;
  VoteResult vote_;
  int64_t bad_samples_ = 0;  // skipped by this rank, since its start
  double rate_ = 0;
  double exchange_wait_s_ = 0;  // of this rank, since its start
  int64_t bytes_counted_ = 0;   // already in the counters
  double exchange_wait_counted_s_ = 0;
  double data_wait_counted_s_ = 0;
  double seconds_at_start_ = 0;
  double longest_step_s_ = 0;
  EnergyMeter meter_;  // of this host
  double joules_at_start_ = 0;
  Clock::time_point began_;
  Clock::time_point interval_began_;
  int64_t interval_samples_ = 0;
  double samples_per_s_ = 0;
};

}  // namespace lumen::train
