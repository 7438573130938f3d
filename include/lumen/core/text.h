// SPDX-License-Identifier: Apache-2.0
// Text for people: quantities and lists. Nothing depends on the locale.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lumen {

// "512 B", "1.2 GiB", "205 MiB": binary units.
std::string FormatBytes(int64_t bytes);
// "950", "1.86 M", "2.00 G": three significant digits, decimal units.
std::string FormatCount(int64_t count);
// "12.3 ms", "4.57 s", "3 m 12 s", "2 h 05 m", "3 d 04 h".
std::string FormatSeconds(double seconds);

// "1 rank", "3 ranks".
std::string CountOf(int64_t count, std::string_view noun);

// What a terminal shows unchanged: control characters (but for newlines and
// tabs) and bytes that are not UTF-8 become \x1b.
std::string Printable(std::string_view text);

// "a, b, c".
std::string Join(const std::vector<std::string>& words,
                 std::string_view separator = ", ");

}  // namespace lumen
