// SPDX-License-Identifier: Apache-2.0
// LEB128 integers: seven bits per byte, low bits first, the high bit set on all
// bytes but the last. Small counts cost one byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lumen::comm {

inline constexpr int kMaxVarintBytes = 10;

// Writes to `out`, which has room for kMaxVarintBytes; returns the bytes used.
inline int PutVarint(uint64_t value, std::byte* out) {
  int used = 0;
  for (; value >= 0x80; value >>= 7) {
    out[used++] = static_cast<std::byte>(value | 0x80);
  }
  out[used++] = static_cast<std::byte>(value);
  return used;
}

// Reads from the front of *bytes and advances it. False when it is truncated or
// longer than 64 bits.
inline bool GetVarint(std::span<const std::byte>* bytes, uint64_t* value) {
  *value = 0;
  for (int used = 0; used < kMaxVarintBytes; ++used) {
    if (used == static_cast<int>(bytes->size())) return false;
    const auto byte = static_cast<uint64_t>((*bytes)[used]);
    if (used == kMaxVarintBytes - 1 && byte > 1) return false;
    *value |= (byte & 0x7F) << (7 * used);
    if (byte < 0x80) {
      *bytes = bytes->subspan(used + 1);
      return true;
    }
  }
  return false;
}

}  // namespace lumen::comm
