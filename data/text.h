// SPDX-License-Identifier: Apache-2.0
// Numbers in messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lumen::data {

// {2, 3, 4} as "2x3x4".
inline std::string Joined(const std::vector<int64_t>& numbers,
                          std::string_view separator) {
  std::string text;
  for (const int64_t number : numbers) {
    if (!text.empty()) text += separator;
    text += std::to_string(number);
  }
  return text;
}

}  // namespace lumen::data
