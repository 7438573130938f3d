// SPDX-License-Identifier: Apache-2.0
// Hostile bytes: the decoder either throws CommError or returns a slice that
// keeps every promise. Run under the asan preset it also proves that nothing
// outside the bytes is touched.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "lumen/core/error.h"
#include "slices.h"

namespace lumen::comm {
namespace {

using Bytes = std::vector<std::byte>;

// Sanitizers make an exception a hundred times slower.
#if defined(__SANITIZE_ADDRESS__)
constexpr uint32_t kRounds = 60000;
#else
constexpr uint32_t kRounds = 300000;
#endif

// True when the bytes decoded.
bool Decodes(ValueCode code, const Bytes& given, int64_t length) {
  // An exact allocation, so that a sanitizer sees every overrun.
  const Bytes bytes(given.begin(), given.end());
  std::span<const std::byte> left = bytes;
  SparseSlice slice;
  try {
    DecodeSlice(code, length, &left, &slice);
  } catch (const CommError&) {
    EXPECT_LE(slice.position.capacity(), 64 + 16 * bytes.size());
    return false;
  }
  EXPECT_LE(left.size(), bytes.size());
  EXPECT_EQ(slice.position.size(), slice.value.size());
  EXPECT_LE(slice.position.size(), 8 * bytes.size());
  int64_t previous = -1;
  for (size_t i = 0; i < slice.position.size(); ++i) {
    EXPECT_GT(slice.position[i], previous);
    EXPECT_LT(slice.position[i], length);
    EXPECT_TRUE(std::isfinite(slice.value[i]));
    previous = slice.position[i];
  }
  return true;
}

TEST(CodecFuzz, RandomBytesNeverBreakTheDecoder) {
  int64_t decoded = 0;
  for (uint32_t i = 0; i < kRounds; ++i) {
    const auto draw = Philox({i, 1, 2, 3}, {4, 5});
    Bytes bytes(draw[0] % 48);
    for (size_t j = 0; j < bytes.size(); j += 16) {
      const auto words = Philox({i, static_cast<uint32_t>(j), 9, 9}, {4, 5});
      std::memcpy(&bytes[j], words.data(),
                  std::min<size_t>(16, bytes.size() - j));
    }
    // Small counts and plausible index codes get further.
    if (draw[1] % 2 && bytes.size() > 1) {
      bytes[0] &= std::byte{0x1F};
      bytes[1] &= std::byte{0x1F};
    }
    const int64_t lengths[] = {0, 1, 9, 300, 65536, (int64_t{1} << 31) - 1};
    decoded += Decodes(ValueCodes()[i % 3].code, bytes, lengths[draw[2] % 6]);
  }
  EXPECT_GT(decoded, 1000);  // the loop reaches the end of the decoder
}

TEST(CodecFuzz, FlippedBitsNeverBreakTheDecoder) {
  for (uint32_t i = 0; i < kRounds; ++i) {
    if (i % 100 == 0 && testing::Test::HasFailure()) return;
    const auto draw = Philox({i, 7, 7, 7}, {8, 9});
    SparseSlice slice = RandomSlice(draw[0] % 300);
    if (slice.length > 500) slice = UniformSlice(i, 200, 0.1);
    Bytes bytes;
    const ValueCode code = ValueCodes()[i % 3].code;
    EncodeSlice(code, &slice, &bytes);
    for (uint32_t flip = 0; flip <= draw[1] % 3; ++flip) {
      const uint32_t bit = draw[2 + flip % 2] % (8 * bytes.size());
      bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    }
    Decodes(code, bytes, slice.length);
  }
}

TEST(CodecFuzz, EveryTruncationIsRefused) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SparseSlice slice = RandomSlice(seed);
    Bytes bytes;
    const ValueCode code = ValueCodes()[seed % 3].code;
    EncodeSlice(code, &slice, &bytes);
    if (bytes.size() > 400) continue;
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(
          Decodes(code, {bytes.begin(), bytes.begin() + size}, slice.length));
    }
    EXPECT_TRUE(Decodes(code, bytes, slice.length));
  }
}

TEST(CodecFuzz, HugeCountsAllocateNothing) {
  // 2^31 - 2 entries announced, no bytes behind it.
  const Bytes bytes = {std::byte{0xFC}, std::byte{0xFF}, std::byte{0xFF},
                       std::byte{0xFF}, std::byte{0x0F}, std::byte{0}};
  for (const ValueCodeRow& row : ValueCodes()) {
    EXPECT_FALSE(Decodes(row.code, bytes, (int64_t{1} << 31) - 1));
  }
}

}  // namespace
}  // namespace lumen::comm
