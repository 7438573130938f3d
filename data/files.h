// SPDX-License-Identifier: Apache-2.0
// What readers of data sets in files share: their keys, the files of a split,
// and the comparison of a file with what the spec declares.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lumen/data/dataset.h"

namespace lumen::data {

// root, train, valid, test (each {x, y}), classes.
extern const std::span<const Key> kFileKeys;

// "jobs/a.json:7: data.train", to begin a message with.
std::string KeyName(const Json& value, const std::string& path);
// nullptr when the key is absent or null.
const Json* FindValue(const Json& spec, std::string_view key);

// The two files of a split, joined with data.root.
struct SplitFiles {
  std::string x;
  std::string y;
  std::string x_key;  // "jobs/a.json:7: data.train.x", for messages
  std::string y_key;
};
// nullopt when the spec names no such split.
std::optional<SplitFiles> FilesOf(const Json& spec, Split split);

// Throws IoError "key: path: reason" unless `path` is a file that can be read.
void CheckReadable(const std::string& key, const std::string& path);
bool Exists(const std::string& path);

// From [c], [c,h,w] or [c,d,h,w] (also the shape of one sample in a file, where
// [h,w] stands for one channel). nullopt for anything else.
std::optional<Shape> ToShape(const std::vector<int64_t>& sizes);
// Of the samples in an array [n, ...] of a file. Throws IoError.
Shape SampleShape(const std::string& path, const std::vector<int64_t>& sizes);
std::optional<Shape> DeclaredShape(const Json& spec);  // data.shape, checked
std::optional<int64_t> DeclaredSamples(const Json& spec, Split split);

// Throws SpecError where data.shape or data.samples contradicts the file.
void CheckDeclared(const Json& spec, Split split, const std::string& path,
                   const Shape& shape, int64_t samples);

// What the headers of a split's files say.
struct SplitHeader {
  Shape shape;
  int64_t samples = 0;
  int64_t bytes_per_element = 1;
  std::optional<int64_t> targets;  // nullopt: not known without the file y
};
using HeaderReader = std::function<SplitHeader(const SplitFiles&)>;
// DatasetReader::info for readers of files: headers where the files exist, else
// the declared keys with `bytes_per_element`.
DatasetInfo InfoFromFiles(const Json& spec, const HeaderReader& read_header,
                          const std::function<std::string(std::string)>& file,
                          int64_t bytes_per_element);

}  // namespace lumen::data
