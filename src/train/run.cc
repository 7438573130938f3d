// SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include <algorithm>
#include <utility>

#include "evaluator.h"
#include "layer_sizes.h"
#include "lumen/core/error.h"
#include "lumen/core/text.h"

namespace lumen::train {
namespace {

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// All ranks together: a ring all-reduce of the dense model in fp32 sends
// 2 (P - 1) / P of it from every rank (Patarasuk and Yuan 2009).
int64_t DenseRingBytes(int ranks, int64_t dense_parameters) {
  return 2 * (int64_t{ranks} - 1) * 4 * dense_parameters;
}

}  // namespace

Run::Run(const Spec& spec, const RunOptions& options, Start start,
         comm::Communicator* communicator, const sparse::Compute& compute,
         Journal* journal)
    : spec_(spec),
      options_(options),
      start_(std::move(start)),
      communicator_(communicator),
      compute_(compute),
      journal_(journal),
      counters_(start_.counters),
      metrics_(static_cast<int64_t>(start_.loss->metric_names().size())),
      masks_(spec, TotalSteps(spec, start_.order->steps_per_epoch())),
      pruning_(spec, TotalSteps(spec, start_.order->steps_per_epoch())),
      writer_(options.out + "/checkpoints",
              spec.checkpoint().at("keep").integer(), communicator),
      began_(Clock::now()) {
  length_.steps_per_epoch = start_.order->steps_per_epoch();
  length_.total_steps = TotalSteps(spec, length_.steps_per_epoch);
  eval_every_ =
      IntervalSteps(spec.train().at("eval_every"), length_.steps_per_epoch);
  checkpoint_every_ =
      IntervalSteps(spec.checkpoint().at("every"), length_.steps_per_epoch);
  CountFlopsPerSample();
  seconds_at_start_ = counters_.seconds;
  joules_at_start_ = counters_.joules;
  if (!start_.resumed_from.empty()) checkpoint_step_ = counters_.step;
}

StateParts Run::Parts() {
  return {start_.model.get(),     start_.statistics.get(),
          start_.optimizer.get(), start_.exchange.get(),
          start_.hosted_shards,   start_.average.values()};
}

bool Run::Every(int64_t interval) const {
  return interval > 0 && counters_.step % interval == 0;
}

double Run::SecondsSinceStart() const { return Seconds(Clock::now() - began_); }

bool Run::TimeIsUp() const {
  // The last step must still fit, twice over.
  return options_.max_seconds > 0 &&
         SecondsSinceStart() + 2 * longest_step_s_ > options_.max_seconds;
}

data::Loader Run::NewLoader(int64_t last_step) const {
  return {start_.train_data.get(),
          *start_.order,
          data::NewTrainingTransform(spec_.data(), start_.train_data->shape(),
                                     spec_.seed()),
          start_.model->layout(),
          start_.hosted_shards,
          counters_.step,
          last_step};
}

std::vector<double> Run::Steps(int64_t count, nn::Model::NodeSeconds* nodes) {
  node_seconds_ = nodes;
  std::vector<double> seconds;
  data::Loader loader = NewLoader(counters_.step + count);
  for (int64_t i = 0; i < count; ++i) {
    const auto began = Clock::now();
    Step(&loader);
    seconds.push_back(Seconds(Clock::now() - began));
  }
  node_seconds_ = nullptr;
  return seconds;
}

RunResult Run::ToEnd() {
  RunFolder* folder = journal_->folder();
  if (folder) {
    folder->WriteSpec(spec_.json);
    Json mark = MetricsLine("start");
    mark.Set("ranks", communicator_->ranks());
    mark.Set("total_steps", length_.total_steps);
    mark.Set("layers",
             LayerSizes(start_.model->graph(), start_.model->parameters()));
    mark.Set("resumed_from",
             start_.resumed_from.empty() ? Json() : Json(start_.resumed_from));
    folder->AppendMetrics(mark);
  }
  journal_->Message(start_.resumed_from.empty()
                        ? "start: " + CountOf(length_.total_steps, "step") +
                              " of " + CountOf(spec_.global_batch(), "sample")
                        : "resume: step " + std::to_string(counters_.step) +
                              " of " + std::to_string(length_.total_steps) +
                              " from " + start_.resumed_from);

  std::optional<StoppedBy> stopped;
  const int64_t max_bad = spec_.train().at("max_bad_steps").integer();
  const int64_t verify_every = spec_.exchange().at("verify_every").integer();
  interval_began_ = Clock::now();
  {
    data::Loader loader = NewLoader(length_.total_steps);
    while (!stopped && counters_.step < length_.total_steps) {
      Step(&loader);
      if (vote_.write_failed || (writer_.active() && !vote_.writing)) {
        CompleteCheckpoint();
      }
      const bool last = counters_.step == length_.total_steps;
      if (verify_every > 0 && Every(verify_every)) {
        VerifyRanksAgree(Parts(), counters_.step, communicator_);
      }
      if (Every(spec_.train().at("log_every").integer()) || last) {
        LogInterval();
      }
      if (Every(eval_every_) && !last) EvaluateAll(data::Split::kValid);
      if (counters_.bad_steps_in_row > max_bad) {
        stopped = StoppedBy::kNan;
      } else if (!last && vote_.signal) {
        stopped = StoppedBy::kSignal;
      } else if (!last && vote_.time_up) {
        stopped = StoppedBy::kMaxTime;
      } else if (!last && Every(checkpoint_every_)) {
        BeginCheckpoint();
      }
    }
    bad_samples_ = loader.bad_samples();
  }

  if (!stopped) EvaluateAll(data::Split::kTest);
  if (stopped != StoppedBy::kNan) {
    BeginCheckpoint();
    if (writer_.active()) CompleteCheckpoint();
  } else if (writer_.active()) {
    CompleteCheckpoint();
  }
  RunResult result{.stopped_by = stopped.value_or(StoppedBy::kFinished)};
  const std::string state_hash = StateHash(
      Parts(), counters_.step, communicator_, snapshot_.owner_buffer());
  result.summary = Summary(result.stopped_by, state_hash);
  if (folder) folder->WriteSummary(result.summary);
  if (result.stopped_by == StoppedBy::kNan) {
    journal_->Warning(
        "stopped: " + std::to_string(counters_.bad_steps_in_row) +
        " steps in a row had a non-finite gradient and were skipped; lower "
        "train.lr or set train.clip_norm, then go on from the last checkpoint");
  }
  journal_->Message(std::string("stop: ") + StoppedByName(result.stopped_by) +
                    " at step " + std::to_string(counters_.step));
  return result;
}

void Run::Step(data::Loader* loader) {
  const auto step_began = Clock::now();
  // Training drops tails: every step has a whole batch, or all the data.
  const int64_t valid = std::min(spec_.global_batch(), start_.order->size());
  // A batch without a single sample has no mean: its gradient is zero.
  const float scale =
      valid > 0 ? static_cast<float>(1.0 / static_cast<double>(valid)) : 0.0f;
  shard_sums_.clear();
  masks_.BeginStep();
  for (size_t i = 0; i < start_.hosted_shards.size(); ++i) {
    ComputeShard(*loader->Next(), scale);
  }

  rate_ = LearningRate(spec_.train().at("lr"), length_, counters_.step);
  const auto exchange_began = Clock::now();
  nn::ParameterSet& parameters = start_.model->parameters();
  const bool finite = start_.exchange->Reduce([&](int bucket,
                                                  std::span<const float> sum) {
    start_.optimizer->Apply(compute_, &parameters,
                            start_.buckets[static_cast<size_t>(bucket)].begin,
                            sum, rate_, counters_.step - counters_.bad_steps);
  });
  if (finite) {
    start_.exchange->Commit();
    start_.statistics->Commit();
    parameters.Refresh(compute_.parallel);
    start_.average.Add(compute_, parameters);
    UpdateMasks(valid);
    counters_.bad_steps_in_row = 0;
  } else {
    start_.exchange->Discard();
    ++counters_.bad_steps;
    ++counters_.bad_steps_in_row;
    journal_->Warning("step " + std::to_string(counters_.step) +
                      ": a gradient is not finite; the step is skipped on all "
                      "ranks");
  }
  exchange_wait_s_ += Seconds(Clock::now() - exchange_began);

  const RankVote mine{
      .signal = options_.stop_signal && options_.stop_signal->load() != 0,
      .time_up = TimeIsUp(),
      .writing = writer_.active() && writer_.writing(),
      .write_failed = writer_.failed(),
      .bytes_sent = communicator_->bytes_sent(),
      .exchange_wait_s = exchange_wait_s_,
      .data_wait_s = loader->wait_seconds()};
  vote_ = Vote(communicator_, mine, shard_sums_, metrics_);
  ++counters_.step;
  Count(valid, &vote_);
  longest_step_s_ =
      std::max(longest_step_s_, Seconds(Clock::now() - step_began));
  if (journal_->observer()) journal_->observer()->OnStep(CurrentProgress());
}

void Run::ComputeShard(const data::Batch& batch, float scale) {
  nn::GrowthSearch search;
  const bool searches = masks_.Due(counters_.step);
  if (searches) search = masks_.NewSearch(*start_.model, counters_.step);
  const nn::Model::Pass pass{
      .kind = nn::PassKind::kTraining,
      .epoch = static_cast<uint32_t>(batch.epoch),
      .samples = batch.samples,
      .labels = batch.labels,
      .rows = batch.rows,
      .statistics = start_.statistics->current(batch.shard),
      .next_statistics = start_.statistics->next(batch.shard),
      .growth = searches ? &search : nullptr,
      .seconds = node_seconds_};
  const Panel output = start_.model->Forward(batch.x, pass);
  shard_sums_.push_back(
      start_.loss->Compute(compute_, output,
                           {.labels = batch.labels,
                            .values = batch.targets,
                            .sets = batch.label_sets,
                            .class_weights = start_.class_weights},
                           nn::Loss::kWithGradient, scale));
  // Tensors become final from the last to the first, and so do the buckets.
  auto bucket = static_cast<int64_t>(start_.buckets.size()) - 1;
  const auto tensors = start_.model->parameters().tensors();
  const auto done = [&](int tensor) {
    const int64_t final_from = tensors[static_cast<size_t>(tensor)].offset;
    for (; bucket >= 0 &&
           start_.buckets[static_cast<size_t>(bucket)].begin >= final_from;
         --bucket) {
      start_.exchange->Add(batch.shard, static_cast<int>(bucket));
    }
  };
  start_.model->Backward(batch.x, output, pass,
                         start_.exchange->Gradient(batch.shard), done);
}

void Run::CountFlopsPerSample() {
  const nn::Graph& graph = start_.model->graph();
  flops_executed_per_sample_ = start_.plan.flops_again;
  flops_dense_per_sample_ = 0;
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    // Layers of sparse rows work as much as the plan expects of the data.
    flops_executed_per_sample_ +=
        graph.nodes[static_cast<size_t>(i)].layer->reads() ==
                SampleKind::kSparse
            ? start_.plan.layers[static_cast<size_t>(i)].flops_executed
            : kFlopsPerMultiplyAdd * graph.MultiplyAdds(i);
    flops_dense_per_sample_ +=
        kFlopsPerMultiplyAdd * graph.DenseMultiplyAdds(i);
  }
}

void Run::UpdateMasks(int64_t valid) {
  const bool prune = pruning_.Due(counters_.step);
  if (!prune && !masks_.Due(counters_.step)) return;
  // The checkpoint being written refers to the masks as they are.
  if (writer_.active()) CompleteCheckpoint();
  if (prune) {
    pruning_.Apply(counters_.step, &start_, communicator_, compute_);
    CountFlopsPerSample();
    return;
  }
  masks_.Apply(counters_.step, Parts(), compute_.parallel, communicator_,
               snapshot_.owner_buffer());
  counters_.flops_executed +=
      2 * masks_.SearchMultiplyAdds(start_.model->graph()) * valid;
}

void Run::Count(int64_t valid, VoteResult* vote) {
  counters_.samples += valid;
  interval_samples_ += valid;
  counters_.flops_executed += flops_executed_per_sample_ * valid;
  counters_.flops_dense += flops_dense_per_sample_ * valid;
  counters_.wire_bytes += vote->bytes_sent - bytes_counted_;
  bytes_counted_ = vote->bytes_sent;
  counters_.wire_bytes_dense +=
      DenseRingBytes(communicator_->ranks(), start_.plan.parameters);
  counters_.exchange_wait_s += vote->exchange_wait_s - exchange_wait_counted_s_;
  exchange_wait_counted_s_ = vote->exchange_wait_s;
  counters_.data_wait_s += vote->data_wait_s - data_wait_counted_s_;
  data_wait_counted_s_ = vote->data_wait_s;
  counters_.seconds = seconds_at_start_ + SecondsSinceStart();
  // A skipped step has no loss to speak of.
  if (counters_.bad_steps_in_row == 0) counters_.interval.Add(vote->sums);
}

void Run::LogInterval() {
  const auto now = Clock::now();
  const double seconds = Seconds(now - interval_began_);
  samples_per_s_ = static_cast<double>(interval_samples_) / seconds;
  interval_began_ = now;
  interval_samples_ = 0;
  meter_.Joules();  // often enough for its counters
  const nn::LossSums& sums = counters_.interval;
  if (sums.samples > 0) {
    counters_.train_loss = sums.loss / static_cast<double>(sums.samples);
  }
  if (RunFolder* folder = journal_->folder()) {
    Json line = MetricsLine("train");
    const Json metrics = MetricsJson(sums, *start_.loss);
    for (const auto& [name, value] : metrics.members()) {
      // Null: counted by evaluations only.
      if (name != "samples" && !value.is_null()) line.Set(name, value);
    }
    line.Set("lr", rate_);
    folder->AppendMetrics(line);
  }
  counters_.interval = nn::LossSums();
}

void Run::EvaluateAll(data::Split because) {
  // With a validation split the test set is only looked at in the end.
  if (start_.valid_data) Evaluate(*start_.valid_data, data::Split::kValid);
  if (start_.test_data &&
      (because == data::Split::kTest || !start_.valid_data)) {
    Evaluate(*start_.test_data, data::Split::kTest);
  }
}

void Run::Evaluate(const data::Dataset& dataset, data::Split split) {
  const auto began = Clock::now();
  CombineStatistics(Parts(), communicator_);
  nn::ParameterSet& parameters = start_.model->parameters();
  start_.average.Swap(compute_.parallel, &parameters);
  const nn::LossSums sums =
      EvaluateSplit(spec_, dataset, start_.hosted_shards, *start_.loss,
                    start_.model.get(), communicator_, compute_);
  start_.average.Swap(compute_.parallel, &parameters);
  const Json metrics = MetricsJson(sums, *start_.loss);
  if (split == data::Split::kTest) counters_.test = metrics;
  if (split == data::Split::kValid) RememberBest(metrics);
  const std::string name(data::SplitName(split));
  if (RunFolder* folder = journal_->folder()) {
    Json line = MetricsLine(name);
    for (const auto& [key, value] : metrics.members()) line.Set(key, value);
    folder->AppendMetrics(line);
  }
  if (journal_->observer()) {
    journal_->observer()->OnEvaluation(CurrentProgress(), name, metrics);
  }
  // The time of an evaluation is not the training's.
  interval_began_ += Clock::now() - began;
}

void Run::RememberBest(const Json& metrics) {
  const Json& rule = spec_.checkpoint().at("best");
  const std::string& metric = rule.at("metric").text();
  const Json* found = metrics.Find(metric);
  if (found->is_null()) return;
  const bool more = rule.at("mode").text() == "max";
  if (counters_.best.is_object()) {
    const double old = counters_.best.at("value").number();
    const double now = found->number();
    if (more ? now <= old : now >= old) return;
  }
  Json best = Json::Object();
  best.Set("step", counters_.step);
  best.Set("split", std::string("valid"));
  best.Set("metric", metric);
  best.Set("value", *found);
  counters_.best = std::move(best);
  MeasureEnergy();
  counters_.to_best = Cost();
  BeginCheckpoint();
}

void Run::BeginCheckpoint() {
  if (checkpoint_step_ == counters_.step) return;
  if (writer_.active()) CompleteCheckpoint();
  MeasureEnergy();
  snapshot_.Take(Parts(), communicator_);
  checkpoint_step_ = counters_.step;
  writer_.Begin(counters_.step, counters_.best,
                snapshot_.Files(spec_, start_.mathematical_text, counters_));
}

void Run::CompleteCheckpoint() {
  writer_.Complete();
  journal_->Message("checkpoint: " + writer_.last_complete());
}

}  // namespace lumen::train
