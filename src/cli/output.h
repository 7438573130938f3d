// SPDX-License-Identifier: Apache-2.0
// Standard output: a training does not end because nobody can read it.
#pragma once

#include <string>

namespace lumen::cli {

// Writes to standard output. Failures are remembered, never thrown.
void Say(const std::string& text);

// The exit code of a command: `code`, or 1 with a message when it is 0 and
// something that was said could not be written.
int WithOutput(int code);

}  // namespace lumen::cli
