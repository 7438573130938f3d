// SPDX-License-Identifier: Apache-2.0
// Damaged files: what a reader makes of one is a data set that keeps its
// promises, or an error that names the file; never a crash, a hang or an
// allocation that the file does not account for.
//
// A round of a test depends on its number alone. Each test has a number of
// rounds; LUMEN_FUZZ_SECONDS gives seconds instead, which the tests that run
// share evenly. A file that crashes a reader stays in the temporary folder.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lumen/data/dataset.h"

namespace lumen::data {

class FuzzLoop {
 public:
  explicit FuzzLoop(int64_t rounds);
  // Begins a round; false after the last, and after a failure.
  bool Next();
  int64_t round() const { return round_; }
  size_t Below(size_t n);  // 0 to n - 1

  // `bytes` with some bits, bytes and numbers changed, parts left out, given
  // twice or cut off, and `pieces` put in.
  std::string Damaged(std::string bytes,
                      const std::vector<std::string>& pieces = {});

  // Each round ends in one of these.
  void Good() { ++good_; }
  void Bad() { ++bad_; }
  int64_t good() const { return good_; }
  int64_t bad() const { return bad_; }

 private:
  std::chrono::steady_clock::time_point end_;
  int64_t rounds_;  // 0: until end_
  int64_t round_ = -1;
  int64_t good_ = 0;
  int64_t bad_ = 0;
  std::mt19937_64 random_;
};

// Samples can be read, their entries ascend, labels and values are in range
// and finite. Throws what reading throws.
void CheckPromises(const Dataset& data);

struct FuzzCase {
  std::string spec;  // a data object; FOLDER stands for where the files are
  std::vector<std::pair<std::string, std::string>> files;  // name and content
};
// In each round one file of one case is damaged.
void FuzzDatasets(const std::vector<FuzzCase>& cases, int64_t rounds,
                  const std::vector<std::string>& pieces = {});

}  // namespace lumen::data
