// SPDX-License-Identifier: Apache-2.0
#include "lumen/data/tensor_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>

#include "lumen/core/error.h"
#include "lumen/data/npz.h"
#include "lumen/data/safetensors.h"

namespace lumen::data {
namespace {

using Arrays = std::map<std::string, NpyArray>;

Arrays SafetensorsArrays(const std::string& path) {
  return ReadSafetensors(path).tensors;
}

struct TensorFormat {
  std::string_view extension;
  Arrays (*read)(const std::string& path);
};

constexpr TensorFormat kFormats[] = {
    {".npz", ReadNpz},
    {".safetensors", SafetensorsArrays},
};

Arrays ReadArrays(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension();
  std::string known;
  for (const TensorFormat& format : kFormats) {
    if (format.extension == extension) return format.read(path);
    known += known.empty() ? "" : ", ";
    known += format.extension;
  }
  throw IoError(fmt::format(
      "{}: found the extension \"{}\"; expected a file of tensors, one of {}",
      path, extension, known));
}

}  // namespace

std::map<std::string, FloatTensor> ReadTensorFile(const std::string& path) {
  std::map<std::string, FloatTensor> tensors;
  for (auto& [name, array] : ReadArrays(path)) {
    try {
      tensors[name] = {array.shape, array.ToFloat()};
    } catch (const SpecError& error) {
      throw IoError(fmt::format("{}: {}: {}", path, name, error.what()));
    }
    array.bytes = {};  // never both copies of all
  }
  return tensors;
}

}  // namespace lumen::data
