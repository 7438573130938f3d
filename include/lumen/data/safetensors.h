// SPDX-License-Identifier: Apache-2.0
// The safetensors format (https://github.com/huggingface/safetensors): eight
// bytes with the length of the header (little-endian), a JSON header {name:
// {"dtype", "shape", "data_offsets"}}, the values.
#pragma once

#include <map>
#include <string>

#include "lumen/data/npz.h"

namespace lumen::data {

struct Safetensors {
  std::map<std::string, NpyArray> tensors;
  std::map<std::string, std::string> metadata;  // of the key "__metadata__"
};

// Types F64 F32 F16 I64 I32 I16 I8 U64 U32 U16 U8 BOOL, and BF16, which becomes
// float32: that holds each of its values. Throws IoError "file: tensor: found;
// expected": the header must describe each byte of the file exactly once. This
// is known before memory is allocated for values.
Safetensors ReadSafetensors(const std::string& path);

// Replaces the file in one step. Values are aligned to their type; equal
// content gives equal bytes. Throws IoError. REQUIRES: names are UTF-8, none is
// "__metadata__".
void WriteSafetensors(const std::string& path, const Safetensors& content);

}  // namespace lumen::data
