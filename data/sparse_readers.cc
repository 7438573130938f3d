// SPDX-License-Identifier: Apache-2.0
// The readers of sparse text: svmlight (also called libsvm) and the format of
// the Extreme Classification Repository.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "data/files.h"
#include "data/sparse_dataset.h"
#include "data/sparse_discovery.h"
#include "data/sparse_text.h"
#include "lumen/core/error.h"

namespace lumen::data {
namespace {

constexpr double kMaxId = 2147483647;

// Entries of a sample that plan assumes without the files.
constexpr int64_t kAssumedEntries = 100;
constexpr int64_t kAssumedLabels = 5;

constexpr Key TextKey(std::string_view name, const char* fallback,
                      std::string_view help) {
  return {.name = name,
          .kind = KeyKind::kText,
          .fallback = fallback,
          .help = help,
          .mathematical = false};
}

// The keys of both formats, which differ in two defaults.
constexpr std::array<Key, 9> SparseKeys(const char* base, const char* labels) {
  return {{
      TextKey("root", "\"\"", "Folder that relative file names start from."),
      TextKey("train", nullptr, "File of the training split."),
      TextKey("valid", "null", "File of the validation split."),
      TextKey("test", "null", "File of the test split."),
      {.name = "features",
       .kind = KeyKind::kInteger,
       .help = "Number of features; a larger index is an error.",
       .minimum = 1,
       .maximum = kMaxId},
      {.name = "classes",
       .kind = KeyKind::kInteger,
       .help = "Number of classes; a larger label is an error.",
       .minimum = 1,
       .maximum = kMaxId},
      {.name = "base",
       .kind = KeyKind::kInteger,
       .fallback = base,
       .help = "Index of the first feature in the files.",
       .minimum = 0,
       .maximum = 1},
      {.name = "label_base",
       .kind = KeyKind::kInteger,
       .fallback = "0",
       .help = "Label of the first class in the files.",
       .minimum = 0,
       .maximum = 1},
      {.name = "labels",
       .kind = KeyKind::kText,
       .fallback = labels,
       .help = "one: a class per sample; sign: -1 and 1 for classes 0 and 1; "
               "several: any number of labels per sample.",
       .choices = "one|sign|several"},
  }};
}

constexpr auto kSvmlightKeys = SparseKeys("1", "\"one\"");
constexpr auto kXmcKeys = SparseKeys("0", "\"several\"");

const Json* FindValue(const Json& spec, std::string_view key) {
  const Json* value = spec.Find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::string Where(const Json& value, const std::string& path) {
  const std::string where = value.where();
  return where.empty() ? path : where + ": " + path;
}

SparseTextFormat FormatOf(const Json& spec, SparseTextFormat::Kind kind) {
  const std::string& labels = spec.at("labels").text();
  const SparseTextFormat format = {
      .kind = kind,
      .labels = labels == "one"    ? SparseTextFormat::kOne
                : labels == "sign" ? SparseTextFormat::kSign
                                   : SparseTextFormat::kSeveral,
      .features = spec.at("features").integer(),
      .classes = spec.at("classes").integer(),
      .base = spec.at("base").integer(),
      .label_base = spec.at("label_base").integer()};
  if (format.labels == SparseTextFormat::kSign && format.classes != 2) {
    throw SpecError(fmt::format("{}: {}; expected 2: data.labels is sign",
                                Where(spec.at("classes"), "data.classes"),
                                format.classes));
  }
  for (const char* key : {"normalize", "augment"}) {
    const Json* value = FindValue(spec, key);
    if (value == nullptr || (value->is_array() && value->items().empty())) {
      continue;
    }
    throw SpecError(Where(*value, std::string("data.") + key) +
                    ": sparse samples stay as they are; expected none");
  }
  return format;
}

struct SplitFile {
  std::string path;
  std::string key;
};

std::optional<SplitFile> FileOf(const Json& spec, Split split) {
  const std::string name(SplitName(split));
  const Json* file = FindValue(spec, name);
  if (file == nullptr) return std::nullopt;
  const std::filesystem::path root = spec.at("root").text();
  return SplitFile{(root / file->text()).string(),
                   Where(*file, "data." + name)};
}

template <SparseTextFormat::Kind kKind>
std::unique_ptr<Dataset> Open(const Json& spec, Split split) {
  const SparseTextFormat format = FormatOf(spec, kKind);
  const std::optional<SplitFile> file = FileOf(spec, split);
  if (!file) return nullptr;
  CheckReadable(file->key, file->path);
  SparseTable table = ReadSparseText(file->path, format);
  CheckDeclared(spec, split, file->path, {.channels = format.features},
                table.samples());
  return std::make_unique<SparseDataset>(file->path, format, std::move(table));
}

SparseTextSize SizeOf(const Json& spec, Split split, const SplitFile& file,
                      const SparseTextFormat& format) {
  if (Exists(file.path)) {
    CheckReadable(file.key, file.path);
    const SparseTextSize size = MeasureSparseText(file.path, format);
    CheckDeclared(spec, split, file.path, {.channels = format.features},
                  size.samples);
    return size;
  }
  const std::optional<int64_t> samples = DeclaredSamples(spec, split);
  if (!samples || *samples == 0) {
    throw SpecError(
        fmt::format("{}: \"{}\" is not there; expected the file, or the key "
                    "data.samples.{} to plan without it",
                    file.key, file.path, SplitName(split)));
  }
  const int64_t entries = std::min(kAssumedEntries, format.features);
  const int64_t labels = std::min(kAssumedLabels, format.classes);
  return {.samples = *samples,
          .entries = *samples * entries,
          .labels = *samples * labels,
          .largest_row = entries,
          .largest_set = labels};
}

template <SparseTextFormat::Kind kKind>
DatasetInfo Info(const Json& spec) {
  const SparseTextFormat format = FormatOf(spec, kKind);
  DatasetInfo info;
  info.shape = {.channels = format.features};
  info.classes = format.classes;
  info.has_label_sets = format.labels == SparseTextFormat::kSeveral;
  for (const Split split : {Split::kTrain, Split::kValid, Split::kTest}) {
    const std::optional<SplitFile> file = FileOf(spec, split);
    if (!file) continue;
    const SparseTextSize size = SizeOf(spec, split, *file, format);
    const RowSizes rows = {
        .largest_row = size.largest_row,
        .largest_set = info.has_label_sets ? size.largest_set : 0,
        .entries = size.entries,
        .labels = info.has_label_sets ? size.labels : 0};
    info.memory_bytes +=
        SparseMemoryBytes(size.samples, rows, info.has_label_sets);
    (split == Split::kTrain   ? info.train_samples
     : split == Split::kValid ? info.valid_samples
                              : info.test_samples) = size.samples;
    if (split != Split::kTrain) continue;
    info.row_sizes = rows;
    info.density = static_cast<double>(size.entries) /
                   std::max(1.0, static_cast<double>(size.samples) *
                                     static_cast<double>(format.features));
  }
  return info;
}

}  // namespace

DatasetReader SvmlightReader() {
  return {"svmlight",
          kSvmlightKeys,
          "text, a sample per line: \"label index:value ...\", plain, gzip, "
          "bzip2, xz or zstd; the samples stay sparse",
          Open<SparseTextFormat::kSvmlight>,
          Info<SparseTextFormat::kSvmlight>,
          SampleKind::kSparse,
          DiscoverSvmlight};
}

DatasetReader XmcReader() {
  return {"xmc",
          kXmcKeys,
          "text of the Extreme Classification Repository: \"samples features "
          "labels\", then \"label,label index:value ...\" per line, plain, "
          "gzip, bzip2, xz or zstd; the samples stay sparse",
          Open<SparseTextFormat::kXmc>,
          Info<SparseTextFormat::kXmc>,
          SampleKind::kSparse,
          DiscoverXmc};
}

}  // namespace lumen::data
