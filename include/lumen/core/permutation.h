// SPDX-License-Identifier: Apache-2.0
// A pseudo-random permutation of 0..size-1 in O(1) memory.
#pragma once

#include <cstdint>

#include "lumen/core/philox.h"

namespace lumen {

// A balanced Feistel network over the next even power of two, walked until it
// falls inside the range (Black and Rogaway 2002, "Ciphers with Arbitrary
// Finite Domains"). A pure function of (key, epoch, size). Thread-safe. Each
// look-up costs about 1 to 4 walks of 6 rounds.
class Permutation {
 public:
  // REQUIRES: size >= 0.
  Permutation(RandomKey key, uint32_t epoch, int64_t size);
  int64_t size() const { return size_; }
  // REQUIRES: 0 <= index < size().
  int64_t operator()(int64_t index) const;

 private:
  RandomKey key_;
  uint32_t epoch_;
  int64_t size_;
  int half_bits_;
};

}  // namespace lumen
