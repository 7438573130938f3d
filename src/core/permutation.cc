// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/permutation.h"

#include <glog/logging.h>

#include <bit>

namespace lumen {
namespace {

constexpr uint32_t kRounds = 6;

}  // namespace

Permutation::Permutation(RandomKey key, uint32_t epoch, int64_t size)
    : key_(key), epoch_(epoch), size_(size) {
  CHECK_GE(size, 0);
  const int bits =
      size > 1 ? std::bit_width(static_cast<uint64_t>(size - 1)) : 1;
  half_bits_ = (bits + 1) / 2;
}

int64_t Permutation::operator()(int64_t index) const {
  DCHECK(index >= 0 && index < size_) << index << " of " << size_;
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t value = static_cast<uint64_t>(index);
  do {
    uint64_t left = value >> half_bits_;
    uint64_t right = value & mask;
    for (uint32_t round = 0; round < kRounds; ++round) {
      const uint64_t mixed =
          left ^ (Draw(key_, epoch_, right, round)[0] & mask);
      left = right;
      right = mixed;
    }
    value = left << half_bits_ | right;
  } while (value >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(value);
}

}  // namespace lumen
