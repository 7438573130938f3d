// SPDX-License-Identifier: Apache-2.0
// The wire form of a sparse vector: Golomb-Rice coded index gaps (a bitmap
// above about 10 % density) and block-scaled values. The grammar, a worked
// example and its downsides are in comm/README.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lumen/core/schema.h"

namespace lumen::comm {

enum class ValueCode : uint8_t { kFp32, kBf16, kInt8 };
std::span<const std::string_view> ValueCodeNames();  // "fp32", "bf16", "int8"
ValueCode ParseValueCode(std::string_view name);     // throws SpecError

// Entries of one region of one shard: ascending positions relative to the
// region.
struct SparseSlice {
  int64_t length = 0;             // of the region
  std::vector<int32_t> position;  // a region is shorter than 2^31
  std::vector<float> value;
};

// Appends the coded slice to `out` and replaces slice->value by what a decoder
// will see, so that the caller can keep the rounding error. Deterministic. An
// all-zero or empty slice costs one byte. REQUIRES finite values.
void EncodeSlice(ValueCode code, SparseSlice* slice,
                 std::vector<std::byte>* out);

// Reads one slice of a region of `length` from the front of *bytes and advances
// it. Throws CommError on anything malformed: truncated, positions out of range
// or not ascending, unknown codes. Never writes out of range, allocates at most
// in proportion to the bytes left.
void DecodeSlice(int64_t length, std::span<const std::byte>* bytes,
                 SparseSlice* slice);

// Bits per kept entry in theory: (value bits + H2(d) / d), DESIGN section 6.
double EntryBits(ValueCode code, double density);

}  // namespace lumen::comm
