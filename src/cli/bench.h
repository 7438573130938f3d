// SPDX-License-Identifier: Apache-2.0
// What lumen bench measures: one function per subject.
#pragma once

#include <string>

#include "command_line.h"
#include "lumen/core/json.h"

namespace lumen::cli {

int RunBenchKernels(const CommandLine& line);
int RunBenchExchange(const CommandLine& line);
int RunBenchStep(const CommandLine& line);

// Writes to the file of --json, if there is one. Throws IoError.
void WriteBenchResults(const CommandLine& line, const Json& results);

// tests/bench/shapes.txt as the program was built with.
extern const char kBenchShapes[];

}  // namespace lumen::cli
