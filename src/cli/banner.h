// SPDX-License-Identifier: Apache-2.0
// What a run says about where it runs, before its first step.
#pragma once

#include <string>
#include <vector>

#include "session.h"

namespace lumen::cli {

// "lumen 0.1.0 | 2 ranks on h1 | 4 shards | ...": ranks, hosts, threads,
// binding, instruction set, versions.
std::string Banner(const Session& session, int shards);

// One line per set of processors that has more threads than processors.
std::vector<std::string> BindingWarnings(const Session& session);

}  // namespace lumen::cli
