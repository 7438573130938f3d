// SPDX-License-Identifier: Apache-2.0
// The binary version of CIFAR-10 and CIFAR-100:
// https://www.cs.toronto.edu/~kriz/cifar.html. A sample is one label
// (CIFAR-100: the coarse, then the fine one) and 3x32x32 bytes.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "data/files.h"
#include "data/found_files.h"
#include "data/memory_dataset.h"
#include "lumen/core/error.h"
#include "lumen/core/file.h"

namespace lumen::data {
namespace {

constexpr Shape kShape = {.channels = 3, .height = 32, .width = 32};
constexpr int64_t kImageBytes = 3 * 32 * 32;

constexpr Key kCifarKeys[] = {
    {.name = "root",
     .kind = KeyKind::kText,
     .fallback = "\"\"",
     .help = "Folder that relative file names start from.",
     .mathematical = false},
    {.name = "classes",
     .kind = KeyKind::kInteger,
     .fallback = "10",
     .help = "10 or 100: which of the two sets; 20: CIFAR-100 with coarse "
             "labels.",
     .minimum = 10,
     .maximum = 100},
    {.name = "labels",
     .kind = KeyKind::kText,
     .fallback = "\"fine\"",
     .help = "Of CIFAR-100: 100 fine or 20 coarse labels.",
     .choices = "fine|coarse"},
    {.name = "train",
     .kind = KeyKind::kTexts,
     .fallback = "null",
     .help = "Files of the training split; else data_batch_1.bin to "
             "data_batch_5.bin, or train.bin.",
     .mathematical = false},
    {.name = "valid",
     .kind = KeyKind::kTexts,
     .fallback = "null",
     .help = "Files of the validation split; else there is none.",
     .mathematical = false},
    {.name = "test",
     .kind = KeyKind::kTexts,
     .fallback = "null",
     .help = "Files of the test split; else test_batch.bin, or test.bin.",
     .mathematical = false},
};

// Which set, and which of its labels.
struct Kind {
  int64_t classes = 10;
  int64_t labels = 1;  // bytes before an image
  int64_t label = 0;   // which of them counts
  int64_t sample_bytes() const { return labels + kImageBytes; }
  // Samples of a file as it was published.
  int64_t published(Split split) const {
    return labels == 2 && split == Split::kTrain ? 50000 : 10000;
  }
};

Kind KindOf(const Json& spec) {
  const Json& classes = spec.at("classes");
  const bool coarse = spec.at("labels").text() == "coarse";
  const int64_t count = classes.integer();
  if (count == 10 && !coarse) return {};
  if (count == 100 && !coarse) return {.classes = 100, .labels = 2, .label = 1};
  if (count == 20 && coarse) return {.classes = 20, .labels = 2, .label = 0};
  throw SpecError(fmt::format(
      "{}: {} with {} labels; expected 10 or 100, or 20 with \"labels\": "
      "\"coarse\"",
      KeyName(classes, "data.classes"), count, coarse ? "coarse" : "fine"));
}

// The files of a split, empty when there is none.
std::vector<std::string> Files(const Json& spec, Split split,
                               const Kind& kind) {
  std::vector<std::string> names;
  if (const Json* given = FindValue(spec, SplitName(split))) {
    for (const Json& name : given->items()) names.push_back(name.text());
  } else if (split == Split::kTrain && kind.labels == 1) {
    for (int i = 1; i <= 5; ++i) {
      names.push_back(fmt::format("data_batch_{}.bin", i));
    }
  } else if (split == Split::kTrain) {
    names = {"train.bin"};
  } else if (split == Split::kTest) {
    names = {kind.labels == 1 ? "test_batch.bin" : "test.bin"};
  }
  const std::filesystem::path root = spec.at("root").text();
  for (std::string& name : names) name = (root / name).string();
  return names;
}

// Samples of a file, by its size.
int64_t SamplesOf(const std::string& path, const Kind& kind) {
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  if (bytes > 0 && bytes % kind.sample_bytes() == 0) {
    return bytes / kind.sample_bytes();
  }
  const int64_t other = kImageBytes + 3 - kind.labels;
  throw IoError(fmt::format(
      "{}: sample {}: found {} bytes in all; expected a multiple of {}, as a "
      "sample has {} label{} and 3x32x32 bytes{}",
      path, bytes / kind.sample_bytes(), bytes, kind.sample_bytes(),
      kind.labels, kind.labels == 1 ? "" : "s",
      bytes > 0 && bytes % other == 0
          ? fmt::format("; it looks like CIFAR-{}: check data.classes",
                        kind.labels == 1 ? 100 : 10)
          : ""));
}

// A file that is cut between two samples looks whole. Where the spec leaves the
// names to the reader, it is the published set with known counts.
void CheckPublished(const Json& spec, Split split, const Kind& kind,
                    const std::string& path, int64_t samples) {
  const std::string name(SplitName(split));
  if (FindValue(spec, name) != nullptr || DeclaredSamples(spec, split)) return;
  if (samples == kind.published(split)) return;
  throw IoError(fmt::format(
      "{}: found {} samples; expected {}, as in the published set; cut short? "
      "Of another set name the files in data.{}, or give data.samples.{}",
      path, samples, kind.published(split), name, name));
}

std::string SplitKey(const Json& spec, Split split) {
  const std::string name(SplitName(split));
  return KeyName(spec.at(name), "data." + name);
}

std::unique_ptr<Dataset> Open(const Json& spec, Split split) {
  const Kind kind = KindOf(spec);
  const std::vector<std::string> files = Files(spec, split, kind);
  if (files.empty()) return nullptr;
  std::string values;
  Answers answers;
  for (const std::string& path : files) {
    CheckReadable(SplitKey(spec, split), path);
    const int64_t samples = SamplesOf(path, kind);
    CheckPublished(spec, split, kind, path, samples);
    const std::string bytes = ReadFile(path);
    for (int64_t i = 0; i < samples; ++i) {
      const char* sample = bytes.data() + i * kind.sample_bytes();
      const auto label = static_cast<uint8_t>(sample[kind.label]);
      if (label >= kind.classes) {
        throw IoError(fmt::format("{}: sample {}: label {}; expected 0 to {}",
                                  path, i, label, kind.classes - 1));
      }
      answers.labels.push_back(label);
      values.append(sample + kind.labels, kImageBytes);
    }
  }
  CheckDeclared(spec, split, files[0], kShape, answers.samples());
  return std::make_unique<MemoryDataset>(files[0], files[0], kShape,
                                         kind.classes, StoredType::kUint8,
                                         std::move(values), std::move(answers));
}

DatasetInfo Info(const Json& spec) {
  const Kind kind = KindOf(spec);
  DatasetInfo info{.shape = kShape, .classes = kind.classes};
  for (const Split split : {Split::kTrain, Split::kValid, Split::kTest}) {
    const std::vector<std::string> files = Files(spec, split, kind);
    if (files.empty()) continue;
    int64_t samples = 0;
    if (Exists(files[0])) {
      for (const std::string& path : files) {
        CheckReadable(SplitKey(spec, split), path);
        const int64_t found = SamplesOf(path, kind);
        CheckPublished(spec, split, kind, path, found);
        samples += found;
      }
      CheckDeclared(spec, split, files[0], kShape, samples);
    } else {
      samples = DeclaredSamples(spec, split).value_or(0);
    }
    if (samples == 0) {
      throw SpecError(
          fmt::format("{}: \"{}\" is not there; expected the file, or the key "
                      "data.samples.{} to plan without it",
                      SplitKey(spec, split), files[0], SplitName(split)));
    }
    (split == Split::kTrain   ? info.train_samples
     : split == Split::kValid ? info.valid_samples
                              : info.test_samples) = samples;
    info.memory_bytes +=
        samples * (kImageBytes + static_cast<int64_t>(sizeof(int32_t)));
  }
  return info;
}

std::optional<Discovery> Discover(const std::string& path) {
  namespace fs = std::filesystem;
  const std::string root = RootOf(path);
  const auto there = [&](const char* name) {
    return Exists(root + "/" + name);
  };
  // Those of the names that are there; null for all of them as published, which
  // is what a spec without the key means.
  const auto found = [&](const std::vector<std::string>& names, Split split,
                         const Kind& kind) -> std::optional<Json> {
    Json list = Json::Array();
    bool published = true;
    for (const std::string& name : names) {
      if (!there(name.c_str())) {
        published = false;
        continue;
      }
      published &= static_cast<int64_t>(fs::file_size(root + "/" + name)) ==
                   kind.published(split) * kind.sample_bytes();
      list.Append(name);
    }
    if (published) return std::nullopt;
    return list;
  };
  std::vector<std::string> batches;
  for (int i = 1; i <= 5; ++i) {
    batches.push_back(fmt::format("data_batch_{}.bin", i));
  }
  const Kind hundred{.classes = 100, .labels = 2, .label = 1};
  Kind kind;
  std::vector<std::string> train = batches, test = {"test_batch.bin"};
  if (std::ranges::none_of(batches, [&](const std::string& name) {
        return there(name.c_str());
      })) {
    if (!there("train.bin") ||
        fs::file_size(root + "/train.bin") % hundred.sample_bytes() != 0) {
      return std::nullopt;
    }
    kind = hundred;
    train = {"train.bin"};
    test = {"test.bin"};
  }
  Json spec = Json::Object();
  spec.Set("root", root);
  spec.Set("classes", kind.classes);
  if (auto names = found(train, Split::kTrain, kind)) {
    spec.Set("train", std::move(*names));
  }
  if (auto names = found(test, Split::kTest, kind)) {
    spec.Set("test", std::move(*names));
  }
  return Discovery{std::move(spec), {}};
}

}  // namespace

DatasetReader CifarReader() {
  return {"cifar",
          kCifarKeys,
          "CIFAR-10 and CIFAR-100 in their binary version, scaled by 1/255",
          Open,
          Info,
          SampleKind::kDense,
          Discover};
}

}  // namespace lumen::data
