// SPDX-License-Identifier: Apache-2.0
// Trains a small network in every way this machine offers and compares the
// bits.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "banner.h"
#include "command_line.h"
#include "lumen/core/error.h"
#include "lumen/train/trainer.h"
#include "session.h"
#include "text_bytes.h"

namespace lumen::cli {
namespace {

namespace fs = std::filesystem;

// A network and what its state is after the last step, on every machine. The
// layers are sparse and dense, with a width that is no multiple of a vector.
struct Example {
  const char* name;
  const char* text;
  const char* state_hash;
};

// Four samples per shard in one vector of lanes; top-k, int8, clipping.
constexpr Example kNarrow = {"narrow tiles, split exchange", R"({
  "data": {"type": "synthetic", "shape": [20], "classes": 5,
           "samples": {"train": 512, "test": 100}},
  "model": {
    "layers": [
      {"name": "fc1", "type": "linear", "units": 64},
      {"type": "relu"}, {"type": "dropout", "rate": 0.1},
      {"name": "fc2", "type": "linear", "units": 48}, {"type": "relu"},
      {"name": "fc3", "type": "linear", "units": 5}],
    "sparsity": {"method": "static", "density": 0.2, "exclude": ["fc3"]}},
  "train": {"shards": 64, "global_batch": 256, "steps": 8, "lr": 0.1,
            "clip_norm": 1.0, "eval_every": 0},
  "exchange": {"type": "split", "compressor": {"type": "topk", "density": 0.1}},
  "checkpoint": {"every": 4}
})",
                             "f178ae6f2652e043"};

// 250 samples per shard in two tiles of 128 lanes, six of them masked.
constexpr Example kWide = {"wide tiles, dense exchange", R"({
  "data": {"type": "synthetic", "shape": [37], "classes": 7,
           "samples": {"train": 16000, "test": 100}},
  "model": {
    "layers": [
      {"name": "fc1", "type": "linear", "units": 65},
      {"type": "relu"}, {"type": "dropout", "rate": 0.1},
      {"name": "fc2", "type": "linear", "units": 51}, {"type": "relu"},
      {"name": "fc3", "type": "linear", "units": 7}],
    "sparsity": {"method": "static", "density": 0.2, "exclude": ["fc2"]}},
  "train": {"shards": 64, "global_batch": 16000, "steps": 3, "lr": 0.1,
            "optimizer": {"type": "sgd", "momentum": 0.9, "nesterov": true,
                          "weight_decay": 1e-4},
            "eval_every": 0},
  "exchange": {"type": "dense"},
  "checkpoint": {"every": 0}
})",
                           "a90675a235cb02b2"};

// A folder that all ranks can reach, removed at the end: temporary on one host;
// on several a temporary folder is rarely shared, so there the current one.
class Scratch {
 public:
  explicit Scratch(const Session& session)
      : communicator_(session.communicator.get()) {
    if (communicator_->rank() == 0) {
      const bool one_host =
          std::all_of(session.ranks.begin(), session.ranks.end(),
                      [&](const RankInfo& info) {
                        return info.host == session.ranks[0].host;
                      });
      const fs::path parent =
          one_host ? fs::temp_directory_path() : fs::current_path();
      path_ = (parent / fmt::format("lumen-selftest-{}", getpid())).string();
      std::error_code failure;
      fs::create_directories(path_, failure);
      if (failure) {
        throw IoError(path_ + ": cannot create: " + failure.message());
      }
    }
    std::vector<std::byte> bytes = ToBytes(path_);
    communicator_->Broadcast(0, &bytes);
    path_ = ToText(bytes);
    RequireSharedFolder(communicator_, path_,
                        "start in a folder that all hosts share");
  }
  ~Scratch() {
    std::error_code ignored;
    if (communicator_->rank() == 0) fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& path() const { return path_; }

 private:
  comm::Communicator* communicator_;
  std::string path_;
};

class Selftest {
 public:
  explicit Selftest(Session* session)
      : session_(*session), scratch_(*session) {}

  int Run() {
    for (sparse::Isa isa : sparse::AvailableIsas()) {
      if (isa > session_.compute.kernels->isa) continue;
      const std::string name(sparse::IsaName(isa));
      for (const Example& example : {kNarrow, kWide}) {
        Same(name + " kernels train to the known state (" + example.name + ")",
             Train(isa, example), example);
      }
    }
    const sparse::Isa isa = session_.compute.kernels->isa;
    Train(isa, kNarrow, "resumed", "train.steps=6");
    Same("a checkpoint brings every bit back", Train(isa, kNarrow, "resumed"),
         kNarrow);
    const std::string other = Train(isa, kNarrow, "", "train.seed=2");
    Report("another seed gives another state", other != kNarrow.state_hash);
    return failures_ == 0 ? 0 : 1;
  }

 private:
  // The state hash on rank 0. Runs of one name go on from one another.
  std::string Train(sparse::Isa isa, const Example& example,
                    std::string name = "", const std::string& change = "") {
    if (name.empty()) name = fmt::format("run-{}", runs_++);
    std::vector<std::string> overrides;
    if (!change.empty()) overrides.push_back(change);
    const train::Spec spec =
        train::ParseSpec(example.text, "selftest spec", overrides);
    train::RunOptions options;
    options.out = scratch_.path() + "/" + name;
    sparse::Compute compute = session_.compute;
    compute.kernels = &sparse::Kernels(isa);
    const train::RunResult result = train::RunTraining(
        spec, options, session_.communicator.get(), compute, nullptr);
    return session_.communicator->rank() == 0
               ? result.summary.at("state_hash").text()
               : std::string();
  }

  void Same(std::string claim, const std::string& hash,
            const Example& example) {
    const bool holds = hash == example.state_hash;
    if (!holds) {
      claim += ": found " + hash + ", expected " + example.state_hash;
    }
    Report(claim, holds);
  }

  void Report(const std::string& claim, bool holds) {
    if (session_.communicator->rank() != 0) return;
    fmt::print("{}  {}\n", holds ? "ok    " : "FAILED", claim);
    std::fflush(stdout);  // the next claim takes a moment
    if (!holds) ++failures_;
  }

  Session& session_;
  Scratch scratch_;
  int runs_ = 0;
  int failures_ = 0;
};

}  // namespace

int RunSelftest(const CommandLine& line) {
  return RunTogether(line, [](Session* session) {
    if (session->communicator->rank() == 0) {
      fmt::print("{}\n", Banner(*session, 64));
      std::fflush(stdout);
    }
    return Selftest(session).Run();
  });
}

}  // namespace lumen::cli
