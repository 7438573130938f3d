// SPDX-License-Identifier: Apache-2.0
#include "lumen/nn/growth.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lumen::nn {
namespace {

// Lists hold this many times what is wanted before they are cut back.
constexpr int64_t kSlack = 2;
constexpr int64_t kBlockFloats = int64_t{1} << 18;

bool Larger(const GrowthCandidate& a, const GrowthCandidate& b) {
  const float x = std::abs(a.gradient), y = std::abs(b.gradient);
  return x != y ? x > y : a.position < b.position;
}

}  // namespace

void GrowthList::Add(int64_t position, float gradient) {
  // Later positions lose a tie. A NaN is never wanted.
  if (count_ == 0 || !(std::abs(gradient) > threshold_)) return;
  candidates_.push_back({position, gradient});
  if (std::ssize(candidates_) >= kSlack * count_) Shrink();
}

void GrowthList::Shrink() {
  if (std::ssize(candidates_) <= count_) return;
  const auto last = candidates_.begin() + count_ - 1;
  std::nth_element(candidates_.begin(), last, candidates_.end(), Larger);
  threshold_ = std::abs(last->gradient);
  candidates_.resize(static_cast<size_t>(count_));
}

std::vector<GrowthCandidate> GrowthList::Take() {
  Shrink();
  std::sort(candidates_.begin(), candidates_.end(),
            [](const GrowthCandidate& a, const GrowthCandidate& b) {
              return a.position < b.position;
            });
  return std::exchange(candidates_, {});
}

int64_t GrowthBlockFloats(int64_t columns) {
  return std::max(columns, kBlockFloats / columns * columns);
}

int64_t GrowthSearchBytes(int64_t columns, int64_t count) {
  return 4 * GrowthBlockFloats(columns) +
         kSlack * count * static_cast<int64_t>(sizeof(GrowthCandidate));
}

}  // namespace lumen::nn
