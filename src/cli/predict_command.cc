// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "command_line.h"
#include "lumen/core/error.h"
#include "lumen/core/text.h"
#include "lumen/train/prediction.h"
#include "session.h"

namespace lumen::cli {

int RunPredict(const CommandLine& line) {
  return RunTogether(line, [&](Session* session) {
    const Flags& flags = line.flags;
    if (flags.output.empty()) {
      throw SpecError("predict: no file; add --output=FILE.csv or FILE.h5");
    }
    train::PredictionOptions options{.checkpoint = line.arguments[0],
                                     .input = flags.input,
                                     .output = flags.output,
                                     .weights = ParseWeights(flags.weights),
                                     .overrides = line.overrides};
    if (!flags.data.empty()) {
      options.overrides.push_back("data.root=\"" + flags.data + "\"");
    }
    const train::PredictionResult result = train::RunPrediction(
        options, session->communicator.get(), session->compute);
    if (session->communicator->rank() == 0) {
      fmt::print("{}: {} of {}\n", flags.output,
                 CountOf(result.samples, "sample"), result.checkpoint);
    }
    return 0;
  });
}

}  // namespace lumen::cli
