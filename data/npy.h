// SPDX-License-Identifier: Apache-2.0
// The .npy format, inside: https://numpy.org/doc/stable/reference/generated/
// numpy.lib.format.html. A magic, a version, the length of a header, the header
// (a Python dict literal), the raw values.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "lumen/data/npz.h"

namespace lumen::data {

struct NpyLayout {
  NpyHeader header;
  bool fortran_order = false;
  bool big_endian = false;
  int64_t data_offset = 0;  // bytes before the values
  int64_t data_bytes = 0;
};

// Gives up to `bytes` bytes, fewer only at the end. Throws IoError.
using ByteSource = std::function<int64_t(char* out, int64_t bytes)>;

// Throws IoError when the source ends before `bytes`.
void ReadExactly(const ByteSource& source, char* out, int64_t bytes,
                 const std::string& name);
// Reads and checks the header; `total_bytes` is the size of the whole file.
NpyLayout ReadNpyLayout(const ByteSource& source, int64_t total_bytes,
                        const std::string& name);
// Reads the values that follow and brings them into memory order.
NpyArray ReadNpyValues(const ByteSource& source, const NpyLayout& layout,
                       const std::string& name);
// The header that goes before array.bytes.
std::string NpyPrefix(const NpyHeader& header);

}  // namespace lumen::data
