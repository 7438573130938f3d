// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "lumen/core/error.h"
#include "lumen/core/schema.h"
#include "lumen/core/text.h"
#include "lumen/sparse/isa.h"
#include "lumen/sparse/onednn.h"
#include "lumen/train/spec.h"

namespace lumen::cli {
namespace {

constexpr std::string_view kTrainFlags[] = {"out", "resume", "max_time",
                                            "threads", "isa"};
constexpr std::string_view kEvalFlags[] = {"split", "data", "threads", "isa"};
constexpr std::string_view kExportFlags[] = {"to", "format", "dense", "sparse",
                                             "weights"};
constexpr std::string_view kPredictFlags[] = {"input",   "output",  "data",
                                              "weights", "threads", "isa"};
constexpr std::string_view kPlanFlags[] = {"ranks", "threads"};
constexpr std::string_view kNewFlags[] = {"out", "force"};
constexpr std::string_view kReportFlags[] = {"out"};
constexpr std::string_view kBenchFlags[] = {"json",     "threads", "isa",
                                            "elements", "density", "exchange",
                                            "codec",    "phases",  "rounds"};
constexpr std::string_view kSelftestFlags[] = {"threads"};

constexpr int kManyRuns = 100;

int RunHelp(const CommandLine& line);
int RunVersion(const CommandLine& line);

constexpr CommandRow kCommands[] = {
    {"new", "PATH", "look at a data set and write a spec for it", kNewFlags, 1,
     1, "lumen new /data/birds --out=birds.json", RunNew},
    {"train", "SPEC [path=value ...]",
     "train a spec, or go on where it stopped", kTrainFlags, 1, 1,
     "mpirun -np 2 lumen train jobs/fashion_mlp.json", RunTrain},
    {"eval", "RUN|CHECKPOINT [path=value ...]",
     "loss and metrics of a checkpoint on a split", kEvalFlags, 1, 1,
     "lumen eval runs/fashion_mlp", RunEval},
    {"predict", "RUN|CHECKPOINT [path=value ...]",
     "classes and scores of samples", kPredictFlags, 1, 1,
     "lumen predict runs/fashion_mlp --output=test.csv", RunPredict},
    {"export", "RUN|CHECKPOINT", "weights as a file for other programs",
     kExportFlags, 1, 1,
     "lumen export runs/fashion_mlp --to=fashion_mlp.safetensors", RunExport},
    {"plan", "SPEC [path=value ...]",
     "memory, traffic and work of a run; needs neither data nor MPI",
     kPlanFlags, 1, 1, "lumen plan jobs/fashion_mlp.json --ranks=4", RunPlan},
    {"inspect",
     "RUN|CHECKPOINT|SPEC",
     "what a run, checkpoint or spec holds",
     {},
     1,
     1,
     "lumen inspect runs/fashion_mlp",
     RunInspect},
    {"report", "RUN [RUN ...]", "curves and figures of runs as one HTML page",
     kReportFlags, 1, kManyRuns, "lumen report runs/fashion_mlp", RunReport},
    {"status",
     "RUN|FOLDER [RUN ...]",
     "how far runs are, also while they train: one, or a line for each",
     {},
     1,
     kManyRuns,
     "lumen status runs/fashion_mlp",
     RunStatus},
    {"bench", "kernels|step|exchange [SPEC] [path=value ...]",
     "layers against oneDNN, a training step against its dense twin, exchanges "
     "against MPI_Allreduce",
     kBenchFlags, 1, 2, "lumen bench step jobs/fashion_resnet.json", RunBench},
    {"selftest", "", "kernels, exchange and checkpoint on this machine",
     kSelftestFlags, 0, 0, "mpirun -np 2 lumen selftest", RunSelftest},
    {"help",
     "[COMMAND|spec]",
     "this page, a command, or every key of a spec",
     {},
     0,
     1,
     "lumen help spec",
     RunHelp},
    {"version",
     "",
     "versions of the program, of oneDNN, and the kernels used",
     {},
     0,
     0,
     "lumen version",
     RunVersion},
};

constexpr FlagHelp kFlags[] = {
    {"out", "DIR|FILE",
     "what to write: the run folder of train (default runs/NAME-OF-SPEC), the "
     "page of report (default RUN/report.html), the spec of new (default "
     "NAME-OF-DATA.json)"},
    {"force", "", "replace a spec that is there already"},
    {"resume", "auto|never|DIR",
     "go on from the newest whole checkpoint of the run folder (auto), refuse "
     "if there is one (never), or go on from this one"},
    {"max_time", "TIME",
     "stop with a checkpoint and exit code 75 before TIME has passed: 90, 15m, "
     "2h, 1:30:00; auto: what SLURM leaves of the job (SLURM_JOB_END_TIME), "
     "less a minute"},
    {"threads", "N", "threads per rank (default: the processors it may use)"},
    {"isa", "auto|scalar|avx2|avx512",
     "instruction set of the kernels; the bits are the same"},
    {"ranks", "P", "ranks to plan for (default 1)"},
    {"split", "train|valid|test", "which samples (default test)"},
    {"data", "DIR", "read the data set from here (data.root)"},
    {"input", "train|valid|test|FILE",
     "samples: a split (default test), or x.npy or file.npz:x"},
    {"output", "FILE.csv|FILE.h5", "file to write"},
    {"to", "FILE", "file to write"},
    {"format", "npz|safetensors", "format (default: by the extension)"},
    {"json", "FILE", "write the figures here as JSON"},
    {"elements", "N",
     "bench exchange: length of the gradient (default 4000000)"},
    {"density", "D", "bench exchange: part of it that is sent (default 0.01)"},
    {"exchange", "TYPE", "bench exchange: this one only"},
    {"codec", "fp32|bf16|int8", "bench exchange: this form of values only"},
    {"phases", "all|wire",
     "bench exchange: from gradient to applied sum (default), or from coded to "
     "decoded, 50 exchanges back to back"},
    {"rounds", "N",
     "bench exchange: rounds, each with one MPI_Allreduce (default 5)"},
    {"dense", "", "whole tensors, absent weights are 0 (default)"},
    {"sparse", "",
     "NAME.values, NAME.row_start, NAME.column and NAME.shape of each masked "
     "tensor"},
    {"weights", "ema|last",
     "the average of the weights or the last ones (default: ema if the run has "
     "train.ema)"},
};

int RunHelp(const CommandLine& line) {
  if (line.arguments.empty()) {
    fmt::print("{}", HelpText());
  } else if (line.arguments[0] == "spec") {
    fmt::print("{}", FieldReference(train::SpecKeys()));
  } else {
    fmt::print("{}", HelpText(CommandNamed(line.arguments[0])));
  }
  return 0;
}

int RunVersion(const CommandLine&) {
  fmt::print("lumen {}\n{}\n{} kernels on this processor\n", LUMEN_VERSION,
             sparse::OneDnnVersion(), sparse::IsaName(sparse::DetectIsa()));
  return 0;
}

}  // namespace

std::atomic<int> g_stop_signal{0};

std::span<const CommandRow> Commands() { return kCommands; }

const CommandRow& CommandNamed(const std::string& name) {
  std::vector<std::string> names;
  for (const CommandRow& row : kCommands) {
    if (row.name == name) return row;
    names.emplace_back(row.name);
  }
  const std::string nearest = Nearest(name, names);
  throw SpecError(
      fmt::format("unknown command \"{}\"; known: {}{}", name, Join(names),
                  nearest.empty() ? "" : " (did you mean " + nearest + "?)"));
}

std::span<const FlagHelp> FlagHelps() { return kFlags; }

std::string HelpText() {
  std::string text =
      "lumen: truly sparse training on CPU clusters\n\n"
      "usage: lumen COMMAND ... [--flag=value ...]\n"
      "       mpirun -np P lumen train SPEC ...\n\ncommands\n";
  for (const CommandRow& row : kCommands) {
    text +=
        fmt::format("  {:<9} {:<32} {}\n", row.name, row.arguments, row.help);
  }
  text += "\nexamples\n";
  for (const CommandRow& row : kCommands) {
    if (row.run != RunVersion) text += fmt::format("  {}\n", row.example);
  }
  text +=
      "\nA spec decides the mathematics, flags only speed and comfort; "
      "path=value overrides\na key of the spec: train.lr.base=0.05. Flags: "
      "lumen help COMMAND.\n"
      "Exit codes: 0 done, 1 failure, 2 usage or spec error, 75 stopped after "
      "a checkpoint.\n";
  return text;
}

std::string HelpText(const CommandRow& command) {
  std::string text = fmt::format("lumen {} {}\n  {}\n", command.name,
                                 command.arguments, command.help);
  if (!command.flags.empty()) text += "\nflags\n";
  for (const FlagHelp& flag : kFlags) {
    for (std::string_view name : command.flags) {
      if (name != flag.name) continue;
      text +=
          fmt::format("  --{:<34} {}\n",
                      fmt::format("{}{}{}", flag.name,
                                  flag.value.empty() ? "" : "=", flag.value),
                      flag.help);
    }
  }
  return text + fmt::format("\nexample\n  {}\n", command.example);
}

double ParseDuration(const std::string& text) {
  double total = 0;
  const char* at = text.data();
  const char* end = at + text.size();
  int parts = 0;
  while (at < end) {
    double number = 0;
    const auto [rest, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 0 || !std::isfinite(number)) break;
    const std::string_view unit(rest, static_cast<size_t>(end - rest));
    // Minutes and seconds after a colon; "1:99:00" is a slip of the hand.
    if (parts > 0 && number >= 60) break;
    ++parts;
    total = parts == 1 ? number : total * 60 + number;
    if (unit.empty()) return total;
    if (parts == 1 && unit == "s") return total;
    if (parts == 1 && unit == "m") return total * 60;
    if (parts == 1 && unit == "h") return total * 3600;
    if (unit[0] != ':' || parts == 3) break;
    at = rest + 1;
  }
  throw SpecError("--max_time=" + text +
                  ": not a time; expected 90, 90s, 15m, 2h, 1:30:00 or auto");
}

}  // namespace lumen::cli
