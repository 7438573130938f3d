// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "bench.h"
#include "lumen/core/error.h"
#include "lumen/core/file.h"
#include "lumen/core/schema.h"
#include "lumen/core/text.h"

namespace lumen::cli {
namespace {

struct BenchRow {
  std::string_view name;
  int (*run)(const CommandLine& line);
};
constexpr BenchRow kBenches[] = {
    {"kernels", RunBenchKernels},
    {"exchange", RunBenchExchange},
    {"step", RunBenchStep},
};

}  // namespace

int RunBench(const CommandLine& line) {
  std::vector<std::string> names;
  for (const BenchRow& row : kBenches) {
    if (row.name == line.arguments[0]) return row.run(line);
    names.emplace_back(row.name);
  }
  const std::string nearest = Nearest(line.arguments[0], names);
  throw SpecError(fmt::format(
      "bench: unknown \"{}\"; known: {}{}", line.arguments[0], Join(names),
      nearest.empty() ? "" : " (did you mean " + nearest + "?)"));
}

void WriteBenchResults(const CommandLine& line, const Json& results) {
  if (line.flags.json.empty()) return;
  WriteFileAtomically(line.flags.json, results.Dump(2));
}

}  // namespace lumen::cli
