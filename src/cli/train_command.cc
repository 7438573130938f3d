// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <glog/logging.h>

#include <string>
#include <string_view>

#include "banner.h"
#include "command_line.h"
#include "lumen/core/text.h"
#include "lumen/train/trainer.h"
#include "reporter.h"
#include "run_log.h"
#include "session.h"

namespace lumen::cli {
namespace {

constexpr int kRequeue = 75;  // EX_TEMPFAIL: start me again

// A word that a shell reads back as itself.
std::string Quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
      "_-./=:,+@%";
  if (word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

// The command that goes on from here.
std::string Again(const CommandLine& line, const std::string& out, int ranks) {
  std::string text = ranks > 1 ? fmt::format("mpirun -np {} ", ranks) : "";
  text +=
      "lumen train " + Quoted(line.arguments[0]) + " " + Quoted("--out=" + out);
  for (const std::string& change : line.overrides) text += " " + Quoted(change);
  return text;
}

void PrintEnd(const train::RunResult& result, const std::string& out,
              const std::string& again) {
  const Json& summary = result.summary;
  const double sent = summary.at("wire_bytes").number();
  const double dense = summary.at("wire_bytes_dense").number();
  if (summary.at("test").is_object()) {
    std::string line = "test";
    for (const auto& [name, value] : summary.at("test").members()) {
      if (name == "samples" || value.is_null()) continue;
      line += fmt::format("  {} {:.4f}", name, value.number());
    }
    fmt::print("{}\n", line);
  }
  if (sent > 0) {
    fmt::print("wire: {} sent, {:.0f} times less than a dense exchange\n",
               FormatBytes(summary.at("wire_bytes").integer()), dense / sent);
  }
  fmt::print(
      "state {} after {} steps in {}; peak memory {} per rank (planned "
      "{})\n",
      summary.at("state_hash").text(), summary.at("steps").integer(),
      FormatSeconds(summary.at("seconds").number()),
      FormatBytes(summary.at("peak_rss_bytes").integer()),
      FormatBytes(summary.at("planned_bytes").integer()));
  switch (result.stopped_by) {
    case train::StoppedBy::kFinished:
      fmt::print("finished: {}; next: lumen eval {}\n", out, Quoted(out));
      break;
    case train::StoppedBy::kSignal:
    case train::StoppedBy::kMaxTime:
      fmt::print("stopped by {}: {}; go on with: {}\n",
                 train::StoppedByName(result.stopped_by), out, again);
      break;
    case train::StoppedBy::kNan:
    case train::StoppedBy::kError:
      fmt::print("failed ({}): {}; see {}/log.txt\n",
                 train::StoppedByName(result.stopped_by), out, out);
      break;
  }
}

int ExitCode(train::StoppedBy stopped_by) {
  switch (stopped_by) {
    case train::StoppedBy::kFinished:
      return 0;
    case train::StoppedBy::kSignal:
    case train::StoppedBy::kMaxTime:
      return kRequeue;
    case train::StoppedBy::kNan:
    case train::StoppedBy::kError:
      return 1;
  }
  return 1;
}

}  // namespace

int RunTrain(const CommandLine& line) {
  return RunTogether(line, [&](Session* session) {
    comm::Communicator* communicator = session->communicator.get();
    const std::string& path = line.arguments[0];
    const train::Spec spec =
        train::ParseSpec(ReadOnRoot(communicator, path), path, line.overrides);
    train::RunOptions options;
    options.out = line.flags.out.empty() ? "runs/" + spec.name : line.flags.out;
    options.resume = line.flags.resume;
    if (!line.flags.max_time.empty()) {
      options.max_seconds = ParseDuration(line.flags.max_time);
    }
    options.stop_signal = &g_stop_signal;
    LogToFolder(options.out, communicator->rank());
    RequireSharedFolder(
        communicator, options.out,
        "give --out a full path on a file system that all hosts share");

    const bool root = communicator->rank() == 0;
    Reporter reporter;
    const std::string banner = Banner(*session, spec.shards());
    LOG(INFO) << banner;
    if (root) {
      reporter.OnMessage(banner);
      for (const std::string& warning : BindingWarnings(*session)) {
        reporter.OnWarning(warning);
      }
    }
    const train::RunResult result =
        train::RunTraining(spec, options, communicator, session->compute,
                           root ? &reporter : nullptr);
    if (root) {
      PrintEnd(result, options.out,
               Again(line, options.out, communicator->ranks()));
    }
    LOG(INFO) << "stopped by " << train::StoppedByName(result.stopped_by);
    return ExitCode(result.stopped_by);
  });
}

}  // namespace lumen::cli
