// SPDX-License-Identifier: Apache-2.0
// Splits element-wise work over threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lumen/sparse/compute.h"

namespace lumen::nn {

// task(begin, end) over [0, n), in pieces of 16K elements.
template <class Task>
void ForElements(const sparse::Compute& compute, int64_t n, const Task& task) {
  constexpr int64_t kPiece = int64_t{1} << 14;
  compute.parallel.For((n + kPiece - 1) / kPiece, [&](int64_t i) {
    task(i * kPiece, std::min(n, (i + 1) * kPiece));
  });
}

}  // namespace lumen::nn
