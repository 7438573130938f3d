// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include "lumen/core/memory.h"

namespace lumen {
namespace {

// A line of /proc/self/status in bytes: VmSize, VmRSS.
int64_t StatusBytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  std::string word;
  int64_t kib = 0;
  while (file >> word) {
    if (word == key + ":" && file >> kib) return kib * 1024;
  }
  return 0;
}

TEST(Buffer, IsAlignedAndZero) {
  for (const int64_t size : {1, 10, 1000, 1024, 1025, 100000, 3000000}) {
    const Buffer<float> buffer(size);
    ASSERT_EQ(buffer.size(), size);
    EXPECT_EQ(buffer.bytes(), 4 * size);
    EXPECT_EQ(buffer.span().size(), static_cast<size_t>(size));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    for (const float value : buffer.span()) ASSERT_EQ(value, 0.0f);
  }
}

TEST(Buffer, EmptyOnesHoldNothing) {
  const Buffer<double> none;
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(none.data(), nullptr);
  const Buffer<double> zero(0);
  EXPECT_EQ(zero.bytes(), 0);
  EXPECT_EQ(zero.data(), nullptr);
  EXPECT_TRUE(zero.span().empty());
}

TEST(Buffer, EveryElementCanBeWritten) {
  for (const int64_t size :
       {1, 4095, 4096, 4097, (8 << 20) - 1, 8 << 20, (8 << 20) + 1, 9999999}) {
    Buffer<char> buffer(size);
    for (int64_t i = 0; i < size; ++i) buffer[i] = static_cast<char>(i);
    for (int64_t i = 0; i < size; ++i) {
      ASSERT_EQ(buffer[i], static_cast<char>(i));
    }
  }
}

TEST(Buffer, LargeOnesBeginAtAHugePage) {
  const Buffer<char> buffer((int64_t{8} << 20) + 5);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % (2 << 20), 0u);
}

TEST(Buffer, MovingKeepsTheMemory) {
  Buffer<int32_t> first(100);
  first[7] = 3;
  const int32_t* data = first.data();
  Buffer<int32_t> second(std::move(first));
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(first.size(), 0);  // NOLINT: moved from on purpose
  Buffer<int32_t> third(10);
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.size(), 100);
  EXPECT_EQ(third[7], 3);
}

TEST(Buffer, FreedMemoryLeavesTheProcessAtOnce) {
  for (const int64_t size : {int64_t{4097}, (int64_t{64} << 20) + 1}) {
    const int64_t before = StatusBytes("VmSize");
    for (int i = 0; i < 100; ++i) {
      Buffer<char> buffer(size);
      buffer[size - 1] = 1;
    }
    EXPECT_LE(StatusBytes("VmSize"), before + (int64_t{1} << 20)) << size;
  }
  const int64_t before = StatusBytes("VmRSS");
  Buffer<char> buffer(int64_t{64} << 20);
  for (int64_t i = 0; i < buffer.size(); i += 4096) buffer[i] = 1;
  EXPECT_GE(StatusBytes("VmRSS"), before + (int64_t{60} << 20));
  buffer = Buffer<char>();
  EXPECT_LE(StatusBytes("VmRSS"), before + (int64_t{4} << 20));
}

TEST(Buffer, UntouchedPagesCostNoMemory) {
  const int64_t before = StatusBytes("VmRSS");
  Buffer<char> buffer(int64_t{1} << 32);
  buffer[int64_t{1} << 31] = 1;
  EXPECT_LE(StatusBytes("VmRSS"), before + (int64_t{8} << 20));
}

TEST(Buffer, ImpossibleSizesThrow) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const auto make = [](int64_t size) { return Buffer<double>(size).size(); };
  EXPECT_THROW(make(-1), std::bad_alloc);
  EXPECT_THROW(make(kMost), std::bad_alloc);
  EXPECT_THROW(make(kMost / 8 + 1), std::bad_alloc);
  EXPECT_THROW(make(int64_t{1} << 56), std::bad_alloc);
}

}  // namespace
}  // namespace lumen
