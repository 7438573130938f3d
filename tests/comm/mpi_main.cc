// SPDX-License-Identifier: Apache-2.0
// main of the test binaries that run on several ranks. Rank 0 prints; others
// print their failures only; a failure anywhere fails the binary.
#include "mpi_main.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>

#include "lumen/core/error.h"

namespace lumen::comm {
namespace {

Communicator* world = nullptr;

class FailurePrinter : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", world->rank(),
                 result.file_name() ? result.file_name() : "?",
                 result.line_number(), result.message());
  }
};

int Main(int argc, char** argv) {
  const auto communicator = Communicator::NewWorld(&argc, &argv);
  world = communicator.get();
  communicator->set_timeout_seconds(60);
  testing::InitGoogleTest(&argc, argv);
  if (communicator->rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter);
  }
  return RUN_ALL_TESTS();
}

}  // namespace

Communicator* World() { return world; }

}  // namespace lumen::comm

int main(int argc, char** argv) {
  try {
    return lumen::comm::Main(argc, argv);
  } catch (const lumen::CommError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
