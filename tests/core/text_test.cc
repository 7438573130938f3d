// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lumen {
namespace {

TEST(Text, BytesHaveBinaryUnits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.0 KiB");
  EXPECT_EQ(FormatBytes(1288490189), "1.2 GiB");
  EXPECT_EQ(FormatBytes(int64_t{205} << 20), "205 MiB");
  EXPECT_EQ(FormatBytes((int64_t{1} << 20) - 1), "1.0 MiB");
  EXPECT_EQ(FormatBytes(-2048), "-2.0 KiB");
  EXPECT_EQ(FormatBytes(std::numeric_limits<int64_t>::max()), "8.0 EiB");
  EXPECT_EQ(FormatBytes(std::numeric_limits<int64_t>::min()), "-8.0 EiB");
}

TEST(Text, CountsHaveThreeDigits) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(950), "950");
  EXPECT_EQ(FormatCount(1000), "1.00 k");
  EXPECT_EQ(FormatCount(1860000), "1.86 M");
  EXPECT_EQ(FormatCount(18600000), "18.6 M");
  EXPECT_EQ(FormatCount(999999), "1.00 M");
  EXPECT_EQ(FormatCount(200000000), "200 M");
  EXPECT_EQ(FormatCount(-1500), "-1.50 k");
  EXPECT_EQ(FormatCount(std::numeric_limits<int64_t>::max()), "9.22 E");
}

TEST(Text, SecondsHaveTheUnitsPeopleUse) {
  EXPECT_EQ(FormatSeconds(0), "0 s");
  EXPECT_EQ(FormatSeconds(0.0000123), "12.3 us");
  EXPECT_EQ(FormatSeconds(0.0123), "12.3 ms");
  EXPECT_EQ(FormatSeconds(4.567), "4.57 s");
  EXPECT_EQ(FormatSeconds(59.9), "59.9 s");
  EXPECT_EQ(FormatSeconds(59.96), "1 m 00 s");
  EXPECT_EQ(FormatSeconds(192), "3 m 12 s");
  EXPECT_EQ(FormatSeconds(3599.7), "1 h 00 m");
  EXPECT_EQ(FormatSeconds(7500), "2 h 05 m");
  EXPECT_EQ(FormatSeconds(3 * 86400 + 4 * 3600), "3 d 04 h");
  EXPECT_EQ(FormatSeconds(-192), "-3 m 12 s");
  EXPECT_EQ(FormatSeconds(std::nan("")), "unknown");
  EXPECT_EQ(FormatSeconds(INFINITY), "unknown");
}

TEST(Text, CountsAgreeWithTheirNoun) {
  EXPECT_EQ(CountOf(1, "rank"), "1 rank");
  EXPECT_EQ(CountOf(0, "rank"), "0 ranks");
  EXPECT_EQ(CountOf(7, "shard"), "7 shards");
}

TEST(Text, PrintableKeepsTextAndEscapesBytes) {
  EXPECT_EQ(Printable("a\tb\n\u00e4\u20ac\U0001f4a1"),
            "a\tb\n\u00e4\u20ac\U0001f4a1");
  EXPECT_EQ(Printable("\x1b[2Jx\x7f"), "\\x1b[2Jx\\x7f");
  EXPECT_EQ(Printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(Printable("\xc2\x9b"), "\\xc2\\x9b");
  EXPECT_EQ(Printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Text, JoinPutsSeparatorsBetween) {
  EXPECT_EQ(Join({}), "");
  EXPECT_EQ(Join({"a"}), "a");
  EXPECT_EQ(Join({"a", "b", "c"}), "a, b, c");
  EXPECT_EQ(Join({"", ""}, "|"), "|");
}

}  // namespace
}  // namespace lumen
