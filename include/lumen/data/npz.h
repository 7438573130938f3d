// SPDX-License-Identifier: Apache-2.0
// NumPy arrays: .npy, and .npz (stored or deflated, through libzip).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lumen::data {

// What an array is, without its values.
struct NpyHeader {
  char kind = 'f';    // 'f' float, 'i' signed, 'u' unsigned, 'b' bool
  int64_t width = 4;  // bytes per element: f2 f4 f8 i1..i8 u1..u8
  std::vector<int64_t> shape;

  int64_t elements() const;
  std::string TypeName() const;  // "float32", "uint8", "bool"
};

// Numeric arrays only, little-endian, C order in memory: Fortran order is
// transposed while reading, big-endian swapped. `bytes` holds elements() values
// of `width` bytes.
struct NpyArray : NpyHeader {
  std::string bytes;

  // float64 is rounded to the nearest float; the rest is exact. Both throw
  // SpecError "element 3: 16777217; ..." when a value cannot be represented.
  std::vector<float> ToFloat() const;
  std::vector<int64_t> ToInt64() const;
};

// Throw IoError naming file, array, found and expected; a header that promises
// more (or less) than the file holds is an error before any allocation.
NpyArray ParseNpy(std::string_view bytes, const std::string& name);
NpyArray ReadNpy(const std::string& path);
// Every array of the archive; members that are not .npy are left out.
std::map<std::string, NpyArray> ReadNpz(const std::string& path);

// Of every array, by name.
std::map<std::string, NpyHeader> ReadNpzHeaders(const std::string& path);

// One array by reference: "x.npy", or "file.npz:x" for an array of an archive.
// The archive's only array needs no name.
NpyArray ReadArray(const std::string& reference);
// Reads the header only.
NpyHeader ReadArrayHeader(const std::string& reference);
// The file of a reference: "file.npz:x" gives "file.npz".
std::string ReferencedFile(const std::string& reference);

// Stored, not deflated. For export and tests. Throw IoError.
void WriteNpy(const std::string& path, const NpyArray& array);
void WriteNpz(const std::string& path,
              const std::map<std::string, NpyArray>& arrays);

}  // namespace lumen::data
