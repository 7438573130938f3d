// SPDX-License-Identifier: Apache-2.0
// Sections of a report that need no script: bars and tables.
#pragma once

#include <string>
#include <vector>

#include "run_record.h"

namespace lumen::cli {

// "" when no run has anything to show.
std::string TimeSection(const std::vector<RunRecord>& runs);
std::string DensitySection(const std::vector<RunRecord>& runs);
// The newest evaluations.
std::string EvaluationTable(const RunRecord& run);

}  // namespace lumen::cli
