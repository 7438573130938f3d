// SPDX-License-Identifier: Apache-2.0
// Where a mask should grow: absent weights whose gradient would be large.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace lumen::nn {

// An absent weight, by its position in the dense tensor.
struct GrowthCandidate {
  int64_t position = 0;
  float gradient = 0;
};

// The `count` candidates of the largest magnitude, ties to the lowest position,
// in order of position. Not thread-safe.
class GrowthList {
 public:
  explicit GrowthList(int64_t count) : count_(count) {}
  // Positions must ascend over all calls.
  void Add(int64_t position, float gradient);
  std::vector<GrowthCandidate> Take();

 private:
  void Shrink();

  int64_t count_;
  float threshold_ = 0;  // magnitudes up to this one are not wanted any more
  std::vector<GrowthCandidate> candidates_;
};

// What a backward pass looks for.
struct GrowthSearch {
  std::vector<int64_t> count;  // per tensor; 0: not searched
  // Called as the pass goes, last tensor first.
  std::function<void(int tensor, std::vector<GrowthCandidate> found)> found;
};

// Floats of the dense gradient that a search looks at together: whole rows.
int64_t GrowthBlockFloats(int64_t columns);
// Bytes that a search of `count` in a tensor of so many columns needs.
int64_t GrowthSearchBytes(int64_t columns, int64_t count);

}  // namespace lumen::nn
