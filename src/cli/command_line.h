// SPDX-License-Identifier: Apache-2.0
// The command line as plain values, and the table of commands.
#pragma once

#include <atomic>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lumen/train/export.h"

namespace lumen::cli {

struct Flags {
  std::string out;
  std::string resume = "auto";
  int threads = 0;  // 0: from the affinity mask
  std::string isa = "auto";
  std::string max_time;
  int ranks = 1;
  std::string split = "test";
  std::string data;
  std::string format;
  std::string to;
  bool dense = false;
  bool sparse = false;
  bool force = false;
  std::string weights;
  std::string input = "test";
  std::string output;
  std::string json;
  int64_t elements = 4'000'000;  // of bench exchange, as all below
  double density = 0.01;
  std::string exchange;  // "": all
  std::string codec;     // "": all
  std::string phases = "all";
  int rounds = 5;
};

struct CommandLine {
  std::string command;
  std::vector<std::string> arguments;
  std::vector<std::string> overrides;  // path=value
  Flags flags;
  std::string usage_error;  // found instead of the rest, or ""
  int* argc = nullptr;      // for MPI
  char*** argv = nullptr;
};

// One row per command.
struct CommandRow {
  std::string_view name;
  std::string_view arguments;  // "SPEC [path=value ...]"
  std::string_view help;
  std::span<const std::string_view> flags;  // it accepts
  int least_arguments;
  int most_arguments;
  std::string_view example;
  int (*run)(const CommandLine& line);
};
std::span<const CommandRow> Commands();
// Throws SpecError with the nearest known command.
const CommandRow& CommandNamed(const std::string& name);

// The flags of all commands: name, value ("" for a switch), help.
struct FlagHelp {
  std::string_view name;
  std::string_view value;
  std::string_view help;
};
std::span<const FlagHelp> FlagHelps();
std::string HelpText();
std::string HelpText(const CommandRow& command);

// "90", "90s", "15m", "2h", "HH:MM:SS" in seconds. Throws SpecError.
double ParseDuration(const std::string& text);

// Of --weights. Throws SpecError.
train::Weights ParseWeights(const std::string& text);

// Set by the signal handlers of main.
extern std::atomic<int> g_stop_signal;

int RunTrain(const CommandLine& line);
int RunEval(const CommandLine& line);
int RunExport(const CommandLine& line);
int RunPredict(const CommandLine& line);
int RunPlan(const CommandLine& line);
int RunInspect(const CommandLine& line);
int RunNew(const CommandLine& line);
int RunReport(const CommandLine& line);
int RunStatus(const CommandLine& line);
int RunBench(const CommandLine& line);
int RunSelftest(const CommandLine& line);

}  // namespace lumen::cli
