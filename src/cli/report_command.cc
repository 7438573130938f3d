// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "command_line.h"
#include "lumen/core/file.h"
#include "report_figures.h"
#include "report_page.h"
#include "run_record.h"

namespace lumen::cli {

int RunReport(const CommandLine& line) {
  std::vector<RunRecord> runs;
  for (const std::string& folder : line.arguments) {
    runs.push_back(ReadRun(folder));
  }
  NameRuns(&runs);
  const std::string path = line.flags.out.empty()
                               ? line.arguments[0] + "/report.html"
                               : line.flags.out;
  const std::string page = ReportPage(runs);
  WriteFileAtomically(path, page);
  for (const RunRecord& run : runs) {
    const Figure best = Figures(run)[0];
    fmt::print("{}: {}{}\n", run.name, StateOf(run).word,
               best.value.empty()
                   ? ""
                   : fmt::format(", {} ({})", best.value, best.detail));
  }
  fmt::print("{}: {} KiB, opens in any browser\n", path, page.size() / 1024);
  return 0;
}

}  // namespace lumen::cli
