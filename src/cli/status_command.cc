// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "command_line.h"
#include "lumen/core/error.h"
#include "lumen/core/text.h"
#include "lumen/train/checkpoint.h"
#include "report_figures.h"
#include "run_record.h"

namespace lumen::cli {
namespace {

namespace fs = std::filesystem;

// A run that logs nothing for so many of its intervals may hang.
constexpr double kQuietIntervals = 10;
constexpr double kQuietSeconds = 60;

// What a line of the table and the page of one run are made of; NaN: unknown.
struct Status {
  RunRecord run;
  std::string word;  // "in progress", "finished", ...
  int64_t step = 0;
  double total_steps = NAN;
  double samples_per_s = NAN;
  double eta_s = NAN;  // of a run in progress
  double line_age_s = NAN;
  double line_interval_s = NAN;
  std::vector<std::string> checkpoints;  // whole, newest first
};

double AgeSeconds(const std::string& path) {
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  if (error) return NAN;
  const auto age = fs::file_time_type::clock::now() - written;
  // Clocks of hosts differ.
  return std::max(0.0, std::chrono::duration<double>(age).count());
}

// Seconds of training between the two newest lines of the training split.
double LineInterval(const RunRecord& run) {
  double newest = NAN;
  for (auto line = run.lines.rbegin(); line != run.lines.rend(); ++line) {
    if (line->at("split").text() != "train") continue;
    const double seconds = NumberOf(line->Find("seconds"));
    if (std::isfinite(newest)) return newest - seconds;
    newest = seconds;
  }
  return NAN;
}

// Files of the run may come and go while they are looked at.
Status StatusOf(const std::string& folder) {
  Status status{.run = ReadRun(folder)};
  const RunRecord& run = status.run;
  status.word = StateOf(run).word;
  if (const Json* last = run.last_line()) {
    status.step = last->at("step").integer();
  } else if (!run.starts.empty()) {
    status.step = run.starts.back().at("step").integer();
  }
  status.total_steps = NumberOf(run.Find("total_steps"));
  status.samples_per_s = NumberOf(run.Find("samples_per_s"));
  status.line_age_s = AgeSeconds(folder + "/metrics.jsonl");
  status.line_interval_s = LineInterval(run);
  const Json* train = run.spec.is_object() ? run.spec.Find("train") : nullptr;
  const double batch =
      train == nullptr ? NAN : NumberOf(train->Find("global_batch"));
  if (run.state == RunRecord::State::kRunning && status.samples_per_s > 0) {
    status.eta_s = (status.total_steps - static_cast<double>(status.step)) *
                   batch / status.samples_per_s;
  }
  status.checkpoints = train::ListCheckpoints(folder);
  std::erase_if(status.checkpoints, [](const std::string& path) {
    return !fs::exists(path + "/MANIFEST.json");
  });
  return status;
}

std::string StepText(const Status& status) {
  if (!std::isfinite(status.total_steps)) return std::to_string(status.step);
  return fmt::format("{}/{:.0f}", status.step, status.total_steps);
}

std::string DoneText(const Status& status) {
  if (!(status.total_steps > 0)) return "-";
  return fmt::format(
      "{:.1f} %", 100 * static_cast<double>(status.step) / status.total_steps);
}

std::string SpeedText(const Status& status) {
  if (!(status.samples_per_s > 0)) return "-";
  return FormatCount(std::llround(status.samples_per_s));
}

std::string EtaText(const Status& status) {
  return std::isfinite(status.eta_s) ? FormatSeconds(status.eta_s) : "-";
}

std::string CheckpointName(const std::string& path) {
  return fs::path(path).filename().string();
}

std::string CheckpointText(const Status& status) {
  if (status.checkpoints.empty()) return "none yet";
  const std::string& newest = status.checkpoints[0];
  std::string text =
      fmt::format("{}, {} ago", CheckpointName(newest),
                  FormatSeconds(AgeSeconds(newest + "/MANIFEST.json")));
  try {
    int64_t bytes = 0;
    for (const auto& file : train::ReadManifest(newest).files) {
      bytes += file.bytes;
    }
    text += ", " + FormatBytes(bytes);
  } catch (const IoError&) {  // removed just now, or damaged: inspect says more
  }
  if (status.checkpoints.size() > 1) {
    text += fmt::format("; {} older, back to {}", status.checkpoints.size() - 1,
                        CheckpointName(status.checkpoints.back()));
  }
  return text;
}

std::string StartsText(const Status& status) {
  const auto& starts = status.run.starts;
  std::string text = std::to_string(starts.size());
  if (starts.size() > 1) {
    text += fmt::format(
        ", the newest from step {} on {}", starts.back().at("step").integer(),
        CountOf(std::llround(NumberOf(status.run.Find("ranks"))), "rank"));
  }
  return text;
}

void PrintLine(std::string_view name, const std::string& value) {
  if (!value.empty()) fmt::print("  {:<12} {}\n", name, value);
}

void PrintOne(const Status& status) {
  const RunRecord& run = status.run;
  const StateText state = StateOf(run);
  fmt::print("{}: {}{}{}\n", Printable(run.folder), state.word,
             state.detail.empty() ? "" : ", ", state.detail);
  PrintLine("step", StepText(status) + ", " + DoneText(status));
  PrintLine("speed", SpeedText(status) + " samples/s");
  if (run.state == RunRecord::State::kRunning) {
    PrintLine("ETA", EtaText(status));
    PrintLine("last line", FormatSeconds(status.line_age_s) + " ago");
    if (status.line_age_s >
        std::max(kQuietSeconds, kQuietIntervals * status.line_interval_s)) {
      PrintLine(
          "warning",
          "nothing logged for longer than usual: an evaluation, or a rank "
          "that hangs; see the end of log.txt and of logs/");
    }
  }
  for (const Figure& figure : Figures(run)) {
    if (figure.key != "best" && figure.key != "train_loss") continue;
    if (figure.value.empty()) continue;
    PrintLine(figure.key == "best" ? "metric" : "loss",
              figure.value +
                  (figure.detail.empty() ? "" : " (" + figure.detail + ")"));
  }
  PrintLine("checkpoint", CheckpointText(status));
  PrintLine("starts", StartsText(status));
  if (run.warnings > 0) {
    PrintLine("warnings", std::to_string(run.warnings) + " in log.txt");
  }
}

void PrintTable(std::vector<Status> all) {
  std::vector<RunRecord> runs;
  for (const Status& status : all) runs.push_back(status.run);
  NameRuns(&runs);
  size_t width = 3;
  for (const RunRecord& run : runs) width = std::max(width, run.name.size());
  constexpr std::string_view kRow =
      "{:<{}}  {:<20} {:>17} {:>8} {:>10} {:>11} {:>14} {:>6}  {}\n";
  fmt::print(kRow, "run", width, "state", "step", "done", "samples/s", "ETA",
             "checkpoint", "starts", "metric");
  for (size_t i = 0; i < all.size(); ++i) {
    const Status& status = all[i];
    const Figure best = Figures(status.run)[0];
    fmt::print(kRow, runs[i].name, width, status.word, StepText(status),
               DoneText(status), SpeedText(status), EtaText(status),
               status.checkpoints.empty()
                   ? "-"
                   : CheckpointName(status.checkpoints[0]),
               status.run.starts.size(),
               best.value.empty() ? "-" : best.value + " " + best.detail);
  }
}

bool IsRun(const fs::path& path) {
  return fs::exists(path / "metrics.jsonl") ||
         fs::exists(path / "summary.json");
}

// A run folder stands for itself, another folder for the runs in it.
std::vector<std::string> RunsAt(const std::string& path) {
  if (IsRun(path) || !fs::is_directory(path)) return {path};
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (IsRun(entry.path())) found.push_back(entry.path().string());
  }
  if (found.empty()) {
    throw IoError(path +
                  ": neither a run folder (metrics.jsonl) nor a folder of run "
                  "folders; expected the --out of lumen train");
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

int RunStatus(const CommandLine& line) {
  std::vector<Status> all;
  bool table = line.arguments.size() > 1;
  for (const std::string& argument : line.arguments) {
    const std::vector<std::string> folders = RunsAt(argument);
    table = table || folders[0] != argument;
    for (const std::string& folder : folders) all.push_back(StatusOf(folder));
  }
  if (table) {
    PrintTable(std::move(all));
  } else {
    PrintOne(all[0]);
  }
  return 0;
}

}  // namespace lumen::cli
