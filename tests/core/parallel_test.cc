// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace lumen {
namespace {

TEST(Parallel, EveryTaskRunsOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    for (const int64_t tasks : {0, 1, 2, 10, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
      Parallel(threads).For(tasks,
                            [&](int64_t i) { ++runs[static_cast<size_t>(i)]; });
      for (const auto& count : runs) EXPECT_EQ(count, 1);
    }
  }
}

TEST(Parallel, NoThreadsMeansOne) {
  EXPECT_EQ(Parallel(0).threads(), 1);
  EXPECT_EQ(Parallel(-3).threads(), 1);
  EXPECT_EQ(Parallel(5).threads(), 5);
}

TEST(Parallel, TheFirstExceptionArrives) {
  for (const int threads : {1, 3}) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      try {
        Parallel(threads).For(100, [](int64_t i) {
          if (i % 30 == 20) throw std::runtime_error(std::to_string(i));
        });
        FAIL();
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "20");
      }
    }
  }
}

TEST(Parallel, ForInsideOfATaskRuns) {
  std::atomic<int64_t> sum = 0;
  const Parallel parallel(3);
  parallel.For(10, [&](int64_t i) {
    parallel.For(10, [&](int64_t j) { sum += i * j; });
  });
  EXPECT_EQ(sum, 45 * 45);
}

TEST(Parallel, AProcessorIsAvailable) { EXPECT_GE(AvailableProcessors(), 1); }

TEST(Parallel, ArithmeticIsIeeeInEveryThread) {
  CheckIeeeArithmetic();
  CheckIeeeArithmetic(Parallel(3));
}

#if defined(__SSE__)
TEST(ParallelDeathTest, FlushingDenormalsIsFound) {
  constexpr unsigned kFlushToZero = 0x8000;
  constexpr unsigned kDenormalsAreZero = 0x0040;
  for (const unsigned mode : {kFlushToZero, kDenormalsAreZero}) {
    EXPECT_DEATH(
        {
          _mm_setcsr(_mm_getcsr() | mode);
          CheckIeeeArithmetic();
        },
        "denormals are flushed to zero");
  }
}
#endif

}  // namespace
}  // namespace lumen
