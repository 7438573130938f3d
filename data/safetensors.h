// SPDX-License-Identifier: Apache-2.0
// The safetensors format, inside: what reader and writer share.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "lumen/data/safetensors.h"

namespace lumen::data {

static_assert(std::endian::native == std::endian::little);

inline constexpr int64_t kLengthBytes = 8;  // of the header, before it
inline constexpr std::string_view kMetadata = "__metadata__";

struct SafetensorsType {
  std::string_view name;
  char kind;  // as in NpyHeader
  int64_t width;
};
// float16 before bfloat16: the first of a kind and width is written.
inline constexpr SafetensorsType kSafetensorsTypes[] = {
    {"F64", 'f', 8},  {"F32", 'f', 4}, {"F16", 'f', 2}, {"BF16", 'f', 2},
    {"I64", 'i', 8},  {"I32", 'i', 4}, {"I16", 'i', 2}, {"I8", 'i', 1},
    {"U64", 'u', 8},  {"U32", 'u', 4}, {"U16", 'u', 2}, {"U8", 'u', 1},
    {"BOOL", 'b', 1},
};

}  // namespace lumen::data
