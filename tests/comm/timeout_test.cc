// SPDX-License-Identifier: Apache-2.0
// A binary of its own: after a timeout the communicator is not used again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "lumen/core/error.h"
#include "mpi_main.h"

namespace lumen::comm {
namespace {

TEST(Timeout, EveryRankNamesTheRankItWaitsForAndItsHost) {
  const int last = World()->ranks() - 1;
  if (last == 0) GTEST_SKIP() << "needs two ranks";
  if (World()->rank() == last) {  // stalled
    std::this_thread::sleep_for(std::chrono::seconds(2));
    return;
  }
  World()->set_timeout_seconds(0.5);
  try {
    World()->AllGather({});
    FAIL() << "the stalled rank was not missed";
  } catch (const CommError& error) {
    const auto late =
        "rank " + std::to_string(last) + " on " + World()->host_of(last);
    EXPECT_THAT(error.what(), testing::HasSubstr("waits for " + late + ";"));
    EXPECT_THAT(error.what(), testing::HasSubstr("all-gather"));
  }
  // The destructor waits for the stalled rank, which comes back in time.
  World()->set_timeout_seconds(60);
}

}  // namespace
}  // namespace lumen::comm
