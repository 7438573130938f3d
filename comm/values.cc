// SPDX-License-Identifier: Apache-2.0
#include "values.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lumen::comm {
namespace {

constexpr uint32_t kInfinity = 0x7F800000;
constexpr uint32_t kLargestBf16 = 0x7F7F;

uint32_t Bits(float x) { return std::bit_cast<uint32_t>(x); }
float FromBf16(uint32_t half) { return std::bit_cast<float>(half << 16); }
bool Finite(float x) { return (Bits(x) & kInfinity) != kInfinity; }

// Round to nearest even; what would become infinite stays the largest.
uint32_t ToBf16(float x) {
  const uint32_t bits = Bits(x);
  const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  return (rounded & 0x7FFF) > kLargestBf16
             ? (bits >> 16 & 0x8000) | kLargestBf16
             : rounded;
}

// Scale of a block: largest / 127 rounded up to bf16, so that |x| / scale never
// rounds beyond 127; the smallest bf16 for what is tinier still.
uint32_t ScaleOf(std::span<const float> block) {
  float largest = 0;
  for (const float x : block) largest = std::max(largest, std::fabs(x));
  const uint32_t bits = Bits(largest / 127.0f);
  return std::max<uint32_t>((bits + 0xFFFF) >> 16, 1);
}

// Adding and taking off 1.5 * 2^23 rounds |x| < 2^22 to the nearest even
// integer.
float RoundToEven(float x) { return (x + 12582912.0f) - 12582912.0f; }

int8_t Quantize(float x, float scale) {
  float q = RoundToEven(x / scale);
  // Near the end of the fp32 range 127 * scale may overflow.
  if (!Finite(q * scale)) q -= std::copysign(1.0f, q);
  return static_cast<int8_t>(q);
}

void Put16(uint32_t value, std::vector<std::byte>* out) {
  out->push_back(static_cast<std::byte>(value & 0xFF));
  out->push_back(static_cast<std::byte>(value >> 8));
}

uint32_t Get16(const std::byte* in) {
  return static_cast<uint32_t>(in[0]) | static_cast<uint32_t>(in[1]) << 8;
}

void WriteFp32(std::span<float> values, std::vector<std::byte>* out) {
  for (const float x : values) {
    Put16(Bits(x) & 0xFFFF, out);
    Put16(Bits(x) >> 16, out);
  }
}

bool ReadFp32(const std::byte* in, std::span<float> values) {
  bool finite = true;
  for (float& x : values) {
    x = std::bit_cast<float>(Get16(in) | Get16(in + 2) << 16);
    finite &= Finite(x);
    in += 4;
  }
  return finite;
}

void WriteBf16(std::span<float> values, std::vector<std::byte>* out) {
  for (float& x : values) {
    const uint32_t half = ToBf16(x);
    Put16(half, out);
    x = FromBf16(half);
  }
}

bool ReadBf16(const std::byte* in, std::span<float> values) {
  bool finite = true;
  for (float& x : values) {
    x = FromBf16(Get16(in));
    finite &= Finite(x);
    in += 2;
  }
  return finite;
}

void WriteInt8(std::span<float> values, std::vector<std::byte>* out) {
  for (size_t begin = 0; begin < values.size(); begin += kScaleBlock) {
    const auto block = values.subspan(
        begin, std::min<size_t>(kScaleBlock, values.size() - begin));
    const uint32_t half = ScaleOf(block);
    const float scale = FromBf16(half);
    Put16(half, out);
    for (float& x : block) {
      const int8_t q = Quantize(x, scale);
      out->push_back(static_cast<std::byte>(q));
      x = static_cast<float>(q) * scale;
    }
  }
}

bool ReadInt8(const std::byte* in, std::span<float> values) {
  bool valid = true;
  for (size_t begin = 0; begin < values.size(); begin += kScaleBlock) {
    const auto block = values.subspan(
        begin, std::min<size_t>(kScaleBlock, values.size() - begin));
    const uint32_t half = Get16(in);
    valid &= half >= 1 && half <= kLargestBf16;
    const float scale = FromBf16(half);
    in += 2;
    for (float& x : block) {
      const auto q = static_cast<int8_t>(*in++);
      x = static_cast<float>(q) * scale;
      valid &= q != -128 && Finite(x);
    }
  }
  return valid;
}

}  // namespace

int64_t ValueBytes(ValueCode code, int64_t count) {
  switch (code) {
    case ValueCode::kFp32:
      return 4 * count;
    case ValueCode::kBf16:
      return 2 * count;
    case ValueCode::kInt8:
      return count + 2 * ((count + kScaleBlock - 1) / kScaleBlock);
  }
  return 0;
}

void WriteValues(ValueCode code, std::span<float> values,
                 std::vector<std::byte>* out) {
  switch (code) {
    case ValueCode::kFp32:
      return WriteFp32(values, out);
    case ValueCode::kBf16:
      return WriteBf16(values, out);
    case ValueCode::kInt8:
      return WriteInt8(values, out);
  }
}

bool ReadValues(ValueCode code, std::span<const std::byte> bytes,
                std::span<float> values) {
  switch (code) {
    case ValueCode::kFp32:
      return ReadFp32(bytes.data(), values);
    case ValueCode::kBf16:
      return ReadBf16(bytes.data(), values);
    case ValueCode::kInt8:
      return ReadInt8(bytes.data(), values);
  }
  return false;
}

}  // namespace lumen::comm
