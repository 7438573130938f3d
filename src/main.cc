// SPDX-License-Identifier: Apache-2.0
// The program: flags, signals and logging are set up here and nowhere else.
#include <gflags/gflags.h>
#include <glog/logging.h>
#include <signal.h>

#include <cstdio>
#include <cstring>
#include <new>

#include "cli/command_line.h"
#include "cli/output.h"
#include "cli/session.h"
#include "lumen/core/error.h"
#include "lumen/core/schema.h"
#include "lumen/core/text.h"

DEFINE_string(out, "", "run folder");
DEFINE_string(resume, "auto", "auto, never, or a checkpoint");
DEFINE_string(max_time, "", "time limit");
DEFINE_int32(threads, 0, "threads per rank");
DEFINE_string(isa, "auto", "instruction set");
DEFINE_int32(ranks, 1, "ranks to plan for");
DEFINE_string(split, "test", "split to evaluate");
DEFINE_string(data, "", "folder of the data set");
DEFINE_string(input, "test", "samples to predict");
DEFINE_string(output, "", "file of predictions");
DEFINE_string(to, "", "file to write");
DEFINE_string(format, "", "format of the file");
DEFINE_int64(elements, 4000000, "length of the gradient");
DEFINE_double(density, 0.01, "part that is sent");
DEFINE_string(exchange, "", "one exchange");
DEFINE_string(codec, "", "one form of values");
DEFINE_string(phases, "all", "all or wire");
DEFINE_int32(rounds, 5, "rounds of the benchmark");
DEFINE_string(json, "", "file of results");
DEFINE_bool(dense, false, "whole tensors");
DEFINE_bool(sparse, false, "compressed rows");
DEFINE_bool(force, false, "replace what is there");
DEFINE_string(weights, "", "ema or last");

namespace lumen::cli {
namespace {

// Only sets a flag; the ranks agree on it at the end of a step. A second SIGINT
// ends the program at once.
void OnSignal(int number) {
  if (number == SIGINT && g_stop_signal.load() == SIGINT) _exit(130);
  g_stop_signal.store(number);
}

void InstallSignalHandlers() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  for (int number : {SIGHUP, SIGINT, SIGTERM, SIGUSR1}) {
    sigaction(number, &action, nullptr);
  }
}

bool Accepts(const CommandRow& command, std::string_view flag) {
  for (std::string_view name : command.flags) {
    if (name == flag) return true;
  }
  return false;
}

std::string UnknownFlag(const CommandRow& command, const std::string& name) {
  std::vector<std::string> known;
  std::string list;
  for (std::string_view flag : command.flags) {
    known.emplace_back(flag);
    list += (list.empty() ? "--" : ", --") + std::string(flag);
  }
  std::string text = std::string(command.name) + ": unknown flag --" + name +
                     "; known: " + (list.empty() ? "none" : list);
  for (const CommandRow& other : Commands()) {
    if (Accepts(other, name)) {
      return text + " (it belongs to lumen " + std::string(other.name) + ")";
    }
  }
  const std::string nearest = Nearest(name, known);
  if (!nearest.empty()) text += " (did you mean --" + nearest + "?)";
  return text;
}

bool IsSwitch(const std::string& name) {
  gflags::CommandLineFlagInfo info;
  return gflags::GetCommandLineFlagInfo(name.c_str(), &info) &&
         info.type == "bool";
}

// --name=value or --name value; a switch needs no value.
void SetFlag(const CommandRow& command, const std::string& text, int* index,
             int argc, char** argv) {
  const size_t start = text.find_first_not_of('-');
  const size_t equals = text.find('=');
  const std::string name =
      text.substr(start, equals == std::string::npos ? equals : equals - start);
  if (!Accepts(command, name)) throw SpecError(UnknownFlag(command, name));
  std::string value;
  if (equals != std::string::npos) {
    value = text.substr(equals + 1);
  } else if (IsSwitch(name)) {
    value = "true";
  } else if (*index + 1 < argc &&
             std::strncmp(argv[*index + 1], "--", 2) != 0) {
    value = argv[++*index];
  } else {
    throw SpecError("--" + name + ": has no value; write --" + name + "=VALUE");
  }
  if (gflags::SetCommandLineOption(name.c_str(), value.c_str()).empty()) {
    gflags::CommandLineFlagInfo info;
    gflags::GetCommandLineFlagInfo(name.c_str(), &info);
    throw SpecError("--" + name + "=" + value + ": not a value of type " +
                    info.type);
  }
}

CommandLine Parse(int argc, char** argv, const CommandRow& command) {
  CommandLine line;
  line.command = command.name;
  for (int i = 2; i < argc; ++i) {
    const std::string text = argv[i];
    if (text.size() > 1 && text[0] == '-') {
      SetFlag(command, text, &i, argc, argv);
    } else if (static_cast<int>(line.arguments.size()) <
               command.most_arguments) {
      line.arguments.push_back(text);
    } else if (text.find('=') != std::string::npos &&
               command.arguments.find("path=value") != std::string::npos) {
      line.overrides.push_back(text);
    } else {
      throw SpecError(line.command + ": unexpected \"" + text +
                      "\"; usage: lumen " + line.command + " " +
                      std::string(command.arguments));
    }
  }
  if (static_cast<int>(line.arguments.size()) < command.least_arguments) {
    throw SpecError("usage: lumen " + line.command + " " +
                    std::string(command.arguments) + "; see lumen help " +
                    line.command);
  }
  if (FLAGS_threads < 0 || FLAGS_threads > 4096) {
    throw SpecError("--threads=" + std::to_string(FLAGS_threads) +
                    ": expected 1 to 4096, or 0 for the default");
  }
  if (FLAGS_ranks < 1) {
    throw SpecError("--ranks=" + std::to_string(FLAGS_ranks) +
                    ": expected at least 1");
  }
  line.flags = {.out = FLAGS_out,
                .resume = FLAGS_resume,
                .threads = FLAGS_threads,
                .isa = FLAGS_isa,
                .max_time = FLAGS_max_time,
                .ranks = FLAGS_ranks,
                .split = FLAGS_split,
                .data = FLAGS_data,
                .format = FLAGS_format,
                .to = FLAGS_to,
                .dense = FLAGS_dense,
                .sparse = FLAGS_sparse,
                .force = FLAGS_force,
                .weights = FLAGS_weights,
                .input = FLAGS_input,
                .output = FLAGS_output,
                .json = FLAGS_json,
                .elements = FLAGS_elements,
                .density = FLAGS_density,
                .exchange = FLAGS_exchange,
                .codec = FLAGS_codec,
                .phases = FLAGS_phases,
                .rounds = FLAGS_rounds};
  return line;
}

bool AsksForHelp(const char* text) {
  return std::strcmp(text, "--help") == 0 || std::strcmp(text, "-h") == 0;
}

// What argv asks for, with the command that is to do it.
struct Request {
  CommandLine line;
  int (*run)(const CommandLine& line) = nullptr;
};

Request ReadRequest(int argc, char** argv) {
  if (argc < 2) throw SpecError("usage: lumen COMMAND ...; see lumen help");
  Request request;
  const bool help = AsksForHelp(argv[1]);
  const bool version = std::strcmp(argv[1], "--version") == 0;
  const CommandRow& command = CommandNamed(help      ? "help"
                                           : version ? "version"
                                                     : argv[1]);
  for (int i = 2; i < argc; ++i) {
    if (!AsksForHelp(argv[i])) continue;
    request.line.arguments = {std::string(command.name)};
    request.run = CommandNamed("help").run;
    return request;
  }
  request.line = Parse(argc, argv, command);
  request.run = command.run;
  return request;
}

int Main(int argc, char** argv) {
  Request request;
  try {
    request = ReadRequest(argc, argv);
  } catch (const SpecError& error) {
    if (!IsOneOfSeveralRanks()) throw;
    // The ranks meet to say it once, whether all of them are wrong or one is.
    request.line.usage_error = error.what();
    request.run = [](const CommandLine& line) {
      return RunTogether(line, [](Session*) { return 2; });
    };
  }
  request.line.argc = &argc;
  request.line.argv = &argv;
  // Only training ends in good order; other commands simply end.
  if (request.run == RunTrain) InstallSignalHandlers();
  return request.run(request.line);
}

}  // namespace
}  // namespace lumen::cli

int main(int argc, char** argv) {
  // Warnings and errors go to stderr until a run folder is known.
  FLAGS_logtostderr = true;
  FLAGS_minloglevel = google::GLOG_WARNING;
  google::InitGoogleLogging(argv[0]);
  google::InstallFailureSignalHandler();
  try {
    return lumen::cli::WithOutput(lumen::cli::Main(argc, argv));
  } catch (const lumen::SpecError& error) {
    std::fprintf(stderr, "lumen: %s\n", lumen::Printable(error.what()).c_str());
    return 2;
  } catch (const std::bad_alloc&) {
    std::fputs("lumen: out of memory; lumen plan shows what a rank needs\n",
               stderr);
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lumen: %s\n", lumen::Printable(error.what()).c_str());
    return 1;
  }
}
