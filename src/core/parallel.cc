// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/parallel.h"

#include <glog/logging.h>
#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <mutex>

namespace lumen {

Parallel::Parallel(int threads) : threads_(std::max(1, threads)) {}

void Parallel::For(int64_t tasks,
                   const std::function<void(int64_t)>& task) const {
  if (tasks <= 1 || threads_ == 1) {
    for (int64_t i = 0; i < tasks; ++i) task(i);
    return;
  }
  std::exception_ptr error;
  int64_t error_task = tasks;
  std::mutex mutex;
#pragma omp parallel for num_threads(threads_) schedule(dynamic)
  for (int64_t i = 0; i < tasks; ++i) {
    try {
      task(i);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (i < error_task) {
        error = std::current_exception();
        error_task = i;
      }
    }
  }
  if (error) std::rethrow_exception(error);
}

int AvailableProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails on machines with more processors than the set can hold.
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return omp_get_num_procs();
  return std::max(1, CPU_COUNT(&set));
}

void SetLibraryThreads(int threads) { omp_set_num_threads(threads); }

void CheckIeeeArithmetic() {
  volatile float smallest = std::numeric_limits<float>::denorm_min();
  volatile float read = smallest * 1.0f;
  volatile float normal = std::numeric_limits<float>::min();
  volatile float halved = normal * 0.5f;
  CHECK(read != 0.0f && halved != 0.0f)
      << "denormals are flushed to zero; was a library built with -ffast-math?";
}

void CheckIeeeArithmetic(const Parallel& parallel) {
#pragma omp parallel num_threads(parallel.threads())
  CheckIeeeArithmetic();
}

}  // namespace lumen
