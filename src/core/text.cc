// SPDX-License-Identifier: Apache-2.0
#include "lumen/core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace lumen {
namespace {

// Bytes of the character that `text` begins with; 0 when it is not UTF-8
// (Unicode 15, table 3-7, without its finer rules for surrogates).
size_t Utf8Length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const size_t length = first < 0xc2   ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  }
  // The C1 controls, U+0080 to U+009F, move the cursor of some terminals.
  if (first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0) return 0;
  return length;
}

}  // namespace

std::string FormatBytes(int64_t bytes) {
  constexpr std::string_view kUnits[] = {"B",   "KiB", "MiB", "GiB",
                                         "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  const auto* unit = std::begin(kUnits);
  for (; std::abs(value) >= 1023.5; value /= 1024) ++unit;
  const bool whole = unit == std::begin(kUnits) || std::abs(value) >= 99.95;
  return fmt::format("{:.{}f} {}", value, whole ? 0 : 1, *unit);
}

std::string FormatCount(int64_t count) {
  constexpr std::string_view kUnits[] = {"",   " k", " M", " G",
                                         " T", " P", " E"};
  double value = static_cast<double>(count);
  const auto* unit = std::begin(kUnits);
  for (; std::abs(value) >= 999.5; value /= 1000) ++unit;
  int decimals = 0;
  if (unit != std::begin(kUnits)) {
    decimals = std::abs(value) < 9.995 ? 2 : std::abs(value) < 99.95 ? 1 : 0;
  }
  return fmt::format("{:.{}f}{}", value, decimals, *unit);
}

std::string FormatSeconds(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  if (seconds < 0) return fmt::format("-{}", FormatSeconds(-seconds));
  if (seconds < 59.95) {
    std::string_view unit = "s";
    double value = seconds;
    if (value == 0) return "0 s";
    if (value < 0.9995) {
      unit = "ms";
      value *= 1000;
      if (value < 0.9995) {
        unit = "us";
        value *= 1000;
      }
    }
    const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return fmt::format("{:.{}f} {}", value, decimals, unit);
  }
  if (seconds > 1e15) return fmt::format("{:.2g} years", seconds / 31557600);
  const int64_t whole = std::llround(seconds);
  const int64_t minutes = whole / 60;
  if (minutes < 60) return fmt::format("{} m {:02} s", minutes, whole % 60);
  const int64_t hours = minutes / 60;
  if (hours < 24) return fmt::format("{} h {:02} m", hours, minutes % 60);
  return fmt::format("{} d {:02} h", hours / 24, hours % 24);
}

std::string CountOf(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string Printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text[0]);
    const bool control =
        first == 0x7f || (first < 0x20 && first != '\n' && first != '\t');
    const size_t length = control ? 0 : Utf8Length(text);
    if (length == 0) result += fmt::format("\\x{:02x}", first);
    result += text.substr(0, length);
    text.remove_prefix(std::max<size_t>(1, length));
  }
  return result;
}

std::string Join(const std::vector<std::string>& words,
                 std::string_view separator) {
  std::string text;
  for (const std::string& word : words) {
    if (&word != &words.front()) text += separator;
    text += word;
  }
  return text;
}

}  // namespace lumen
