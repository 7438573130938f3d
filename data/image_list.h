// SPDX-License-Identifier: Apache-2.0
// Which image files belong to a split, and their labels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lumen/core/json.h"
#include "lumen/data/dataset.h"

namespace lumen::data {

struct ImageFile {
  std::string name;  // relative to the split's folder
  int32_t label = 0;
  int64_t bytes = 0;
};

struct ImageList {
  std::string folder;
  std::string labels;  // the CSV file; "" for a class per sub-folder
  int64_t classes = 0;
  std::vector<std::string> class_names;  // none with numbers as labels
  std::vector<ImageFile> files;
  // Files that are no images by their name, and what to tell of them.
  int64_t left_out = 0;
  std::string
      left_out_text;  // "12 files left out: .txt (10), no extension (2)"
};

// The folder of a split, "" when the spec names none.
std::string ImageRoot(const Json& spec, Split split);

// Files in the order of their names (of the CSV with `labels`), hidden ones
// ignored. A class per sub-folder: the files anywhere below
// it. Costs one stat per file. Throws IoError, SpecError. REQUIRES: the spec
// names the split.
ImageList ListImages(const Json& spec, Split split);

// Is this the name of an image?
bool IsImageFile(const std::string& name);
// DatasetReader::discover of image folders.
std::optional<Discovery> DiscoverImages(const std::string& path);

// The number of classes that the keys of the spec give, 0 for none.
int64_t DeclaredClasses(const Json& spec);

}  // namespace lumen::data
