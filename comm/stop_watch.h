// SPDX-License-Identifier: Apache-2.0
// Adds the time until its end to a sum of seconds.
#pragma once

#include <chrono>

namespace lumen::comm {

class StopWatch {
 public:
  explicit StopWatch(double* seconds)
      : seconds_(seconds), began_(std::chrono::steady_clock::now()) {}
  StopWatch(const StopWatch&) = delete;
  StopWatch& operator=(const StopWatch&) = delete;
  ~StopWatch() {
    *seconds_ +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began_)
            .count();
  }

 private:
  double* seconds_;
  std::chrono::steady_clock::time_point began_;
};

}  // namespace lumen::comm
