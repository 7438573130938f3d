// SPDX-License-Identifier: Apache-2.0
#include "lumen/train/spec.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "lumen/comm/exchange.h"
#include "lumen/core/error.h"
#include "lumen/core/file.h"
#include "lumen/core/hash.h"
#include "lumen/data/dataset.h"
#include "lumen/nn/model.h"
#include "lumen/train/optimizer.h"
#include "lumen/train/schedule.h"

namespace lumen::train {
namespace {

// Functions where rows refer to tables of other files.
std::vector<Key> NewTrainKeys() {
  return {
      {.name = "seed",
       .kind = KeyKind::kInteger,
       .fallback = "1",
       .help = "of every random stream: order, masks, initial values, dropout",
       .minimum = 0},
      {.name = "shards",
       .kind = KeyKind::kInteger,
       .fallback = "4",
       .help =
           "mathematical data-parallel width S; at most S ranks can share a "
           "run",
       .minimum = 1,
       .maximum = 65536},
      {.name = "global_batch",
       .kind = KeyKind::kInteger,
       .help = "samples per step over all shards; a multiple of shards",
       .minimum = 1},
      {.name = "epochs",
       .kind = KeyKind::kNumber,
       .fallback = "null",
       .help = "length of the run; this or steps",
       .minimum = 0,
       .mathematical = false},
      {.name = "steps",
       .kind = KeyKind::kInteger,
       .fallback = "null",
       .help = "length of the run; this or epochs",
       .minimum = 0,
       .mathematical = false},
      {.name = "optimizer",
       .kind = KeyKind::kVariant,
       .fallback = R"({"type": "sgd"})",
       .help = "how parameters follow the mean gradient",
       .variants = OptimizerVariants},
      {.name = "lr",
       .kind = KeyKind::kVariant,
       .help = "learning rate: a schedule, or a number for a constant rate",
       .variants = ScheduleVariants,
       .common = kCommonScheduleKeys,
       .shorthand_type = "constant",
       .shorthand_key = "base"},
      {.name = "ema",
       .kind = KeyKind::kNumber,
       .fallback = "null",
       .help = "decay per step of a running average of the weights, which "
               "evaluations use; null: they use the weights themselves",
       .minimum = 0,
       .maximum = 0.999999},
      {.name = "clip_norm",
       .kind = KeyKind::kNumber,
       .fallback = "null",
       .help = "largest norm of the mean gradient (per shard and divided by "
               "sqrt(shards) when it is compressed)",
       .minimum = 0},
      {.name = "max_bad_steps",
       .kind = KeyKind::kInteger,
       .fallback = "10",
       .help = "steps in a row that may be skipped for a non-finite gradient",
       .minimum = 0},
      {.name = "eval_every",
       .kind = KeyKind::kInterval,
       .fallback = "\"1 epochs\"",
       .help = "evaluation interval; 0: only at the end",
       .mathematical = false},
      {.name = "log_every",
       .kind = KeyKind::kInteger,
       .fallback = "20",
       .help = "steps per line of metrics.jsonl",
       .minimum = 1,
       .mathematical = false},
  };
}

constexpr Key kMemoryKeys[] = {
    {.name = "activations",
     .kind = KeyKind::kText,
     .fallback = "\"fp32\"",
     .help = "how activations are stored between layers",
     .choices = "fp32"},
    {.name = "recompute",
     .kind = KeyKind::kText,
     .fallback = "\"none\"",
     .help =
         "what the backward pass computes again instead of keeping: nothing; "
         "the insides of blocks of layers (block: least memory); as little "
         "as the limit allows (auto; without a limit: the free memory of "
         "this machine)",
     .choices = "none|block|auto",
     .mathematical = false},
    {.name = "limit",
     .kind = KeyKind::kBytes,
     .fallback = "null",
     .help = "refuse to start when a rank is planned to need more",
     .minimum = 0,
     .mathematical = false},
};

constexpr Key kBestKeys[] = {
    {.name = "split",
     .kind = KeyKind::kText,
     .fallback = "\"valid\"",
     .help = "split that chooses the best checkpoint; without it the last is "
             "best",
     .choices = "valid",
     .mathematical = false},
    {.name = "metric",
     .kind = KeyKind::kText,
     .fallback = "\"accuracy\"",
     .help = "a metric of the loss, or \"loss\"",
     .mathematical = false},
    {.name = "mode",
     .kind = KeyKind::kText,
     .fallback = "\"max\"",
     .help = "is more better, or less",
     .choices = "max|min",
     .mathematical = false},
};

constexpr Key kCheckpointKeys[] = {
    {.name = "every",
     .kind = KeyKind::kInterval,
     .fallback = "500",
     .help = "checkpoint interval; 0: only at the end and when stopped",
     .mathematical = false},
    {.name = "keep",
     .kind = KeyKind::kInteger,
     .fallback = "3",
     .help = "newest checkpoints that are kept, besides the best",
     .minimum = 1,
     .mathematical = false},
    {.name = "best",
     .kind = KeyKind::kObject,
     .fallback = "{}",
     .help = "which checkpoint counts as the best",
     .keys = kBestKeys,
     .mathematical = false},
};

std::vector<Key> NewSpecKeys() {
  static const std::vector<Key> train_keys = NewTrainKeys();
  return {
      {.name = "data",
       .kind = KeyKind::kVariant,
       .help = "where samples come from",
       .variants = data::DatasetVariants,
       .common = data::kCommonDataKeys},
      {.name = "model",
       .kind = KeyKind::kObject,
       .help = "layers, masks, initial values and loss",
       .keys = nn::ModelKeys()},
      {.name = "train",
       .kind = KeyKind::kObject,
       .help = "batches, optimizer and length",
       .keys = train_keys},
      {.name = "exchange",
       .kind = KeyKind::kVariant,
       .fallback = R"({"type": "dense"})",
       .help = "how shard gradients become one sum",
       .variants = comm::ExchangeVariants,
       .common = comm::kCommonExchangeKeys},
      {.name = "memory",
       .kind = KeyKind::kObject,
       .fallback = "{}",
       .help = "what is kept in memory",
       .keys = kMemoryKeys},
      {.name = "checkpoint",
       .kind = KeyKind::kObject,
       .fallback = "{}",
       .help = "when the state is saved and how much of it stays",
       .keys = kCheckpointKeys,
       .mathematical = false},
  };
}

constexpr ExclusivePair kRunLength[] = {{"train.steps", "train.epochs"}};

// What no single key can tell.
void CheckTogether(const Spec& spec) {
  const Json& train = spec.train();
  if (train.at("epochs").is_null() == train.at("steps").is_null()) {
    throw SpecError(train.where() +
                    ": train: needs either \"epochs\" or \"steps\", " +
                    (train.at("steps").is_null() ? "has none" : "has both"));
  }
  if (spec.global_batch() % spec.shards() != 0) {
    throw SpecError(
        train.at("global_batch").where() +
        ": train.global_batch: " + std::to_string(spec.global_batch()) +
        "; expected a multiple of train.shards (" +
        std::to_string(spec.shards()) + ")");
  }
}

}  // namespace

std::span<const Key> SpecKeys() {
  static const std::vector<Key> keys = NewSpecKeys();
  return keys;
}

uint64_t Spec::seed() const {
  return static_cast<uint64_t>(train().at("seed").integer());
}

int Spec::shards() const {
  return static_cast<int>(train().at("shards").integer());
}

int64_t Spec::global_batch() const {
  return train().at("global_batch").integer();
}

std::string Spec::MathematicalText(uint64_t data_fingerprint) const {
  return lumen::MathematicalText(json, SpecKeys()) +
         "data.fingerprint=" + HexDigest(data_fingerprint) + "\n";
}

Spec ParseSpec(const std::string& text, const std::string& source,
               std::span<const std::string> overrides) {
  Json given = Json::Parse(text, source);
  for (const std::string& override_text : overrides) {
    ApplyOverride(&given, override_text, kRunLength);
  }
  Spec spec{.json = Resolve(given, SpecKeys()),
            .name = std::filesystem::path(source).stem().string()};
  CheckTogether(spec);
  return spec;
}

std::string ReadSpecText(const std::string& path) {
  struct stat status;
  std::string wrong;
  if (stat(path.c_str(), &status) != 0) {
    wrong = std::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    // Reading a pipe may wait for ever, and only one rank could.
    wrong = S_ISDIR(status.st_mode)    ? "is a folder"
            : S_ISFIFO(status.st_mode) ? "is a pipe"
                                       : "is no regular file";
  }
  if (!wrong.empty()) {
    throw SpecError(path + ": " + wrong + "; expected the file of a spec");
  }
  return ReadFile(path);
}

Spec LoadSpec(const std::string& path, std::span<const std::string> overrides) {
  return ParseSpec(ReadSpecText(path), path, overrides);
}

int64_t IntervalSteps(const Json& interval, int64_t steps_per_epoch) {
  const Interval parsed = ParseInterval(interval);
  if (parsed.epochs == 0) return parsed.steps;
  const double steps = parsed.epochs * static_cast<double>(steps_per_epoch);
  return std::max<int64_t>(1, static_cast<int64_t>(steps + 0.5));
}

int64_t TotalSteps(const Spec& spec, int64_t steps_per_epoch) {
  const Json& steps = spec.train().at("steps");
  if (!steps.is_null()) return steps.integer();
  return static_cast<int64_t>(spec.train().at("epochs").number() *
                                  static_cast<double>(steps_per_epoch) +
                              0.5);
}

}  // namespace lumen::train
