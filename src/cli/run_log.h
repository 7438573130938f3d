// SPDX-License-Identifier: Apache-2.0
// DIR/logs/rank-NNNN.log: what a rank did, and the stack trace of its crash.
#pragma once

#include <string>

namespace lumen::cli {

// From here on glog writes to the file of this rank, appending to what earlier
// starts wrote; a crash writes its stack trace there and to stderr. Creates the
// folder. Throws IoError.
void LogToFolder(const std::string& out, int rank);

// Adds an error to that file, if there is one by now.
void LogError(const std::string& message);

}  // namespace lumen::cli
