// SPDX-License-Identifier: Apache-2.0
// Selection of the k largest magnitudes: a radix select on the bits of |x|,
// which order like the numbers themselves.
#include <glog/logging.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "lumen/comm/compressor.h"

namespace lumen::comm {
namespace {

constexpr int64_t kStep = 16;  // elements looked at together
// The threshold moves from step to step; a hint a little below the last one
// almost always catches k entries, and few more.
constexpr float kHintMargin = 0.85f;

uint32_t Key(float x) { return std::bit_cast<uint32_t>(x) & 0x7FFFFFFF; }

// Largest key of kStep elements. Signed maxima compile to vector code.
int32_t LargestKey(const float* x) {
  int32_t largest = 0;
  for (int64_t i = 0; i < kStep; ++i) {
    largest = std::max(largest, static_cast<int32_t>(Key(x[i])));
  }
  return largest;
}

// Calls visit(index, key) for each element with key >= floor, in order; stops
// early when visit returns false.
template <class Visit>
void ForEachFrom(std::span<const float> x, uint32_t floor, Visit visit) {
  const auto n = static_cast<int64_t>(x.size());
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    if (LargestKey(&x[i]) < static_cast<int32_t>(floor)) continue;
    for (int64_t j = i; j < i + kStep; ++j) {
      if (Key(x[j]) >= floor && !visit(j, Key(x[j]))) return;
    }
  }
  for (; i < n; ++i) {
    if (Key(x[i]) >= floor && !visit(i, Key(x[i]))) return;
  }
}

// Finds the bin of the entry of rank `*wanted` (1: the largest) counted from
// the top, and leaves its rank within that bin in *wanted.
template <size_t N>
uint32_t BinFromTop(const std::array<int64_t, N>& count, int64_t* wanted) {
  size_t bin = N - 1;
  while (count[bin] < *wanted) *wanted -= count[bin--];
  return static_cast<uint32_t>(bin);
}

// The key of the k-th largest entry: 11, 10 and 10 bits at a time.
uint32_t ThresholdKey(std::span<const float> x, int64_t k) {
  int64_t wanted = k;
  std::array<int64_t, 2048> high{};
  for (const float value : x) ++high[Key(value) >> 20];
  const uint32_t top = BinFromTop(high, &wanted) << 20;

  std::array<int64_t, 1024> middle{};
  ForEachFrom(x, top, [&](int64_t, uint32_t key) {
    if (key >> 20 == top >> 20) ++middle[key >> 10 & 1023];
    return true;
  });
  const uint32_t mid = top | BinFromTop(middle, &wanted) << 10;

  std::array<int64_t, 1024> low{};
  ForEachFrom(x, mid, [&](int64_t, uint32_t key) {
    if (key >> 10 == mid >> 10) ++low[key & 1023];
    return true;
  });
  return mid | BinFromTop(low, &wanted);
}

struct Candidate {
  int32_t index;
  uint32_t key;
};

// Tries to find k entries at or above `floor` in one pass. False when there are
// fewer, or too many to be worth keeping.
bool Collect(std::span<const float> x, int64_t k, uint32_t floor,
             std::vector<Candidate>* out) {
  const int64_t limit = 3 * k + 1024;
  out->clear();
  bool fits = true;
  ForEachFrom(x, floor, [&](int64_t index, uint32_t key) {
    fits = static_cast<int64_t>(out->size()) < limit;
    if (fits) out->push_back({static_cast<int32_t>(index), key});
    return fits;
  });
  return fits && static_cast<int64_t>(out->size()) >= k;
}

// Appends the positions with a key above the threshold, and of those equal to
// it the first ones until k are reached.
class Taker {
 public:
  Taker(uint32_t threshold, int64_t ties, std::vector<int32_t>* out)
      : threshold_(threshold), ties_(ties), out_(out) {}
  void Take(int64_t index, uint32_t key) {
    if (key < threshold_ || (key == threshold_ && ties_-- <= 0)) return;
    out_->push_back(static_cast<int32_t>(index));
  }

 private:
  uint32_t threshold_;
  int64_t ties_;
  std::vector<int32_t>* out_;
};

}  // namespace

int64_t KeptEntries(double density, int64_t n) {
  if (n <= 0) return 0;
  const double kept = std::floor(density * static_cast<double>(n) + 0.5);
  if (!(kept > 1)) return 1;
  return kept < static_cast<double>(n) ? static_cast<int64_t>(kept) : n;
}

void SelectLargest(std::span<const float> x, int64_t k, float* threshold_hint,
                   std::vector<int32_t>* position) {
  const auto n = static_cast<int64_t>(x.size());
  CHECK(k >= 0 && k <= n && n < int64_t{1} << 31);
  position->clear();
  if (k == 0) return;
  position->reserve(k);
  if (k == n) {
    for (int64_t i = 0; i < n; ++i) {
      position->push_back(static_cast<int32_t>(i));
    }
    return;
  }

  std::vector<Candidate> candidates;
  const uint32_t floor = Key(*threshold_hint * kHintMargin);
  if (floor != 0 && Collect(x, k, floor, &candidates)) {
    std::vector<uint32_t> keys(candidates.size());
    std::transform(candidates.begin(), candidates.end(), keys.begin(),
                   [](const Candidate& c) { return c.key; });
    const auto nth = keys.begin() + (k - 1);
    std::nth_element(keys.begin(), nth, keys.end(), std::greater<>());
    const uint32_t threshold = *nth;
    const int64_t above = std::count_if(
        keys.begin(), nth, [&](uint32_t key) { return key > threshold; });
    Taker taker(threshold, k - above, position);
    for (const Candidate& c : candidates) taker.Take(c.index, c.key);
    *threshold_hint = std::bit_cast<float>(threshold);
    return;
  }

  const uint32_t threshold = ThresholdKey(x, k);
  int64_t above = 0;
  ForEachFrom(x, threshold, [&](int64_t, uint32_t key) {
    above += key > threshold;
    return true;
  });
  Taker taker(threshold, k - above, position);
  ForEachFrom(x, threshold, [&](int64_t index, uint32_t key) {
    taker.Take(index, key);
    return static_cast<int64_t>(position->size()) < k;
  });
  *threshold_hint = std::bit_cast<float>(threshold);
}

}  // namespace lumen::comm
