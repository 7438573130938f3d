// SPDX-License-Identifier: Apache-2.0
#include "data/image_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "data/csv.h"
#include "data/files.h"
#include "lumen/core/error.h"
#include "lumen/core/text.h"

namespace lumen::data {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 32;      // of folders; links may go round in circles
constexpr size_t kNamesShown = 8;  // in messages

std::string Extension(const std::string& name) {
  std::string extension = fs::path(name).extension().string();
  for (char& c : extension) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return extension;
}

bool IsImageName(const std::string& extension) {
  for (const char* known : {".jpg", ".jpeg", ".png", ".tif", ".tiff"}) {
    if (extension == known) return true;
  }
  return false;
}

// Names in a folder that are not hidden, sorted.
std::vector<fs::directory_entry> Entries(const std::string& folder) {
  std::vector<fs::directory_entry> entries;
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (entry.path().filename().string().starts_with('.')) continue;
      entries.push_back(entry);
    }
  } catch (const fs::filesystem_error& error) {
    throw IoError(fmt::format("{}: cannot be listed: {}", folder,
                              error.code().message()));
  }
  std::ranges::sort(entries, {}, [](const fs::directory_entry& entry) {
    return entry.path().filename().string();
  });
  return entries;
}

bool IsFolder(const fs::directory_entry& entry) {
  std::error_code error;  // a link that leads nowhere is no folder
  return entry.is_directory(error);
}

int64_t FileBytes(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!error && !fs::is_regular_file(status)) {
    throw IoError(path + ": is no regular file; expected an image");
  }
  const uintmax_t bytes = error ? 0 : fs::file_size(path, error);
  if (error) throw IoError(path + ": cannot be read: " + error.message());
  return static_cast<int64_t>(bytes);
}

class Lister {
 public:
  explicit Lister(ImageList* list) : list_(list) {}

  // All images in list->folder/name and below.
  void Walk(const std::string& name, int32_t label, int depth = 1) {
    const std::string folder = list_->folder + "/" + name;
    if (depth > kMaxDepth) {
      throw IoError(fmt::format(
          "{}: is {} folders deep; expected fewer; does a link point back?",
          folder, depth));
    }
    for (const fs::directory_entry& entry : Entries(folder)) {
      const std::string path = name + "/" + entry.path().filename().string();
      if (IsFolder(entry)) {
        Walk(path, label, depth + 1);
      } else if (IsImageName(Extension(path))) {
        list_->files.push_back({path, label, FileBytes(entry.path().string())});
      } else {
        LeaveOut(path);
      }
    }
  }
  void LeaveOut(const std::string& path) { ++left_out_[Extension(path)]; }

  void Finish() {
    std::vector<std::string> kinds;
    for (const auto& [extension, count] : left_out_) {
      list_->left_out += count;
      kinds.push_back(fmt::format(
          "{} ({})", extension.empty() ? "no extension" : extension, count));
    }
    if (list_->left_out == 0) return;
    list_->left_out_text = fmt::format(
        "{} files left out, as their names are not .jpg, .jpeg, .png, .tif, "
        ".tiff in a folder of a class: {}",
        list_->left_out, Join(kinds));
  }

 private:
  ImageList* list_;
  std::map<std::string, int64_t> left_out_;
};

std::vector<std::string> SubFolders(const std::string& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : Entries(folder)) {
    if (IsFolder(entry)) names.push_back(entry.path().filename().string());
  }
  return names;
}

std::vector<std::string> ClassNames(const Json& spec) {
  std::vector<std::string> names;
  if (const Json* given = FindValue(spec, "class_names")) {
    for (const Json& name : given->items()) names.push_back(name.text());
  }
  return names;
}

std::string Shown(std::vector<std::string> names) {
  const size_t count = names.size();
  if (count <= kNamesShown) return Join(names);
  names.resize(kNamesShown);
  return fmt::format("{}, ... ({} in all)", Join(names), count);
}

void CheckClasses(const Json& spec, const std::string& found_in,
                  int64_t found) {
  const Json* classes = FindValue(spec, "classes");
  if (classes == nullptr || classes->integer() == found) return;
  throw SpecError(fmt::format("{}: {}; expected {}, the number of {}",
                              KeyName(*classes, "data.classes"),
                              classes->integer(), found, found_in));
}

void ListFolders(const Json& spec, ImageList* list) {
  std::vector<std::string> names = ClassNames(spec);
  std::string source = "data.class_names";
  if (names.empty()) {
    const std::string train = ImageRoot(spec, Split::kTrain);
    names = SubFolders(train);
    source = "sub-folders of " + train;
    if (names.empty()) {
      throw IoError(train +
                    ": found no sub-folders; expected one per class, or the "
                    "key data.labels");
    }
  }
  list->classes = static_cast<int64_t>(names.size());
  list->class_names = names;
  CheckClasses(spec, source, list->classes);
  Lister lister(list);
  for (const fs::directory_entry& entry : Entries(list->folder)) {
    const std::string name = entry.path().filename().string();
    if (!IsFolder(entry)) {
      lister.LeaveOut(name);
      continue;
    }
    const auto place = std::ranges::find(names, name);
    if (place == names.end()) {
      throw IoError(fmt::format(
          "{}/{}: is the folder of no class; expected one of the {}: {}",
          list->folder, name, source, Shown(names)));
    }
    lister.Walk(name, static_cast<int32_t>(place - names.begin()));
  }
  lister.Finish();
}

int32_t LabelOf(const Json& spec, const std::string& where,
                const std::string& text, const std::vector<std::string>& names,
                int64_t classes) {
  if (!names.empty()) {
    const auto place = std::ranges::find(names, text);
    if (place != names.end()) {
      return static_cast<int32_t>(place - names.begin());
    }
    throw IoError(fmt::format(
        "{}: label \"{}\"; expected one of {}: {}", where, text,
        KeyName(spec.at("class_names"), "data.class_names"), Shown(names)));
  }
  int32_t label = -1;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, label);
  if (error != std::errc() || stop != end || label < 0 || label >= classes) {
    throw IoError(
        fmt::format("{}: label \"{}\"; expected 0 to {}, as data.classes is {}",
                    where, text, classes - 1, classes));
  }
  return label;
}

// Records "file,label". A first line of just these two words is a heading.
void ListLabels(const Json& spec, ImageList* list) {
  const std::vector<std::string> names = ClassNames(spec);
  list->classes = DeclaredClasses(spec);
  list->class_names = names;
  if (!names.empty()) {
    CheckClasses(spec, "data.class_names", list->classes);
  } else if (list->classes == 0) {
    throw SpecError(KeyName(spec.at("labels"), "data.labels") +
                    ": needs data.classes or data.class_names beside it");
  }
  CsvReader rows(list->labels, ',');
  std::vector<std::string> cells;
  std::map<std::string, int64_t> lines;
  while (rows.Next(&cells)) {
    const std::string where = rows.where();
    if (cells.size() != 2 || cells[0].empty()) {
      throw IoError(fmt::format(
          "{}: found {} cells, the first {}; expected file,label, with quotes "
          "around a name that holds a comma",
          where, cells.size(), Quoted(cells[0])));
    }
    const std::string& name = cells[0];
    if (rows.line() == 1 && name == "file" && cells[1] == "label") continue;
    const auto [first, is_new] = lines.emplace(name, rows.line());
    if (!is_new) {
      throw IoError(fmt::format("{}: file \"{}\" stands in line {} already",
                                where, name, first->second));
    }
    const int32_t label = LabelOf(spec, where, cells[1], names, list->classes);
    try {
      list->files.push_back(
          {name, label, FileBytes(list->folder + "/" + name)});
    } catch (const IoError& error) {
      throw IoError(where + ": " + error.what());
    }
  }
}

}  // namespace

std::string ImageRoot(const Json& spec, Split split) {
  const Json* folder = FindValue(spec, SplitName(split));
  if (folder == nullptr) return "";
  return (fs::path(spec.at("root").text()) / folder->text()).string();
}

int64_t DeclaredClasses(const Json& spec) {
  const auto names = static_cast<int64_t>(ClassNames(spec).size());
  if (names > 0) return names;
  const Json* classes = FindValue(spec, "classes");
  return classes == nullptr ? 0 : classes->integer();
}

bool IsImageFile(const std::string& name) {
  return IsImageName(Extension(name));
}

ImageList ListImages(const Json& spec, Split split) {
  ImageList list;
  list.folder = ImageRoot(spec, split);
  const Json& key = spec.at(SplitName(split));
  const std::string key_name =
      KeyName(key, "data." + std::string(SplitName(split)));
  std::error_code error;
  if (!fs::is_directory(list.folder, error)) {
    throw IoError(fmt::format(
        "{}: \"{}\" is {}; expected a folder; check data.root and the name",
        key_name, list.folder,
        Exists(list.folder) ? "no folder" : "not there"));
  }
  const Json* labels = FindValue(spec, "labels");
  const Json* file =
      labels == nullptr ? nullptr : FindValue(*labels, SplitName(split));
  if (labels == nullptr) {
    ListFolders(spec, &list);
  } else if (file != nullptr) {
    list.labels = (fs::path(spec.at("root").text()) / file->text()).string();
    CheckReadable(
        KeyName(*file, "data.labels." + std::string(SplitName(split))),
        list.labels);
    ListLabels(spec, &list);
  } else {
    throw SpecError(
        fmt::format("{}: has no labels; expected the key "
                    "data.labels.{} too",
                    key_name, SplitName(split)));
  }
  if (list.files.empty()) {
    throw IoError(list.folder +
                  ": found no images; expected .jpg, .jpeg, .png, .tif or "
                  ".tiff files");
  }
  return list;
}

}  // namespace lumen::data
