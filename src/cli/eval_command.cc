// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "command_line.h"
#include "lumen/train/trainer.h"
#include "session.h"

namespace lumen::cli {

int RunEval(const CommandLine& line) {
  return RunTogether(line, [&](Session* session) {
    train::EvaluationOptions options;
    options.checkpoint = line.arguments[0];
    options.split = line.flags.split;
    options.overrides = line.overrides;
    if (!line.flags.data.empty()) {
      options.overrides.push_back("data.root=\"" + line.flags.data + "\"");
    }
    const Json result = train::RunEvaluation(
        options, session->communicator.get(), session->compute);
    if (session->communicator->rank() == 0) {
      fmt::print("{}\n", result.Dump());
    }
    return 0;
  });
}

}  // namespace lumen::cli
