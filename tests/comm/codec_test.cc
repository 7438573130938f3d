// SPDX-License-Identifier: Apache-2.0
#include "lumen/comm/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>

#include "lumen/core/error.h"
#include "slices.h"

namespace lumen::comm {
namespace {

using Bytes = std::vector<std::byte>;

SparseSlice Decoded(ValueCode code, const Bytes& bytes, int64_t length) {
  std::span<const std::byte> left = bytes;
  SparseSlice slice;
  DecodeSlice(code, length, &left, &slice);
  EXPECT_TRUE(left.empty());
  return slice;
}

std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float v : values) bits.push_back(std::bit_cast<uint32_t>(v));
  return bits;
}

// Encodes, decodes, and checks that both sides see the same bits.
Bytes RoundTrip(ValueCode code, SparseSlice slice) {
  Bytes bytes = {std::byte{0xEE}};  // EncodeSlice appends
  EncodeSlice(code, &slice, &bytes);
  bytes.erase(bytes.begin());
  const SparseSlice decoded = Decoded(code, bytes, slice.length);
  EXPECT_EQ(decoded.position, slice.position);
  EXPECT_EQ(Bits(decoded.value), Bits(slice.value));
  return bytes;
}

TEST(Codec, TheWorkedExampleOfTheReadme) {
  SparseSlice slice{100, {3, 10, 11, 40}, {0.5f, -1.0f, 0.25f, 127.0f / 128}};
  Bytes bytes;
  EncodeSlice(ValueCode::kInt8, &slice, &bytes);
  std::string text;
  for (const std::byte b : bytes) {
    char digits[4];
    std::snprintf(digits, sizeof(digits), "%02x ", static_cast<int>(b));
    text += digits;
  }
  EXPECT_EQ(text, "08 9d a0 e0 02 3c 3f 82 20 7d ");
}

TEST(Codec, RandomSlicesSurviveForEveryValueCode) {
  for (const ValueCodeRow& row : ValueCodes()) {
    for (uint32_t seed = 0; seed < 400; ++seed) {
      RoundTrip(row.code, RandomSlice(seed));
    }
  }
}

TEST(Codec, EmptyAndAllZeroSlicesCostOneByte) {
  for (const ValueCodeRow& row : ValueCodes()) {
    EXPECT_EQ(RoundTrip(row.code, {1000, {}, {}}).size(), 1u);
    EXPECT_EQ(RoundTrip(row.code, {0, {}, {}}).size(), 1u);
    EXPECT_EQ(RoundTrip(row.code, {1000, {3, 500}, {0.0f, -0.0f}}).size(), 1u);
  }
}

TEST(Codec, ZerosAreNotSent) {
  SparseSlice slice{10, {0, 4, 9}, {0.0f, 2.0f, 0.0f}};
  Bytes bytes;
  EncodeSlice(ValueCode::kFp32, &slice, &bytes);
  EXPECT_THAT(Decoded(ValueCode::kFp32, bytes, 10).position,
              testing::ElementsAre(4));
}

TEST(Codec, FullSlicesNeedNoPositions) {
  SparseSlice slice{300, {}, {}};
  for (int32_t i = 0; i < 300; ++i) {
    slice.position.push_back(i);
    slice.value.push_back(static_cast<float>(i + 1));
  }
  EXPECT_EQ(RoundTrip(ValueCode::kFp32, slice).size(), 2 + 4 * 300u);
}

TEST(Codec, DenseSlicesTurnIntoABitmap) {
  SparseSlice slice{4000, {}, {}};
  for (int32_t i = 0; i < 4000; i += 1 + i % 2) {  // two of three
    slice.position.push_back(i);
    slice.value.push_back(1);
  }
  const auto entries = slice.position.size();
  EXPECT_LE(RoundTrip(ValueCode::kBf16, slice).size(),
            3 + 4000 / 8 + 2 * entries);
}

TEST(Codec, PositionsReachTheEndOfTheLongestRegion) {
  const int64_t length = (int64_t{1} << 31) - 1;
  const auto last = static_cast<int32_t>(length - 1);
  RoundTrip(ValueCode::kInt8, {length, {last}, {1.0f}});
  RoundTrip(ValueCode::kInt8,
            {length, {0, (1 << 24) + 1, (1 << 24) + 2, last}, {1, 2, 3, 4}});
}

TEST(Codec, Fp32IsExactAndBf16RoundsToEven) {
  const auto sent = [](ValueCode code, float x) {
    SparseSlice slice{1, {0}, {x}};
    Bytes bytes;
    EncodeSlice(code, &slice, &bytes);
    return slice.value.at(0);
  };
  EXPECT_EQ(sent(ValueCode::kFp32, 0x1.234566p-140f), 0x1.234566p-140f);
  EXPECT_EQ(sent(ValueCode::kBf16, 0x1.01p0f), 0x1.00p0f);  // tie: even
  EXPECT_EQ(sent(ValueCode::kBf16, 0x1.03p0f), 0x1.04p0f);  // tie: even
  EXPECT_EQ(sent(ValueCode::kBf16, -0x1.02fp0f), -0x1.02p0f);
}

TEST(Codec, Int8ErrorIsAtMostHalfAScale) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const SparseSlice given = RandomSlice(seed);
    SparseSlice sent = given;
    Bytes bytes;
    EncodeSlice(ValueCode::kInt8, &sent, &bytes);
    ASSERT_EQ(sent.position, given.position);
    for (size_t begin = 0; begin < sent.value.size(); begin += 256) {
      const size_t end = std::min(begin + 256, sent.value.size());
      float largest = 0;
      for (size_t i = begin; i < end; ++i) {
        largest = std::max(largest, std::fabs(given.value[i]));
      }
      // The scale is at most one bf16 step above largest / 127.
      const float scale = std::max(largest / 127 * 1.0079f, 0x1p-133f);
      for (size_t i = begin; i < end; ++i) {
        EXPECT_LE(std::fabs(given.value[i] - sent.value[i]), scale * 0.5001f);
      }
    }
  }
}

TEST(Codec, ExtremeValuesStayFinite) {
  const float huge = std::numeric_limits<float>::max();
  const float tiny = std::numeric_limits<float>::denorm_min();
  for (const ValueCodeRow& row : ValueCodes()) {
    SparseSlice slice{9, {0, 1, 2, 3}, {huge, -huge, tiny, huge / 2}};
    Bytes bytes;
    EncodeSlice(row.code, &slice, &bytes);
    for (const float v : slice.value) EXPECT_TRUE(std::isfinite(v));
    EXPECT_EQ(Bits(Decoded(row.code, bytes, 9).value), Bits(slice.value));
    RoundTrip(row.code, {9, {4}, {tiny}});
    RoundTrip(row.code, {9, {4, 5}, {tiny, -0x1p-127f}});
  }
}

TEST(Codec, SlicesFollowOneAnother) {
  Bytes bytes;
  std::vector<SparseSlice> slices;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    slices.push_back(RandomSlice(seed));
    EncodeSlice(ValueCodes()[seed % 3].code, &slices.back(), &bytes);
  }
  std::span<const std::byte> left = bytes;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const SparseSlice& slice = slices[seed];
    SparseSlice decoded;
    DecodeSlice(ValueCodes()[seed % 3].code, slice.length, &left, &decoded);
    EXPECT_EQ(decoded.position, slice.position);
    EXPECT_EQ(Bits(decoded.value), Bits(slice.value));
  }
  EXPECT_TRUE(left.empty());
}

double IndexBitsPerEntry(int64_t length, double density) {
  SparseSlice slice = UniformSlice(1, length, density);
  Bytes bytes;
  EncodeSlice(ValueCode::kFp32, &slice, &bytes);
  const auto entries = static_cast<double>(slice.position.size());
  return 8.0 * static_cast<double>(bytes.size()) / entries - 32;
}

TEST(Codec, IndexBitsAreWithinThreePercentOfTheEntropy) {
  for (const double density : {0.1, 0.01, 0.001}) {
    const double entropy = EntryBits(ValueCode::kFp32, density) - 32;
    const double bits = IndexBitsPerEntry(10'000'000, density);
    std::printf("density %g: %.3f bits per index, %.4f of H2(d)/d\n", density,
                bits, bits / entropy);
    EXPECT_LT(bits, 1.03 * entropy);
  }
}

TEST(Codec, SmallSlicesCostAFewBytesMoreThanTheIdeal) {
  double total = 0, ideal = 0, expected = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SparseSlice slice = UniformSlice(seed, 3000, 0.01);
    const auto entries = std::ssize(slice.position);
    const double density = static_cast<double>(entries) / 3000;
    ideal +=
        EntryBits(ValueCode::kInt8, density) / 8 * static_cast<double>(entries);
    expected += ExpectedSliceBytes(ValueCode::kInt8, entries, 3000);
    Bytes bytes;
    EncodeSlice(ValueCode::kInt8, &slice, &bytes);
    total += static_cast<double>(bytes.size());
  }
  std::printf("30 of 3000: %.2f bytes, ideal %.2f, expected %.2f\n",
              total / 500, ideal / 500, expected / 500);
  EXPECT_LT(total / 500, ideal / 500 + 4);
  EXPECT_NEAR(total / expected, 1, 0.01);
}

TEST(Codec, EntryBitsFollowTheFormula) {
  EXPECT_DOUBLE_EQ(EntryBits(ValueCode::kFp32, 1), 32);
  EXPECT_DOUBLE_EQ(EntryBits(ValueCode::kInt8, 0.5), 10);
  EXPECT_NEAR(EntryBits(ValueCode::kInt8, 0.01), 8 + 8.0793, 1e-3);
}

TEST(Codec, NamesParseAndUnknownOnesListTheKnown) {
  for (const ValueCodeRow& row : ValueCodes()) {
    EXPECT_EQ(ParseValueCode(row.name), row.code);
    EXPECT_EQ(ValueCodeNames()[static_cast<size_t>(row.code)], row.name);
  }
  try {
    ParseValueCode("int7");
    FAIL();
  } catch (const SpecError& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("\"int7\"; known: fp32, bf16, int8"));
  }
}

}  // namespace
}  // namespace lumen::comm
