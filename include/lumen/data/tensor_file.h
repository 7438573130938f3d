// SPDX-License-Identifier: Apache-2.0
// Named tensors of other programs, whatever the format of their file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lumen::data {

struct FloatTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

// The format is told by the extension: .npz or .safetensors; one line per
// format in data/tensor_file.cc. Other types become float32: float64 is rounded
// to the nearest, the rest is exact. Throws IoError naming file and tensor,
// also for a value that float32 cannot hold.
std::map<std::string, FloatTensor> ReadTensorFile(const std::string& path);

}  // namespace lumen::data
