// SPDX-License-Identifier: Apache-2.0
// What readers share when they look for their files (DatasetReader::discover).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lumen/data/dataset.h"

namespace lumen::data {

// The files directly in the folder, or beside the file, not hidden, sorted.
std::vector<std::string> FilesAt(const std::string& path);
// The folder that file names in a spec are relative to, as a full path.
std::string RootOf(const std::string& path);

// "train-images-idx3-ubyte.gz" is the x of the training split; what else a name
// says, such as "mnist" of "mnist_train_x", tells one data set from another.
struct FoundName {
  Split split = Split::kTrain;
  enum Role { kUnknown, kX, kY } role = kUnknown;
  std::string other;
};
FoundName ReadName(const std::string& name);

// An array of some file.
struct FoundArray {
  std::string reference;  // as in data.train.x, relative to the root
  std::string name;       // that tells split and role
  std::vector<int64_t> shape;
};
// {"root", "train": {"x", "y"}, ...} for idx, npy and hdf5: the arrays of most
// values are x, one of as many rows in the same split is y. nullopt when there
// is no array. Throws IoError when no y fits, or when there are several data
// sets.
std::optional<Json> PairArrays(const std::string& path,
                               const std::vector<FoundArray>& arrays);

// What one-dimensional floats mean, after the name of y.
inline constexpr const char* kFloatNote =
    " holds floats: a real target per sample; for classes save integers";
// The largest, -1 of none.
int64_t MostOf(const std::vector<int64_t>& labels);
// Sets "classes" to the most that `classes_of` says of the y of a split.
void SetClasses(const std::function<int64_t(const std::string& y)>& classes_of,
                Json* spec);

// The one data set that `path` means among `others`, FoundName::other of each
// file: the only one, or the one that a file is named like. Throws IoError when
// there are more.
std::string TheDataSet(const std::string& path,
                       const std::vector<std::string>& others);

}  // namespace lumen::data
