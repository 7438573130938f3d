// SPDX-License-Identifier: Apache-2.0
#include "passes.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

namespace lumen::comm {
namespace {

constexpr int64_t kUnit = 1024;  // of the kernel sum_of_squares
constexpr int64_t kPiece = 64 * kUnit;

}  // namespace

void ForPieces(const sparse::Compute& compute, int64_t n,
               const std::function<void(int64_t, int64_t)>& body) {
  compute.parallel.For((n + kPiece - 1) / kPiece, [&](int64_t i) {
    body(i * kPiece, std::min(n, (i + 1) * kPiece));
  });
}

void AddTo(const sparse::Compute& compute, std::span<const float> x,
           std::span<float> y) {
  ForPieces(compute, static_cast<int64_t>(y.size()),
            [&](int64_t begin, int64_t end) {
              compute->add(x.data() + begin, y.data() + begin, end - begin);
            });
}

bool AddToIsFinite(const sparse::Compute& compute, std::span<const float> x,
                   std::span<float> y) {
  constexpr int64_t kInCache = 4 * kUnit;  // x and y, in L1
  std::atomic<bool> finite = true;
  ForPieces(compute, static_cast<int64_t>(y.size()),
            [&](int64_t begin, int64_t end) {
              for (int64_t i = begin; i < end; i += kInCache) {
                const int64_t n = std::min(kInCache, end - i);
                compute->add(x.data() + i, y.data() + i, n);
                if (!compute->all_finite(y.data() + i, n)) finite = false;
              }
            });
  return finite;
}

void ScaleBy(const sparse::Compute& compute, float factor, std::span<float> x) {
  ForPieces(compute, static_cast<int64_t>(x.size()),
            [&](int64_t begin, int64_t end) {
              compute->scale(factor, x.data() + begin, end - begin);
            });
}

bool IsFinite(const sparse::Compute& compute, std::span<const float> x) {
  std::atomic<bool> finite = true;
  ForPieces(compute, static_cast<int64_t>(x.size()),
            [&](int64_t begin, int64_t end) {
              if (!compute->all_finite(x.data() + begin, end - begin)) {
                finite = false;
              }
            });
  return finite;
}

double SumOfSquares(const sparse::Compute& compute, std::span<const float> x) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<double> unit((n + kUnit - 1) / kUnit);
  ForPieces(compute, n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kUnit) {
      unit[i / kUnit] =
          compute->sum_of_squares(x.data() + i, std::min(kUnit, end - i));
    }
  });
  double sum = 0;
  for (const double u : unit) sum += u;
  return sum;
}

float ClipFactor(double sum_of_squares, double limit) {
  const double norm = std::sqrt(sum_of_squares);
  return norm > limit ? static_cast<float>(limit / norm) : 1.0f;
}

}  // namespace lumen::comm
