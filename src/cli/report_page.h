// SPDX-License-Identifier: Apache-2.0
// The HTML page of a report: one file that asks no other for anything.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "run_record.h"

namespace lumen::cli {

// REQUIRES: runs have names (NameRuns); at least one.
std::string ReportPage(const std::vector<RunRecord>& runs);

// Text as HTML, also between quotes.
std::string Escaped(std::string_view text);

// The curves of all runs for page.js: {"runs": [{"name", "splits": {"train":
// {"step": [...], "loss": [...], ...}}}], "metrics": ["accuracy"]}; long curves
// are thinned out. As the text of a <script>: nothing in it ends one.
std::string CurvesJson(const std::vector<RunRecord>& runs);

// The files of src/cli/report, put into the program by the build.
extern const char kPageCss[];
extern const char kPageJs[];
extern const char kPlotCss[];
extern const char kPlotJs[];
extern const char kPlotLicense[];

}  // namespace lumen::cli
