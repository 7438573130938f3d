// SPDX-License-Identifier: Apache-2.0
// NumPy arrays: .npy, and .npz (stored or deflated, through libzip).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lumen::data {

// Numeric arrays only, little-endian, C order in memory: Fortran order is
// transposed while reading, big-endian swapped. `bytes` holds `type` elements.
struct NpyArray {
  char kind = 'f';    // 'f' float, 'i' signed, 'u' unsigned, 'b' bool
  int64_t width = 4;  // bytes per element: f2 f4 f8 i1..i8 u1..u8
  std::vector<int64_t> shape;
  std::string bytes;

  int64_t elements() const;
  // Throws SpecError when a value cannot be represented.
  std::vector<float> ToFloat() const;
  std::vector<int64_t> ToInt64() const;
};

// Throw IoError naming file, array, found and expected; a header that promises
// more than the file holds is an error before any allocation.
NpyArray ParseNpy(std::string_view bytes, const std::string& name);
NpyArray ReadNpy(const std::string& path);
std::map<std::string, NpyArray> ReadNpz(const std::string& path);
// Stored, not deflated. For export and tests.
void WriteNpy(const std::string& path, const NpyArray& array);
void WriteNpz(const std::string& path,
              const std::map<std::string, NpyArray>& arrays);

}  // namespace lumen::data
