// SPDX-License-Identifier: Apache-2.0
// Selection of the k largest magnitudes. The bits of |x| order like the numbers
// themselves. A sample gives a floor a little below the threshold; one pass
// collects what lies at or above it, and the threshold is found among these.
// Where that fails (too few, or too many ties) a radix select finds it.
#include <glog/logging.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>

#include "lumen/comm/compressor.h"

namespace lumen::comm {
namespace {

constexpr int64_t kStep = 16;  // elements looked at together
// One of so many is sampled. Each costs a line of the cache, which long arrays
// no longer are in.
int64_t SampleStride(int64_t n) { return n < int64_t{1} << 20 ? 64 : 256; }
constexpr int64_t kPiece = 128 * 1024;  // elements per task

uint32_t Key(float x) { return std::bit_cast<uint32_t>(x) & 0x7FFFFFFF; }

// Is any of kStep keys >= floor? Signed compares: vector code on any x86-64.
bool AnyFrom(const float* x, int32_t floor) {
  int32_t any = 0;
  for (int64_t i = 0; i < kStep; ++i) {
    any |= static_cast<int32_t>(Key(x[i])) >= floor ? -1 : 0;
  }
  return any != 0;
}

// Calls visit(index, key) for each element of [begin, end) with key >= floor,
// in order; stops early when visit returns false.
template <class Visit>
void ForEachFrom(std::span<const float> x, int64_t begin, int64_t end,
                 uint32_t floor, Visit visit) {
  for (int64_t i = begin; i < end; i += kStep) {
    const int64_t stop = std::min(end, i + kStep);
    if (stop - i == kStep && !AnyFrom(&x[i], static_cast<int32_t>(floor))) {
      continue;
    }
    for (int64_t j = i; j < stop; ++j) {
      if (Key(x[j]) >= floor && !visit(j, Key(x[j]))) return;
    }
  }
}

template <class Visit>
void ForEachFrom(std::span<const float> x, uint32_t floor, Visit visit) {
  ForEachFrom(x, 0, std::ssize(x), floor, visit);
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
uint32_t RadixThreshold(std::span<const float> x, int64_t k) {
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

// A key that most likely k entries, and not many more, reach: never 0, since
// zeros need no collecting.
uint32_t SampledFloor(std::span<const float> x, int64_t k) {
  std::vector<uint32_t> sample;
  const auto stride = static_cast<size_t>(SampleStride(std::ssize(x)));
  sample.reserve(x.size() / stride + 1);
  for (size_t i = 0; i < x.size(); i += stride) {
    sample.push_back(Key(x[i]));
  }
  // Expected number of chosen entries in the sample plus three deviations.
  const double chosen = static_cast<double>(k) *
                        static_cast<double>(sample.size()) /
                        static_cast<double>(x.size());
  const double rank = chosen + 3 * std::sqrt(chosen) + 1;
  if (rank >= static_cast<double>(sample.size())) return 1;
  const auto nth = sample.begin() + static_cast<int64_t>(rank);
  std::nth_element(sample.begin(), nth, sample.end(), std::greater<>());
  return std::max<uint32_t>(*nth, 1);
}

struct Candidate {
  int32_t index;
  uint32_t key;
};

// The entries with key >= floor, in order. False when there are too many to be
// worth keeping.
bool Collect(const Parallel& parallel, std::span<const float> x, int64_t k,
             uint32_t floor, std::vector<Candidate>* out) {
  const int64_t n = std::ssize(x);
  const int64_t limit = 4 * k + 8192;
  std::vector<std::vector<Candidate>> parts((n + kPiece - 1) / kPiece);
  std::atomic<int64_t> total = 0;
  parallel.For(std::ssize(parts), [&](int64_t piece) {
    if (total > limit) return;
    std::vector<Candidate>& part = parts[piece];
    ForEachFrom(x, piece * kPiece, std::min(n, (piece + 1) * kPiece), floor,
                [&](int64_t index, uint32_t key) {
                  part.push_back({static_cast<int32_t>(index), key});
                  return std::ssize(part) <= limit;
                });
    total += std::ssize(part);
  });
  if (total > limit) return false;
  if (parts.size() == 1) {
    *out = std::move(parts[0]);
    return true;
  }
  out->reserve(total);
  for (const auto& part : parts)
    out->insert(out->end(), part.begin(), part.end());
  return true;
}

// Appends the positions with a key above the threshold, and of those equal to
// it the first `ties`.
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

void TakeFromCandidates(const std::vector<Candidate>& candidates, int64_t k,
                        std::vector<int32_t>* position) {
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
}

// All nonzeros are candidates; the first zeros fill up to k.
void TakeAllAndZeros(std::span<const float> x,
                     const std::vector<Candidate>& candidates, int64_t k,
                     std::vector<int32_t>* position) {
  int64_t zeros = k - std::ssize(candidates);
  size_t next = 0;  // candidate
  for (int64_t i = 0; zeros > 0; ++i) {
    const bool nonzero = Key(x[i]) != 0;
    nonzero ? ++next : --zeros;
    position->push_back(static_cast<int32_t>(i));
  }
  for (; next < candidates.size(); ++next) {
    position->push_back(candidates[next].index);
  }
}

void TakeByRadix(std::span<const float> x, int64_t k,
                 std::vector<int32_t>* position) {
  const uint32_t threshold = RadixThreshold(x, k);
  int64_t above = 0;
  ForEachFrom(x, threshold, [&](int64_t, uint32_t key) {
    above += key > threshold;
    return true;
  });
  Taker taker(threshold, k - above, position);
  ForEachFrom(x, threshold, [&](int64_t index, uint32_t key) {
    taker.Take(index, key);
    return std::ssize(*position) < k;
  });
}

}  // namespace

int64_t KeptEntries(double density, int64_t n) {
  if (n <= 0) return 0;
  const double kept = std::floor(density * static_cast<double>(n) + 0.5);
  if (!(kept > 1)) return 1;
  return kept < static_cast<double>(n) ? static_cast<int64_t>(kept) : n;
}

void SelectLargest(const Parallel& parallel, std::span<const float> x,
                   int64_t k, std::vector<int32_t>* position) {
  const int64_t n = std::ssize(x);
  CHECK(k >= 0 && k <= n && n < int64_t{1} << 31);
  position->clear();
  if (k == 0) return;
  position->reserve(k);
  if (k == n) {
    position->resize(n);
    std::iota(position->begin(), position->end(), 0);
    return;
  }
  const uint32_t floor = SampledFloor(x, k);
  std::vector<Candidate> candidates;
  if (!Collect(parallel, x, k, floor, &candidates)) {
    return TakeByRadix(x, k, position);
  }
  if (std::ssize(candidates) >= k) {
    TakeFromCandidates(candidates, k, position);
  } else if (floor == 1) {
    TakeAllAndZeros(x, candidates, k, position);
  } else {
    TakeByRadix(x, k, position);
  }
}

}  // namespace lumen::comm
