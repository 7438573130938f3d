// SPDX-License-Identifier: Apache-2.0
#include "start.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "evaluator.h"
#include "lumen/core/error.h"
#include "lumen/core/text.h"
#include "lumen/train/checkpoint.h"
#include "model_build.h"

namespace lumen::train {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span<const char>(text));
}

std::string AsText(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::string> GatherTexts(const std::string& mine,
                                     comm::Communicator* communicator) {
  std::vector<std::string> texts;
  for (const auto& bytes : communicator->AllGather(AsBytes(mine))) {
    texts.push_back(AsText(bytes));
  }
  return texts;
}

std::string BroadcastText(std::string text, comm::Communicator* communicator) {
  std::vector<std::byte> bytes(AsBytes(text).begin(), AsBytes(text).end());
  communicator->Broadcast(0, &bytes);
  return AsText(bytes);
}

std::string JoinLines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "\n  " + line;
  return text;
}

// Runs `task` on every rank; when it throws an IoError anywhere, all throw the
// first rank's. Collective.
template <class Task>
void Together(comm::Communicator* communicator, const Task& task) {
  std::string mine;
  try {
    task();
  } catch (const IoError& error) {
    mine = error.what();
  }
  const auto texts = GatherTexts(mine, communicator);
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty()) continue;
    throw SharedIoError("rank " + std::to_string(rank) + " (" +
                        communicator->host_of(static_cast<int>(rank)) +
                        "): " + texts[rank]);
  }
}

// Ranks that were started with another spec or see other data stop here.
void RequireSameMathematics(const std::string& mine,
                            comm::Communicator* communicator) {
  const auto texts = GatherTexts(mine, communicator);
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    throw SpecError("rank " + std::to_string(rank) +
                    " was started with another spec or other data than rank "
                    "0; expected the same on all ranks (rank " +
                    std::to_string(rank) + ", rank 0):" +
                    JoinLines(DifferingKeys(texts[rank], texts[0])));
  }
}

// "" when this rank's part of the checkpoint is whole: the manifest and
// model.h5 for rank 0, the files of its shards for everybody.
std::string Damage(const std::string& checkpoint,
                   const std::vector<int>& hosted_shards, int rank) {
  try {
    const Manifest manifest = ReadManifest(checkpoint);
    if (rank == 0) VerifyFile(checkpoint, manifest, "model.h5");
    for (int shard : hosted_shards) {
      const std::string name = "shard-" + std::to_string(shard) + ".h5";
      if (manifest.Find(name)) VerifyFile(checkpoint, manifest, name);
    }
    return "";
  } catch (const IoError& error) {
    return error.what();
  }
}

// The newest checkpoint that is whole on all ranks, or "". Collective.
std::string NewestWhole(const std::vector<std::string>& candidates,
                        const std::vector<int>& hosted_shards,
                        comm::Communicator* communicator, Journal* journal) {
  for (const std::string& path : candidates) {
    std::string damage;
    for (const std::string& reason : GatherTexts(
             Damage(path, hosted_shards, communicator->rank()), communicator)) {
      if (damage.empty()) damage = reason;
    }
    if (damage.empty()) return path;
    journal->Warning("skipping a checkpoint that is not whole: " + damage);
  }
  return "";
}

// Was any of them ever finished? A run that was killed while it wrote its first
// checkpoint has none, and loses nothing by starting over. As rank 0 sees it.
bool AnyComplete(const std::vector<std::string>& candidates,
                 comm::Communicator* communicator) {
  std::string finished;
  if (communicator->rank() == 0) {
    for (const std::string& path : candidates) {
      if (fs::exists(path + "/MANIFEST.json")) finished = path;
    }
  }
  return !BroadcastText(finished, communicator).empty();
}

std::vector<std::string> SplitLines(const std::string& text) {
  std::vector<std::string> lines;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// Which checkpoint to go on from, or "". Rank 0 lists, all verify.
std::string ChooseCheckpoint(const RunOptions& options,
                             const std::vector<int>& hosted_shards,
                             comm::Communicator* communicator,
                             Journal* journal) {
  const bool named = options.resume != "auto" && options.resume != "never";
  std::vector<std::string> candidates;
  if (communicator->rank() == 0) {
    const bool is_run =
        named && fs::is_directory(options.resume + "/checkpoints");
    if (named && !is_run) {
      candidates = {options.resume};
    } else if (is_run || !options.out.empty()) {
      candidates = ListCheckpoints(is_run ? options.resume : options.out);
    }
  }
  std::string joined;
  for (const std::string& path : candidates) joined += path + "\n";
  candidates = SplitLines(BroadcastText(joined, communicator));
  if (options.resume == "never") {
    if (candidates.empty()) return "";
    throw SpecError("--resume=never: " + options.out + " already holds " +
                    CountOf(std::ssize(candidates), "checkpoint") +
                    "; use another --out, or --resume=auto to "
                    "go on");
  }
  const std::string found =
      NewestWhole(candidates, hosted_shards, communicator, journal);
  if (!found.empty()) return found;
  if (named) {
    throw SharedIoError("--resume=" + options.resume +
                        ": no whole checkpoint there");
  }
  if (!candidates.empty() && AnyComplete(candidates, communicator)) {
    throw SharedIoError(
        options.out + ": none of its " + std::to_string(candidates.size()) +
        " checkpoint(s) is whole; to start over, use another --out");
  }
  return "";
}

void RequireSameRun(const std::string& checkpoint, const std::string& stored,
                    const std::string& mine) {
  if (stored == mine) return;
  throw SpecError(checkpoint +
                  ": was made by another spec; only the run length, paths, "
                  "logging and checkpoint keys may change on resume (now, "
                  "checkpoint); use another --out to start afresh:" +
                  JoinLines(DifferingKeys(mine, stored)));
}

// The metric that chooses the best checkpoint must be one of this loss.
void RequireKnownMetric(const Spec& spec, const nn::Loss& loss) {
  const Json& metric = spec.checkpoint().at("best").at("metric");
  const Json metrics = MetricsJson(nn::LossSums(), loss);
  if (metrics.Find(metric.text()) != nullptr) return;
  std::string known;
  for (const auto& [name, value] : metrics.members()) {
    if (name != "samples") known += (known.empty() ? "" : ", ") + name;
  }
  throw SpecError(metric.where() + ": checkpoint.best.metric: unknown \"" +
                  metric.text() + "\"; known for this loss: " + known +
                  "; with mode \"max\" or \"min\"");
}

}  // namespace

std::vector<comm::Bucket> BucketsOf(const Spec& spec,
                                    std::span<const int64_t> tensor_sizes) {
  constexpr int64_t kMost = int64_t{1} << 20;
  const Json& bucket = spec.exchange().at("bucket");
  const int64_t total =
      std::accumulate(tensor_sizes.begin(), tensor_sizes.end(), int64_t{0});
  if (total / bucket.integer() > kMost) {
    throw SpecError(bucket.where() +
                    ": exchange.bucket: " + std::to_string(bucket.integer()) +
                    " for " + std::to_string(total) +
                    " weights; expected at most a million buckets; use " +
                    std::to_string(total / kMost + 1) + " or more");
  }
  return comm::NewBuckets(tensor_sizes, spec.exchange().at("bucket").integer());
}

void NewWeightState(const Spec& spec, comm::Communicator* communicator,
                    const sparse::Compute& compute, Start* start) {
  const nn::ParameterSet& parameters = start->model->parameters();
  start->optimizer = NewOptimizer(spec.train().at("optimizer"), parameters);
  start->average = WeightAverage(spec.train().at("ema"), parameters);
  const Json& clip = spec.train().at("clip_norm");
  start->buckets = BucketsOf(spec, parameters.tensor_sizes());
  start->exchange =
      comm::NewExchange({.shards = spec.shards(),
                         .parameters = parameters.size(),
                         .buckets = start->buckets,
                         .spec = spec.exchange(),
                         .clip_norm = clip.is_null() ? 0.0 : clip.number()},
                        communicator, compute);
}

Start NewStart(const Spec& spec, const RunOptions& options,
               comm::Communicator* communicator, const sparse::Compute& compute,
               Journal* journal) {
  Start start;
  start.plan = NewPlan(spec, communicator->ranks(), compute.parallel.threads());
  if (journal->observer()) journal->observer()->OnPlan(start.plan);
  for (const std::string& warning : start.plan.warnings) {
    journal->Warning(warning);
  }

  Together(communicator, [&] {
    data::Datasets data = data::OpenDatasets(spec.data());
    start.train_data = std::move(data.train);
    start.valid_data = std::move(data.valid);
    start.test_data = std::move(data.test);
    if (start.train_data) {
      start.class_weights = data::ClassWeights(spec.data(), *start.train_data);
    }
  });
  if (start.train_data == nullptr) {
    throw SpecError(spec.data().where() +
                    ": data.train: missing; training needs it");
  }
  for (const auto* data : {start.train_data.get(), start.valid_data.get(),
                           start.test_data.get()}) {
    if (data == nullptr) continue;
    for (const std::string& note : data->notes()) journal->Message(note);
  }
  start.mathematical_text =
      spec.MathematicalText(start.train_data->fingerprint());
  RequireSameMathematics(start.mathematical_text, communicator);
  start.order.emplace(start.train_data->size(), spec.global_batch(),
                      spec.shards(), spec.seed(), data::DataOrder(spec.data()),
                      data::Tail::kDrop);
  if (start.train_data->size() < spec.global_batch()) {
    journal->Warning(
        "the training data (" + std::to_string(start.train_data->size()) +
        " samples) is smaller than train.global_batch (" +
        std::to_string(spec.global_batch()) +
        "): every step takes all of it, missing samples are masked");
  }
  start.hosted_shards = comm::HostedShards(spec.shards(), communicator->ranks(),
                                           communicator->rank());

  const Shape shape = start.train_data->shape();
  const int64_t classes = start.train_data->classes();
  start.resumed_from =
      ChooseCheckpoint(options, start.hosted_shards, communicator, journal);
  const nn::ActivationUse use = {.cuts = start.plan.cuts};
  Together(communicator, [&] {
    if (start.resumed_from.empty()) {
      start.model = std::make_unique<nn::Model>(
          ModelFromSpec(spec, shape, classes, compute, use));
    } else {
      const data::H5Reader file(start.resumed_from + "/model.h5");
      const CheckpointHead head = ReadHead(file);
      RequireSameRun(start.resumed_from, head.mathematical_text,
                     start.mathematical_text);
      start.counters = head.counters;
      start.model = std::make_unique<nn::Model>(
          ModelFromCheckpoint(spec, file, shape, classes, compute, use));
    }
  });

  RequireTargets(spec, *start.train_data);
  start.loss = nn::NewLoss(spec.model().at("loss"), classes);
  if (start.valid_data) RequireKnownMetric(spec, *start.loss);
  NewWeightState(spec, communicator, compute, &start);
  start.statistics = std::make_unique<ShardStatistics>(
      spec.shards(), start.hosted_shards, start.model->statistics());
  if (!start.resumed_from.empty()) {
    StateParts parts{start.model.get(),     start.statistics.get(),
                     start.optimizer.get(), start.exchange.get(),
                     start.hosted_shards,   start.average.values()};
    ReadTrainingState(start.resumed_from, &parts, communicator);
  }
  return start;
}

}  // namespace lumen::train
