// SPDX-License-Identifier: Apache-2.0
// Bit streams, most significant bit first, and the Golomb-Rice code on them:
// a number g with parameter r is g >> r zeros, a one, and the low r bits
// (Rice 1979, "Some Practical Universal Noiseless Coding Techniques").
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lumen::comm {

class BitWriter {
 public:
  // Appends to *out, which outlives the writer.
  explicit BitWriter(std::vector<std::byte>* out) : out_(out) {}

  // REQUIRES: 0 <= bits <= 32, value < 2^bits.
  void Put(uint64_t value, int bits) {
    pending_ = pending_ << bits | value;
    count_ += bits;
    if (count_ >= 32) Emit32();
  }
  void PutRice(uint32_t value, int parameter) {
    uint32_t zeros = value >> parameter;
    for (; zeros >= 32; zeros -= 32) Put(0, 32);
    Put(1, static_cast<int>(zeros) + 1);
    Put(value & ((uint64_t{1} << parameter) - 1), parameter);
  }
  // Pads the last byte with zeros. Call once, at the end.
  void Finish() {
    for (; count_ > 0; count_ -= 8) {
      const uint64_t byte =
          count_ >= 8 ? pending_ >> (count_ - 8) : pending_ << (8 - count_);
      out_->push_back(static_cast<std::byte>(byte & 0xFF));
    }
    count_ = 0;
  }

 private:
  void Emit32() {
    count_ -= 32;
    const auto word = static_cast<uint32_t>(pending_ >> count_);
    const std::byte bytes[4] = {
        static_cast<std::byte>(word >> 24), static_cast<std::byte>(word >> 16),
        static_cast<std::byte>(word >> 8), static_cast<std::byte>(word)};
    out_->insert(out_->end(), bytes, bytes + 4);
  }

  std::vector<std::byte>* out_;
  uint64_t pending_ = 0;  // its low count_ bits are not yet written
  int count_ = 0;
};

class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  // False when the bits run out; then nothing further is meaningful.
  // REQUIRES: 0 <= bits <= 32.
  bool Get(int bits, uint32_t* value) {
    Refill();
    if (count_ < bits) return false;
    *value = bits ? static_cast<uint32_t>(window_ >> (64 - bits)) : 0;
    Skip(bits);
    return true;
  }
  // Fails as well when the number exceeds `limit` (< 2^31).
  bool GetRice(int parameter, uint32_t limit, uint32_t* value) {
    uint64_t zeros = 0;
    for (;;) {
      Refill();
      if (count_ == 0) return false;
      const int run = std::min(std::countl_zero(window_), count_);
      zeros += run;
      if (zeros > limit >> parameter) return false;
      Skip(run);
      if (count_ > 0) break;
    }
    Skip(1);
    uint32_t low = 0;
    if (!Get(parameter, &low)) return false;
    *value = static_cast<uint32_t>(zeros << parameter) | low;
    return *value <= limit;
  }
  // Whole bytes used so far; *clean: are the padding bits of the last one zero?
  size_t Finish(bool* clean) const {
    const int padding = count_ % 8;
    *clean = padding == 0 || window_ >> (64 - padding) == 0;
    return next_ - count_ / 8;
  }

 private:
  void Refill() {
    while (count_ <= 56 && next_ < bytes_.size()) {
      window_ |= static_cast<uint64_t>(bytes_[next_++]) << (56 - count_);
      count_ += 8;
    }
  }
  void Skip(int bits) {
    window_ = bits < 64 ? window_ << bits : 0;
    count_ -= bits;
  }

  std::span<const std::byte> bytes_;
  size_t next_ = 0;
  uint64_t window_ = 0;  // its high count_ bits are not yet read, the rest zero
  int count_ = 0;
};

}  // namespace lumen::comm
