// SPDX-License-Identifier: Apache-2.0
// The wire form of a sparse vector: Golomb-Rice coded index gaps (a bitmap
// where that is smaller, nothing where all are present) and block-scaled
// values. The grammar, a worked example and its downsides are in
// comm/README.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace lumen::comm {

// The numbers are part of the wire format.
enum class ValueCode : uint8_t { kFp32 = 0, kBf16 = 1, kInt8 = 2 };

// One row per value code, in the order of the numbers.
struct ValueCodeRow {
  std::string_view name;
  ValueCode code;
  double bits;  // per value, scales included
  std::string_view help;
};
std::span<const ValueCodeRow> ValueCodes();
std::span<const std::string_view> ValueCodeNames();  // "fp32", "bf16", "int8"
ValueCode ParseValueCode(std::string_view name);     // throws SpecError

// Entries of one region of one shard: strictly ascending positions relative to
// the region.
struct SparseSlice {
  int64_t length = 0;  // of the region, below 2^31
  std::vector<int32_t> position;
  std::vector<float> value;
};

// Appends the coded slice to `out` and replaces slice->value by what a decoder
// will see, so that the caller can keep the rounding error. Entries that are
// exactly zero are not sent: a decoder does not list them. Deterministic and
// without libm. An all-zero or empty slice costs one byte. A value is never
// rounded to infinity. REQUIRES finite values.
void EncodeSlice(ValueCode code, SparseSlice* slice,
                 std::vector<std::byte>* out);

// Reads one slice of a region of `length` from the front of *bytes and advances
// it. The value code is not in the slice: messages say it once. Throws
// CommError on anything malformed: truncated, positions out of range, padding
// that is not zero, values that are not finite. Never reads or writes out of
// range; allocates at most in proportion to the bytes left.
void DecodeSlice(ValueCode code, int64_t length,
                 std::span<const std::byte>* bytes, SparseSlice* slice);

// Bits per kept entry in theory: value bits + H2(density) / density, H2 the
// binary entropy of a uniformly random support. For planning only.
double EntryBits(ValueCode code, double density);

// Bytes that EncodeSlice is expected to write for `kept` of `length` entries at
// random positions: EntryBits plus head, scales and padding.
double ExpectedSliceBytes(ValueCode code, int64_t kept, int64_t length);

}  // namespace lumen::comm
