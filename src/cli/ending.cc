// SPDX-License-Identifier: Apache-2.0
#include "ending.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <set>
#include <thread>
#include <vector>

#include "lumen/core/error.h"
#include "lumen/core/text.h"
#include "run_log.h"
#include "text_bytes.h"

namespace lumen::cli {
namespace {

// How long a rank that failed waits for the others to fail alike.
constexpr double kAgreementSeconds = 5;

void Print(const std::string& message) {
  fmt::print(stderr, "lumen: {}\n", Printable(message));
  std::fflush(stderr);
}

}  // namespace

int EndAll(comm::Communicator* communicator, const std::string& message,
           int code) {
  LogError(message);
  if (communicator == nullptr || communicator->ranks() == 1) {
    Print(message);
    return code;
  }
  Print(fmt::format("rank {} ({}): {}", communicator->rank(),
                    communicator->host(), message));
  // Others may be about to say the same of their own.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  communicator->Abort(code);
  return code;
}

int EndTogether(comm::Communicator* communicator, const std::string& message,
                int code) {
  if (communicator == nullptr || communicator->ranks() == 1) {
    return EndAll(communicator, message, code);
  }
  std::vector<std::string> messages;
  communicator->set_timeout_seconds(kAgreementSeconds);
  try {
    // Comes back only when all ranks stand here: one without an error does not.
    communicator->Barrier();
    for (const auto& bytes : communicator->AllGather(ToBytes(message))) {
      messages.push_back(ToText(bytes));
    }
  } catch (const CommError&) {
    return EndAll(communicator, message, code);
  }
  LogError(message);
  if (communicator->rank() != 0) return code;
  std::set<std::string> said;
  for (const std::string& text : messages) {
    if (said.insert(text).second) Print(text);
  }
  return code;
}

}  // namespace lumen::cli
