// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "command_line.h"
#include "lumen/core/text.h"
#include "lumen/train/plan.h"
#include "reporter.h"

namespace lumen::cli {

int RunPlan(const CommandLine& line) {
  const train::Spec spec = train::LoadSpec(line.arguments[0], line.overrides);
  const int threads = std::max(1, line.flags.threads);
  const train::Plan plan = train::NewPlan(spec, line.flags.ranks, threads);
  fmt::print("{}: {}, {} of {}\n", spec.name, CountOf(plan.ranks, "rank"),
             CountOf(plan.shards, "shard"),
             CountOf(spec.shard_batch(), "sample"));
  fmt::print("{}", PlanText(plan));
  for (const train::MemoryItem& item : plan.memory) {
    fmt::print("    {:<24} {:>12}\n", item.name, FormatBytes(item.bytes));
  }
  fmt::print(
      "  {} ({} per epoch), roughly {} each with {} per "
      "rank\n",
      CountOf(plan.total_steps, "step"), plan.steps_per_epoch,
      FormatSeconds(plan.step_seconds), CountOf(threads, "thread"));
  for (const std::string& warning : plan.warnings) {
    fmt::print("warning: {}\n", warning);
  }
  return 0;
}

}  // namespace lumen::cli
