// SPDX-License-Identifier: Apache-2.0
// Texts as the communicator carries them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lumen::cli {

inline std::vector<std::byte> ToBytes(const std::string& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

inline std::string ToText(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace lumen::cli
