// SPDX-License-Identifier: Apache-2.0
// What a run says of itself: lines of metrics.jsonl, progress, summary.json.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "layer_sizes.h"
#include "lumen/core/memory.h"
#include "lumen/sparse/isa.h"
#include "run.h"

namespace lumen::train {

Json Run::MetricsLine(const std::string& split) const {
  Json json = Json::Object();
  json.Set("step", counters_.step);
  json.Set("epoch", static_cast<double>(counters_.step) /
                        static_cast<double>(length_.steps_per_epoch));
  json.Set("split", split);
  json.Set("loss", Json());
  json.Set("lr", rate_);
  json.Set("samples_per_s", samples_per_s_);
  json.Set("seconds", counters_.seconds);
  json.Set("flops_executed", counters_.flops_executed);
  json.Set("flops_dense", counters_.flops_dense);
  json.Set("wire_bytes", counters_.wire_bytes);
  json.Set("wire_bytes_dense", counters_.wire_bytes_dense);
  json.Set("data_wait_s", counters_.data_wait_s);
  json.Set("exchange_wait_s", counters_.exchange_wait_s);
  return json;
}

void Run::MeasureEnergy() {
  // The first rank of each host speaks for it.
  bool first = true;
  for (int rank = 0; rank < communicator_->rank(); ++rank) {
    first = first && communicator_->host_of(rank) != communicator_->host();
  }
  const double mine = first ? meter_.Joules() : 0;
  counters_.joules = joules_at_start_;
  for (const auto& bytes : communicator_->AllGather(
           std::as_bytes(std::span<const double>(&mine, 1)))) {
    double of_rank = 0;
    std::memcpy(&of_rank, bytes.data(), sizeof(of_rank));
    counters_.joules += of_rank;
  }
}

Json Run::Cost() const {
  const bool measured = std::isfinite(counters_.joules);
  Json json = Json::Object();
  json.Set("seconds", counters_.seconds);
  json.Set("gflop", static_cast<double>(counters_.flops_executed) * 1e-9);
  json.Set("joules", measured ? Json(counters_.joules) : Json());
  json.Set("energy", std::string(measured ? "measured" : "unavailable"));
  return json;
}

Progress Run::CurrentProgress() const {
  Progress progress;
  progress.step = counters_.step;
  progress.total_steps = length_.total_steps;
  progress.epoch = counters_.step / length_.steps_per_epoch;
  const nn::LossSums& sums = vote_.sums;
  if (sums.samples > 0) {
    const auto n = static_cast<double>(sums.samples);
    progress.loss = sums.loss / n;
    if (!sums.metrics.empty()) progress.metric = sums.metrics[0] / n;
  }
  if (metrics_ > 0) progress.metric_name = start_.loss->metric_names()[0];
  progress.learning_rate = rate_;
  const double seconds =
      std::chrono::duration<double>(Clock::now() - interval_began_).count();
  progress.samples_per_s =
      interval_samples_ > 0 && seconds > 0
          ? static_cast<double>(interval_samples_) / seconds
          : samples_per_s_;
  if (counters_.wire_bytes > 0) {
    progress.wire_ratio = static_cast<double>(counters_.wire_bytes_dense) /
                          static_cast<double>(counters_.wire_bytes);
  }
  if (progress.samples_per_s > 0) {
    progress.eta_seconds =
        static_cast<double>((length_.total_steps - counters_.step) *
                            spec_.global_batch()) /
        progress.samples_per_s;
  }
  return progress;
}

Json Run::Summary(StoppedBy stopped_by, const std::string& state_hash) {
  MeasureEnergy();
  CombineStatistics(Parts(), communicator_);
  // The largest peak of all ranks, and what they sent since the last vote.
  const int64_t mine[] = {PeakRssBytes(), communicator_->bytes_sent(),
                          bad_samples_};
  int64_t peak = 0;
  int64_t sent = 0;
  int64_t bad_samples = 0;
  for (const auto& bytes : communicator_->AllGather(
           std::as_bytes(std::span<const int64_t>(mine)))) {
    int64_t of_rank[std::size(mine)];
    std::memcpy(of_rank, bytes.data(), sizeof(of_rank));
    peak = std::max(peak, of_rank[0]);
    sent += of_rank[1];
    bad_samples += of_rank[2];
  }
  counters_.wire_bytes += sent - bytes_counted_;
  if (bad_samples > 0) {
    journal_->Warning(std::to_string(bad_samples) +
                      " bad samples skipped since the start; the logs of the "
                      "ranks name them");
  }
  const nn::ParameterSet& parameters = start_.model->parameters();
  const double seconds = SecondsSinceStart();
  Json json = Json::Object();
  json.Set("ranks", communicator_->ranks());
  json.Set("shards", spec_.shards());
  json.Set("threads", compute_.parallel.threads());
  json.Set("isa", std::string(sparse::IsaName(compute_.kernels->isa)));
  json.Set("steps", counters_.step);
  json.Set("seconds", counters_.seconds);
  json.Set("samples_per_s", seconds > 0
                                ? static_cast<double>(counters_.samples -
                                                      start_.counters.samples) /
                                      seconds
                                : 0.0);
  json.Set("train_loss", counters_.train_loss);
  json.Set("test", counters_.test);
  json.Set("best", counters_.best.is_null() ? counters_.test : counters_.best);
  const bool tested = counters_.best.is_null() && counters_.test.is_object();
  json.Set("to_best", tested ? Cost() : counters_.to_best);
  json.Set("parameters", parameters.dense_size());
  json.Set("nnz", parameters.size());
  json.Set("layers", LayerSizes(start_.model->graph(), parameters));
  json.Set("parameter_hash", ParameterHash(*start_.model));
  json.Set("state_hash", state_hash);
  json.Set("peak_rss_bytes", peak);
  json.Set("planned_bytes", start_.plan.memory_bytes());
  json.Set("wire_bytes", counters_.wire_bytes);
  json.Set("wire_bytes_dense", counters_.wire_bytes_dense);
  json.Set("flops_executed", counters_.flops_executed);
  json.Set("flops_dense", counters_.flops_dense);
  json.Set("sparsity_efficiency",
           counters_.flops_executed > 0
               ? Json(static_cast<double>(counters_.flops_dense) /
                      static_cast<double>(counters_.flops_executed))
               : Json());
  json.Set("bad_steps", counters_.bad_steps);
  json.Set("bad_samples", bad_samples);
  json.Set("data_wait_s", counters_.data_wait_s);
  json.Set("exchange_wait_s", counters_.exchange_wait_s);
  json.Set("resumed_from",
           start_.resumed_from.empty() ? Json() : Json(start_.resumed_from));
  json.Set("stopped_by", std::string(StoppedByName(stopped_by)));
  return json;
}

}  // namespace lumen::train
