// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "command_line.h"
#include "lumen/core/error.h"
#include "lumen/train/export.h"

namespace lumen::cli {

train::Weights ParseWeights(const std::string& text) {
  if (text.empty()) return train::Weights::kBest;
  if (text == "ema") return train::Weights::kAverage;
  if (text == "last") return train::Weights::kLast;
  throw SpecError("--weights=" + text + ": unknown; known: ema, last");
}

int RunExport(const CommandLine& line) {
  const Flags& flags = line.flags;
  if (flags.to.empty()) {
    throw SpecError(
        "export: no file; add --to=FILE.npz or --to=FILE.safetensors");
  }
  if (flags.dense && flags.sparse) {
    throw SpecError("export: --dense and --sparse exclude each other");
  }
  const train::ExportResult result =
      train::Export({.checkpoint = line.arguments[0],
                     .to = flags.to,
                     .format = flags.format,
                     .layout = flags.sparse ? train::ExportOptions::kSparse
                                            : train::ExportOptions::kDense,
                     .weights = ParseWeights(flags.weights)});
  fmt::print("{}: {} tensors of {} ({}, {}, {} weights)\n", flags.to,
             result.tensors, result.checkpoint, result.format,
             flags.sparse ? "sparse" : "dense",
             result.averaged ? "ema" : "last");
  if (result.zeros > 0) {
    fmt::print(
        "warning: {} weight{} exist{} with the value 0; a mask made from the "
        "zeros of this file lacks them\n",
        result.zeros, result.zeros == 1 ? "" : "s",
        result.zeros == 1 ? "s" : "");
  }
  return 0;
}

}  // namespace lumen::cli
