// SPDX-License-Identifier: Apache-2.0
// Numbers for people.
#pragma once

#include <cstdint>
#include <string>

namespace lumen {

std::string FormatBytes(int64_t bytes);     // "512 B", "1.2 GiB"
std::string FormatCount(double count);      // "950", "1.86 M"
std::string FormatSeconds(double seconds);  // "0.8 s", "3 m 12 s", "2 h 05 m"

}  // namespace lumen
