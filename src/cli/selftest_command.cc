// SPDX-License-Identifier: Apache-2.0
// Trains a small network in every way this machine offers and compares the
// bits.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "banner.h"
#include "command_line.h"
#include "lumen/core/error.h"
#include "lumen/train/trainer.h"
#include "session.h"

namespace lumen::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kSpec[] = R"({
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
})";

// Parameters, moments and residuals after the 8 steps, on every machine.
constexpr char kStateHash[] = "f178ae6f2652e043";

// A folder that all ranks of a host can reach, removed at the end.
class Scratch {
 public:
  explicit Scratch(comm::Communicator* communicator)
      : communicator_(communicator) {
    std::string name;
    if (communicator->rank() == 0) {
      name = (fs::temp_directory_path() /
              fmt::format("lumen-selftest-{}", getpid()))
                 .string();
    }
    std::vector<std::byte> bytes(name.size());
    std::transform(name.begin(), name.end(), bytes.begin(),
                   [](char c) { return static_cast<std::byte>(c); });
    communicator->Broadcast(0, &bytes);
    for (std::byte b : bytes) path_ += static_cast<char>(b);
  }
  ~Scratch() {
    std::error_code ignored;
    if (communicator_->rank() == 0) fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  comm::Communicator* communicator_;
  std::string path_;
};

class Selftest {
 public:
  explicit Selftest(Session* session)
      : session_(*session), scratch_(session->communicator.get()) {}

  int Run() {
    for (sparse::Isa isa : sparse::AvailableIsas()) {
      if (isa > session_.compute.kernels->isa) continue;
      const std::string name(sparse::IsaName(isa));
      Same(name + " kernels train to the known state", Train(isa, name, kSpec));
    }
    const sparse::Isa isa = session_.compute.kernels->isa;
    Train(isa, "resumed", kSpec, "train.steps=6");
    Same("a checkpoint brings every bit back", Train(isa, "resumed", kSpec));
    Report("another seed gives another state",
           Train(isa, "seed", kSpec, "train.seed=2") != kStateHash);
    return failures_ == 0 ? 0 : 1;
  }

 private:
  // The state hash on rank 0.
  std::string Train(sparse::Isa isa, const std::string& name,
                    const std::string& text, const std::string& change = "") {
    std::vector<std::string> overrides;
    if (!change.empty()) overrides.push_back(change);
    const train::Spec spec = train::ParseSpec(text, "selftest spec", overrides);
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

  void Same(const std::string& claim, const std::string& hash) {
    Report(claim + (hash == kStateHash
                        ? ""
                        : ": found " + hash + ", expected " + kStateHash),
           hash == kStateHash);
  }

  void Report(const std::string& claim, bool holds) {
    if (session_.communicator->rank() != 0) return;
    fmt::print("{}  {}\n", holds ? "ok    " : "FAILED", claim);
    if (!holds) ++failures_;
  }

  Session& session_;
  Scratch scratch_;
  int failures_ = 0;
};

}  // namespace

int RunSelftest(const CommandLine& line) {
  return RunTogether(line, [](Session* session) {
    if (session->communicator->rank() == 0) {
      fmt::print("{}\n", Banner(*session, 64));
    }
    return Selftest(session).Run();
  });
}

}  // namespace lumen::cli
