// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <glog/logging.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "banner.h"
#include "command_line.h"
#include "lumen/core/error.h"
#include "lumen/core/text.h"
#include "lumen/train/trainer.h"
#include "output.h"
#include "reporter.h"
#include "run_log.h"
#include "session.h"

namespace lumen::cli {
namespace {

constexpr int kRequeue = 75;  // EX_TEMPFAIL: start me again
// Of the time that SLURM leaves, for the last checkpoint.
constexpr double kLastCheckpointSeconds = 60;

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
    Say(line + "\n");
  }
  const std::string wire = FormatBytes(summary.at("wire_bytes").integer());
  if (dense >= 1.5 * sent && sent > 0) {
    Say(fmt::format("wire: {} sent, {:.0f} times less than a dense exchange\n",
                    wire, dense / sent));
  } else if (dense > 0) {
    Say(fmt::format("wire: {} sent; a dense exchange sends {}\n", wire,
                    FormatBytes(summary.at("wire_bytes_dense").integer())));
  }
  Say(
      fmt::format("state {} after {} in {}; peak memory {} per rank (planned "
                  "{})\n",
                  summary.at("state_hash").text(),
                  CountOf(summary.at("steps").integer(), "step"),
                  FormatSeconds(summary.at("seconds").number()),
                  FormatBytes(summary.at("peak_rss_bytes").integer()),
                  FormatBytes(summary.at("planned_bytes").integer())));
  switch (result.stopped_by) {
    case train::StoppedBy::kFinished:
      Say(fmt::format("finished: {}; next: lumen eval {}\n", out, Quoted(out)));
      break;
    case train::StoppedBy::kSignal:
    case train::StoppedBy::kMaxTime:
      Say(fmt::format("stopped by {}: {}; go on with: {}\n",
                      train::StoppedByName(result.stopped_by), out, again));
      break;
    case train::StoppedBy::kNan:
    case train::StoppedBy::kError:
      Say(fmt::format("failed ({}): {}; see {}/log.txt\n",
                      train::StoppedByName(result.stopped_by), out, out));
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

// SLURM tells when it will end the job (sbatch, "OUTPUT ENVIRONMENT
// VARIABLES"), in seconds since 1970. 0 outside of a job.
double SlurmSecondsLeft() {
  const char* text = std::getenv("SLURM_JOB_END_TIME");
  const double end = text == nullptr ? 0 : std::atof(text);
  if (end <= 0) return 0;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const double left = end - std::chrono::duration<double>(now).count();
  return std::max(1.0, left - kLastCheckpointSeconds);
}

// 0: no limit.
double MaxSeconds(const std::string& max_time, Reporter* reporter) {
  if (max_time.empty()) return 0;
  if (max_time != "auto") return ParseDuration(max_time);
  const double seconds = SlurmSecondsLeft();
  if (reporter != nullptr) {
    reporter->OnMessage(seconds > 0
                            ? "max_time: " + FormatSeconds(seconds) +
                                  ", from SLURM_JOB_END_TIME"
                            : "max_time: none, SLURM_JOB_END_TIME is not set");
  }
  return seconds;
}

int Train(const CommandLine& line, const train::Spec& spec,
          const train::RunOptions& options, Session* session,
          Reporter* reporter) {
  comm::Communicator* communicator = session->communicator.get();
  RequireSharedFolder(
      communicator, options.out,
      "give --out a full path on a file system that all hosts share");
  const std::string banner = Banner(*session, spec.shards());
  LOG(INFO) << banner;
  if (reporter != nullptr) {
    reporter->OnMessage(banner);
    for (const std::string& warning : BindingWarnings(*session)) {
      reporter->OnWarning(warning);
    }
  }
  const train::RunResult result = train::RunTraining(
      spec, options, communicator, session->compute, reporter);
  if (reporter != nullptr) {
    PrintEnd(result, options.out,
             Again(line, options.out, communicator->ranks()));
  }
  LOG(INFO) << "stopped by " << train::StoppedByName(result.stopped_by);
  return ExitCode(result.stopped_by);
}

// A start that failed before its first step leaves nothing behind. The spec is
// written just before that step.
void RemoveFailedStart(const std::string& out) {
  std::error_code ignored;
  if (!std::filesystem::exists(out + "/spec.json", ignored)) {
    std::filesystem::remove_all(out, ignored);
  }
}

}  // namespace

int RunTrain(const CommandLine& line) {
  return RunTogether(line, [&](Session* session) {
    comm::Communicator* communicator = session->communicator.get();
    const bool root = communicator->rank() == 0;
    const std::string& path = line.arguments[0];
    const train::Spec spec = train::ParseSpec(
        ReadSpecOnRoot(communicator, path), path, line.overrides);
    Reporter reporter;
    Reporter* shown = root ? &reporter : nullptr;
    train::RunOptions options;
    options.out = line.flags.out.empty() ? "runs/" + spec.name : line.flags.out;
    options.resume = line.flags.resume;
    options.max_seconds = MaxSeconds(line.flags.max_time, shown);
    options.stop_signal = &g_stop_signal;
    const bool is_new = !std::filesystem::exists(options.out);
    communicator->Barrier();  // all have looked before anybody makes it
    LogToFolder(options.out, communicator->rank());
    try {
      return Train(line, spec, options, session, shown);
    } catch (const SpecError&) {
      if (is_new) RemoveFailedStart(options.out);
      throw;
    } catch (const SharedIoError&) {
      if (is_new) RemoveFailedStart(options.out);
      throw;
    }
  });
}

}  // namespace lumen::cli
