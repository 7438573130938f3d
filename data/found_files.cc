// SPDX-License-Identifier: Apache-2.0
#include "data/found_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "data/text.h"
#include "lumen/core/error.h"
#include "lumen/core/text.h"

namespace lumen::data {
namespace {

namespace fs = std::filesystem;

enum class Meaning { kTrain, kValid, kTest, kX, kY, kNone };
struct Token {
  std::string_view text;
  Meaning meaning;
};
// "t" and "val" end the names of LIBSVM's test and validation files, "tr" those
// of the rest of the training file.
constexpr Token kTokens[] = {
    {"train", Meaning::kTrain},   {"training", Meaning::kTrain},
    {"trn", Meaning::kTrain},     {"tr", Meaning::kTrain},
    {"valid", Meaning::kValid},   {"validation", Meaning::kValid},
    {"val", Meaning::kValid},     {"dev", Meaning::kValid},
    {"test", Meaning::kTest},     {"testing", Meaning::kTest},
    {"tst", Meaning::kTest},      {"t10k", Meaning::kTest},
    {"t", Meaning::kTest},        {"x", Meaning::kX},
    {"image", Meaning::kX},       {"images", Meaning::kX},
    {"data", Meaning::kX},        {"features", Meaning::kX},
    {"inputs", Meaning::kX},      {"samples", Meaning::kX},
    {"y", Meaning::kY},           {"label", Meaning::kY},
    {"labels", Meaning::kY},      {"target", Meaning::kY},
    {"targets", Meaning::kY},     {"idx1", Meaning::kNone},
    {"idx2", Meaning::kNone},     {"idx3", Meaning::kNone},
    {"idx4", Meaning::kNone},     {"ubyte", Meaning::kNone},
    {"gz", Meaning::kNone},       {"xz", Meaning::kNone},
    {"npy", Meaning::kNone},      {"npz", Meaning::kNone},
    {"h5", Meaning::kNone},       {"hdf5", Meaning::kNone},
    {"txt", Meaning::kNone},      {"svm", Meaning::kNone},
    {"svmlight", Meaning::kNone}, {"libsvm", Meaning::kNone},
};

std::vector<std::string> Words(const std::string& name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    const bool upper = c >= 'A' && c <= 'Z';
    if (upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      words.back() += upper ? static_cast<char>(c - 'A' + 'a') : c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

std::string Shown(const std::vector<FoundArray>& arrays) {
  std::vector<std::string> texts;
  for (const FoundArray& array : arrays) {
    texts.push_back(
        fmt::format("{} [{}]", array.reference, Joined(array.shape, ", ")));
  }
  return Join(texts);
}

int64_t Elements(const FoundArray& array) {
  int64_t product = 1;
  for (const int64_t n : array.shape) product *= n;
  return product;
}

// Labels and targets have one or two dimensions.
bool MayBeY(const FoundArray& array, const FoundArray& x) {
  return &array != &x && array.shape.size() <= 2 &&
         array.shape[0] == x.shape[0] &&
         ReadName(array.name).role != FoundName::kX;
}

// The x and y of one split.
Json Pair(const std::string& path, const std::vector<FoundArray>& arrays) {
  const FoundArray* x = nullptr;
  for (const FoundArray& array : arrays) {
    if (ReadName(array.name).role == FoundName::kY) continue;
    if (x == nullptr || Elements(array) > Elements(*x)) x = &array;
  }
  const FoundArray* y = nullptr;
  for (const FoundArray& array : arrays) {
    if (x == nullptr || !MayBeY(array, *x)) continue;
    if (y == nullptr || ReadName(array.name).role == FoundName::kY) y = &array;
  }
  if (y == nullptr) {
    throw IoError(fmt::format(
        "{}: found {}; expected samples x and as many labels or targets y, "
        "told by names such as x_train and y_train",
        path, Shown(arrays)));
  }
  Json pair = Json::Object();
  pair.Set("x", x->reference);
  pair.Set("y", y->reference);
  return pair;
}

}  // namespace

std::vector<std::string> FilesAt(const std::string& path) {
  std::vector<std::string> files;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(RootOf(path))) {
    std::error_code error;
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') || !entry.is_regular_file(error)) continue;
    files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  return files;
}

std::string RootOf(const std::string& path) {
  const fs::path full = fs::absolute(path).lexically_normal();
  if (!fs::is_directory(path)) return full.parent_path().string();
  return (full.has_filename() ? full : full.parent_path()).string();
}

FoundName ReadName(const std::string& name) {
  FoundName found;
  for (const std::string& word : Words(name)) {
    const auto* token = std::ranges::find(kTokens, word, &Token::text);
    switch (token == std::end(kTokens) ? Meaning::kNone : token->meaning) {
      case Meaning::kTrain:
        break;
      case Meaning::kValid:
        found.split = Split::kValid;
        break;
      case Meaning::kTest:
        found.split = Split::kTest;
        break;
      case Meaning::kX:
        if (found.role == FoundName::kUnknown) found.role = FoundName::kX;
        break;
      case Meaning::kY:
        found.role = FoundName::kY;
        break;
      case Meaning::kNone:
        if (token == std::end(kTokens)) found.other += word + " ";
    }
  }
  return found;
}

std::string TheDataSet(const std::string& path,
                       const std::vector<std::string>& others) {
  const std::set<std::string> different(others.begin(), others.end());
  if (different.size() <= 1) return others.empty() ? "" : others[0];
  const std::string named = ReadName(fs::path(path).filename().string()).other;
  if (!fs::is_directory(path) && different.contains(named)) return named;
  std::vector<std::string> names;
  for (const std::string& other : different) {
    names.push_back("\"" + other.substr(0, other.find_last_not_of(' ') + 1) +
                    "\"");
  }
  throw IoError(
      fmt::format("{}: holds several data sets, told by their names: {}; give "
                  "the training file of one of them instead of the folder",
                  path, Join(names)));
}

int64_t MostOf(const std::vector<int64_t>& labels) {
  return labels.empty() ? -1 : std::ranges::max(labels);
}

void SetClasses(const std::function<int64_t(const std::string& y)>& classes_of,
                Json* spec) {
  int64_t classes = 1;
  for (const Split split : {Split::kTrain, Split::kValid, Split::kTest}) {
    const Json* pair = spec->Find(SplitName(split));
    if (pair == nullptr) continue;
    const fs::path root = spec->at("root").text();
    classes =
        std::max(classes, classes_of((root / pair->at("y").text()).string()));
  }
  spec->Set("classes", classes);
}

std::optional<Json> PairArrays(const std::string& path,
                               const std::vector<FoundArray>& arrays) {
  if (arrays.empty()) return std::nullopt;
  std::vector<std::string> others;
  for (const FoundArray& array : arrays) {
    others.push_back(ReadName(array.name).other);
  }
  const std::string wanted = TheDataSet(path, others);
  std::map<Split, std::vector<FoundArray>> splits;
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (others[i] == wanted && !arrays[i].shape.empty()) {
      splits[ReadName(arrays[i].name).split].push_back(arrays[i]);
    }
  }
  // A set without a training split is one that has another name for it.
  if (!splits.contains(Split::kTrain) && splits.size() == 1) {
    splits[Split::kTrain] = splits.begin()->second;
  }
  Json spec = Json::Object();
  spec.Set("root", RootOf(path));
  for (const auto& [split, of_split] : splits) {
    spec.Set(SplitName(split), Pair(path, of_split));
  }
  return spec;
}

}  // namespace lumen::data
