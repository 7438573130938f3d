// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <glog/logging.h>

#include <filesystem>

#include "command_line.h"
#include "lumen/core/error.h"
#include "lumen/core/text.h"
#include "lumen/train/trainer.h"
#include "reporter.h"
#include "session.h"

namespace lumen::cli {
namespace {

constexpr int kRequeue = 75;  // EX_TEMPFAIL: start me again

// DIR/logs/rank-0001.log, appended to by every start.
void LogToFolder(const std::string& out, int rank) {
  const std::string folder = out + "/logs";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw IoError(folder + ": cannot create: " + error.message());
  }
  const std::string path = fmt::format("{}/rank-{:04}.log", folder, rank);
  FLAGS_logtostderr = false;
  FLAGS_minloglevel = google::GLOG_INFO;
  FLAGS_stderrthreshold = google::GLOG_ERROR;
  FLAGS_timestamp_in_logfile_name = false;
  for (int severity = 0; severity < google::NUM_SEVERITIES; ++severity) {
    google::SetLogDestination(severity, severity == 0 ? path.c_str() : "");
    google::SetLogSymlink(severity, "");
  }
}

void PrintEnd(const train::RunResult& result, const std::string& out,
              const std::string& spec) {
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
  if (result.stopped_by == train::StoppedBy::kFinished) {
    fmt::print("finished: {}; next: lumen eval {}\n", out, out);
  } else {
    fmt::print("stopped by {}: {}; go on with: lumen train {} --out={}\n",
               train::StoppedByName(result.stopped_by), out, spec, out);
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
    if (root) PrintEnd(result, options.out, path);
    LOG(INFO) << "stopped by " << train::StoppedByName(result.stopped_by);
    return ExitCode(result.stopped_by);
  });
}

}  // namespace lumen::cli
