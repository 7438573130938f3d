// SPDX-License-Identifier: Apache-2.0
// The value block of a slice: one writer and one reader per value code.
// Roundings use IEEE operations only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lumen/comm/codec.h"

namespace lumen::comm {

inline constexpr int64_t kScaleBlock = 256;  // values per int8 scale

// Bytes of `count` values; `count` is below 2^31.
int64_t ValueBytes(ValueCode code, int64_t count);

// Appends the values and replaces them by what ReadValues will return.
void WriteValues(ValueCode code, std::span<float> values,
                 std::vector<std::byte>* out);

// REQUIRES: bytes.size() == ValueBytes(code, values.size()). False when a value
// is malformed or not finite.
bool ReadValues(ValueCode code, std::span<const std::byte> bytes,
                std::span<float> values);

}  // namespace lumen::comm
