// SPDX-License-Identifier: Apache-2.0
#include <glog/logging.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "data/safetensors.h"
#include "lumen/core/error.h"
#include "lumen/core/file.h"
#include "lumen/core/json.h"

namespace lumen::data {
namespace {

constexpr int64_t kAlignment = 8;  // of the values in the file

std::string_view TypeName(const NpyHeader& array) {
  for (const SafetensorsType& type : kSafetensorsTypes) {
    if (type.kind == array.kind && type.width == array.width) return type.name;
  }
  LOG(FATAL) << "array of unknown type " << array.kind << array.width;
}

}  // namespace

void WriteSafetensors(const std::string& path, const Safetensors& content) {
  // Wide types first: then all values are aligned.
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [name, array] : content.tensors) {
    CHECK_NE(name, kMetadata);
    CHECK_EQ(static_cast<int64_t>(array.bytes.size()),
             array.elements() * array.width);
    order.emplace_back(-array.width, name);
  }
  std::ranges::sort(order);
  Json header = Json::Object();
  if (!content.metadata.empty()) {
    Json metadata = Json::Object();
    for (const auto& [key, text] : content.metadata) metadata.Set(key, text);
    header.Set(kMetadata, std::move(metadata));
  }
  int64_t begin = 0;
  for (const auto& [width, name] : order) {
    const NpyArray& array = content.tensors.at(name);
    const int64_t end = begin + static_cast<int64_t>(array.bytes.size());
    Json shape = Json::Array();
    for (const int64_t size : array.shape) shape.Append(size);
    Json offsets = Json::Array();
    offsets.Append(begin);
    offsets.Append(end);
    Json entry = Json::Object();
    entry.Set("dtype", std::string(TypeName(array)));
    entry.Set("shape", std::move(shape));
    entry.Set("data_offsets", std::move(offsets));
    header.Set(name, std::move(entry));
    begin = end;
  }
  std::string text = header.Dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const uint64_t length = text.size();

  const std::string temporary = TemporaryPath(path);
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(&length), kLengthBytes);
  file << text;
  for (const auto& [width, name] : order) {
    file << content.tensors.at(name).bytes;
  }
  file.close();
  if (!file) {
    std::remove(temporary.c_str());
    throw IoError(path + ": cannot be written; is the disk full?");
  }
  CommitFile(temporary, path);
}

}  // namespace lumen::data
