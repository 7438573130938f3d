// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <tuple>

#include "data/safetensors.h"
#include "data/text.h"
#include "lumen/core/error.h"
#include "lumen/core/json.h"

namespace lumen::data {
namespace {

constexpr int64_t kMaxHeader = 100'000'000;  // that of the reference reader

// One tensor as the header describes it.
struct Entry {
  std::string name;
  SafetensorsType type;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // bytes after the header
  int64_t end = 0;
};

struct Header {
  std::vector<Entry> entries;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
  int64_t data_offset = 0;  // of the values in the file
};

// "model.safetensors: "conv1.weight"", for messages.
std::string Where(const std::string& path, const std::string& name) {
  return path + ": " + Json(name).Dump();
}

std::vector<int64_t> Sizes(const Json* value, const std::string& where,
                           std::string_view key) {
  std::vector<int64_t> sizes;
  bool legal = value != nullptr && value->is_array();
  if (legal) {
    for (const Json& item : value->items()) {
      legal =
          legal && item.kind() == Json::Kind::kInteger && item.integer() >= 0;
      if (legal) sizes.push_back(item.integer());
    }
  }
  if (!legal) {
    throw IoError(
        fmt::format("{}: {}: {}; expected an array of integers of at least 0",
                    where, key, value == nullptr ? "missing" : value->Dump()));
  }
  return sizes;
}

SafetensorsType TypeOf(const Json* value, const std::string& where) {
  std::string known;
  for (const SafetensorsType& type : kSafetensorsTypes) {
    if (value != nullptr && value->kind() == Json::Kind::kText &&
        value->text() == type.name) {
      return type;
    }
    known += known.empty() ? "" : ", ";
    known += type.name;
  }
  throw IoError(fmt::format("{}: dtype: {}; expected one of {}", where,
                            value == nullptr ? "missing" : value->Dump(),
                            known));
}

Entry NewEntry(const std::string& path, const std::string& name,
               const Json& value, int64_t data_bytes) {
  const std::string where = Where(path, name);
  if (!value.is_object()) {
    throw IoError(fmt::format(
        "{}: found {}; expected an object with dtype, shape and data_offsets",
        where, Json::KindName(value.kind())));
  }
  for (const auto& [key, ignored] : value.members()) {
    if (key == "dtype" || key == "shape" || key == "data_offsets") continue;
    throw IoError(fmt::format(
        "{}: found the key {}; expected dtype, shape and data_offsets", where,
        Json(key).Dump()));
  }
  Entry entry{.name = name,
              .type = TypeOf(value.Find("dtype"), where),
              .shape = Sizes(value.Find("shape"), where, "shape")};
  const std::vector<int64_t> offsets =
      Sizes(value.Find("data_offsets"), where, "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1] ||
      offsets[1] > data_bytes) {
    throw IoError(fmt::format(
        "{}: data_offsets [{}]; expected begin and end within the {} bytes "
        "after the header; is the file cut short?",
        where, Joined(offsets, ", "), data_bytes));
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];
  const bool empty = std::ranges::find(entry.shape, 0) != entry.shape.end();
  int64_t bytes = empty ? 0 : entry.type.width;
  bool overflow = false;
  for (const int64_t size : entry.shape) {
    overflow |= __builtin_mul_overflow(bytes, size, &bytes);
  }
  if (overflow || bytes != entry.end - entry.begin) {
    throw IoError(fmt::format(
        "{}: data_offsets of {} bytes; expected {} for {} of shape [{}]", where,
        entry.end - entry.begin,
        overflow ? std::string("more than 2^63") : std::to_string(bytes),
        entry.type.name, Joined(entry.shape, ", ")));
  }
  return entry;
}

std::map<std::string, std::string> Metadata(const std::string& path,
                                            const Json& value) {
  std::map<std::string, std::string> metadata;
  bool legal = value.is_object();
  if (legal) {
    for (const auto& [key, text] : value.members()) {
      legal = legal && text.kind() == Json::Kind::kText;
      if (legal) metadata[key] = text.text();
    }
  }
  if (!legal) {
    throw IoError(path + ": __metadata__: expected an object of texts");
  }
  return metadata;
}

// Sorts the entries; each byte must belong to exactly one.
void CheckCoverage(const std::string& path, int64_t data_bytes,
                   std::vector<Entry>* entries) {
  std::ranges::sort(*entries, {}, [](const Entry& entry) {
    return std::make_tuple(entry.begin, entry.end, entry.name);
  });
  int64_t done = 0;
  for (const Entry& entry : *entries) {
    if (entry.begin != done) {
      throw IoError(fmt::format(
          "{}: data_offsets [{}, {}]; expected begin {}, where the tensor "
          "before it ends: {}",
          Where(path, entry.name), entry.begin, entry.end, done,
          entry.begin < done ? "the two overlap" : "there is a hole"));
    }
    done = entry.end;
  }
  if (done != data_bytes) {
    throw IoError(
        fmt::format("{}: found {} bytes of values; expected {}, where the last "
                    "tensor ends",
                    path, data_bytes, done));
  }
}

void ReadBytes(std::ifstream* file, const std::string& path, int64_t bytes,
               char* out) {
  if (file->read(out, bytes)) return;
  throw IoError(
      fmt::format("{}: found {} bytes; expected {}; is the file cut "
                  "short?",
                  path, file->gcount(), bytes));
}

Json ParseHeader(const std::string& path, const std::string& text) {
  if (!text.starts_with('{')) {
    throw IoError(path + ": header: expected a JSON object that begins with {");
  }
  try {
    return Json::Parse(text, path + ": header");
  } catch (const SpecError& error) {
    throw IoError(error.what());
  }
}

Header ReadHeader(std::ifstream* file, const std::string& path,
                  int64_t file_bytes) {
  uint64_t length = 0;
  ReadBytes(file, path, kLengthBytes, reinterpret_cast<char*>(&length));
  const int64_t most = std::min(kMaxHeader, file_bytes - kLengthBytes);
  if (length > static_cast<uint64_t>(most)) {
    throw IoError(fmt::format(
        "{}: found a header of {} bytes in a file of {}; expected at most {}; "
        "is it a safetensors file?",
        path, length, file_bytes, most));
  }
  std::string text(length, '\0');
  ReadBytes(file, path, static_cast<int64_t>(length), text.data());
  const Json json = ParseHeader(path, text);
  Header header;
  header.data_offset = kLengthBytes + static_cast<int64_t>(length);
  const int64_t data_bytes = file_bytes - header.data_offset;
  for (const auto& [name, value] : json.members()) {
    if (name == kMetadata) {
      header.metadata = Metadata(path, value);
    } else {
      header.entries.push_back(NewEntry(path, name, value, data_bytes));
    }
  }
  CheckCoverage(path, data_bytes, &header.entries);
  return header;
}

// bfloat16 is the upper half of a float32.
std::string Widened(const std::string& bytes) {
  std::string wide(2 * bytes.size(), '\0');
  for (size_t i = 0; i < bytes.size(); i += 2) {
    std::memcpy(wide.data() + 2 * i + 2, bytes.data() + i, 2);
  }
  return wide;
}

NpyArray NewArray(const Entry& entry, std::string bytes) {
  NpyArray array;
  array.kind = entry.type.kind;
  array.width = entry.type.width;
  array.shape = entry.shape;
  array.bytes = std::move(bytes);
  if (entry.type.name == "BF16") {
    array.width = 4;
    array.bytes = Widened(array.bytes);
  }
  return array;
}

}  // namespace

Safetensors ReadSafetensors(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file || file.tellg() < 0) {
    throw IoError(path + ": cannot be opened for reading");
  }
  const auto file_bytes = static_cast<int64_t>(file.tellg());
  file.seekg(0);
  Header header = ReadHeader(&file, path, file_bytes);
  Safetensors content;
  content.metadata = std::move(header.metadata);
  // Entries lie one behind the other, so the file is read in one go.
  for (const Entry& entry : header.entries) {
    std::string bytes(entry.end - entry.begin, '\0');
    ReadBytes(&file, Where(path, entry.name), entry.end - entry.begin,
              bytes.data());
    content.tensors[entry.name] = NewArray(entry, std::move(bytes));
  }
  return content;
}

}  // namespace lumen::data
