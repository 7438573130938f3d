// SPDX-License-Identifier: Apache-2.0
// Threads of one rank. The only home of OpenMP.
#pragma once

#include <cstdint>
#include <functional>

namespace lumen {

// Copyable; thread-safe as long as one thread at a time calls For.
class Parallel {
 public:
  explicit Parallel(int threads = 1);
  int threads() const { return threads_; }

  // Calls task(i) for i in 0..tasks-1 on up to threads() threads and waits.
  // Tasks must write disjoint results; which thread runs one is unspecified.
  // When tasks throw, the exception of the lowest index is rethrown here; of
  // the others some may have run. A single task, or one thread, runs in the
  // caller, and so do the tasks of a For inside of a task. Costs a few
  // microseconds per call.
  void For(int64_t tasks, const std::function<void(int64_t)>& task) const;

 private:
  int threads_;
};

// Number of processors this process may run on (its affinity mask).
int AvailableProcessors();

// Threads of libraries that use OpenMP by themselves, such as oneDNN.
void SetLibraryThreads(int threads);

// CHECKs that this thread neither flushes denormals nor reads them as zero: the
// promise of equal bits needs IEEE arithmetic in every thread.
void CheckIeeeArithmetic();
void CheckIeeeArithmetic(const Parallel& parallel);  // in all its threads

}  // namespace lumen
