// SPDX-License-Identifier: Apache-2.0
#include "data/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "data/text.h"
#include "lumen/core/error.h"

namespace lumen::data {
namespace {

// Sizes of tensors stay far from the end of int64.
constexpr int64_t kMaxElements = int64_t{1} << 48;
constexpr double kMaxClasses = std::numeric_limits<int32_t>::max();

constexpr Key kPairKeys[] = {
    {.name = "x",
     .kind = KeyKind::kText,
     .help = "File of the samples.",
     .mathematical = false},
    {.name = "y",
     .kind = KeyKind::kText,
     .help = "File of the labels or targets.",
     .mathematical = false},
};

constexpr Key kFileKeyArray[] = {
    {.name = "root",
     .kind = KeyKind::kText,
     .fallback = "\"\"",
     .help = "Folder that relative file names start from.",
     .mathematical = false},
    {.name = "train",
     .kind = KeyKind::kObject,
     .help = "Files of the training split.",
     .keys = kPairKeys,
     .mathematical = false},
    {.name = "valid",
     .kind = KeyKind::kObject,
     .fallback = "null",
     .help = "Files of the validation split.",
     .keys = kPairKeys,
     .mathematical = false},
    {.name = "test",
     .kind = KeyKind::kObject,
     .fallback = "null",
     .help = "Files of the test split.",
     .keys = kPairKeys,
     .mathematical = false},
    {.name = "classes",
     .kind = KeyKind::kInteger,
     .help =
         "Number of classes, labels are 0 to classes - 1; or of targets per "
         "sample.",
     .minimum = 1,
     .maximum = kMaxClasses},
};

}  // namespace

constinit const std::span<const Key> kFileKeys = kFileKeyArray;

std::string KeyName(const Json& value, const std::string& path) {
  const std::string where = value.where();
  return where.empty() ? path : where + ": " + path;
}

const Json* FindValue(const Json& spec, std::string_view key) {
  const Json* value = spec.Find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::optional<SplitFiles> FilesOf(const Json& spec, Split split) {
  const std::string name(SplitName(split));
  const Json* pair = FindValue(spec, name);
  if (pair == nullptr) return std::nullopt;
  const std::filesystem::path root = spec.at("root").text();
  const Json& x = pair->at("x");
  const Json& y = pair->at("y");
  // An absolute name replaces the root.
  return SplitFiles{(root / x.text()).string(), (root / y.text()).string(),
                    KeyName(x, "data." + name + ".x"),
                    KeyName(y, "data." + name + ".y")};
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

void CheckReadable(const std::string& key, const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0) {
    const std::string reason = std::strerror(errno);
    if (file >= 0) close(file);
    throw IoError(fmt::format(
        "{}: \"{}\" cannot be read: {}; expected a file; check data.root and "
        "the name",
        key, path, reason));
  }
  close(file);
  if (!S_ISREG(status.st_mode)) {
    throw IoError(
        fmt::format("{}: \"{}\" is {}; expected a file", key, path,
                    S_ISDIR(status.st_mode) ? "a folder" : "no regular file"));
  }
}

std::optional<Shape> ToShape(const std::vector<int64_t>& sizes) {
  int64_t elements = 1;
  for (const int64_t size : sizes) {
    if (size < 1 || __builtin_mul_overflow(elements, size, &elements) ||
        elements > kMaxElements) {
      return std::nullopt;
    }
  }
  switch (sizes.size()) {
    case 0:
      return Shape{};
    case 1:
      return Shape{.channels = sizes[0]};
    case 3:
      return Shape{.channels = sizes[0], .height = sizes[1], .width = sizes[2]};
    case 4:
      return Shape{.channels = sizes[0],
                   .depth = sizes[1],
                   .height = sizes[2],
                   .width = sizes[3]};
    default:
      return std::nullopt;
  }
}

Shape SampleShape(const std::string& path, const std::vector<int64_t>& sizes) {
  std::optional<Shape> shape;
  if (!sizes.empty()) shape = ToShape({sizes.begin() + 1, sizes.end()});
  if (shape) return *shape;
  throw IoError(fmt::format(
      "{}: found shape [{}]; expected [n], [n, channels], [n, channels, "
      "height, width] or [n, channels, depth, height, width]",
      path, Joined(sizes, ", ")));
}

std::optional<Shape> DeclaredShape(const Json& spec) {
  const Json* value = FindValue(spec, "shape");
  if (value == nullptr) return std::nullopt;
  std::vector<int64_t> sizes;
  for (const Json& size : value->items()) sizes.push_back(size.integer());
  const std::optional<Shape> shape = ToShape(sizes);
  if (!shape || sizes.empty()) {
    throw SpecError(fmt::format(
        "{}: {}; expected [channels], [channels, height, width] or [channels, "
        "depth, height, width], each at least 1",
        KeyName(*value, "data.shape"), value->Dump()));
  }
  return shape;
}

std::optional<int64_t> DeclaredSamples(const Json& spec, Split split) {
  const Json* samples = FindValue(spec, "samples");
  if (samples == nullptr) return std::nullopt;
  return samples->at(SplitName(split)).integer();
}

void CheckDeclared(const Json& spec, Split split, const std::string& path,
                   const Shape& shape, int64_t samples) {
  const std::optional<Shape> declared_shape = DeclaredShape(spec);
  if (declared_shape && *declared_shape != shape) {
    throw SpecError(
        fmt::format("{}: {}; expected {}, the shape of the samples in {}",
                    KeyName(spec.at("shape"), "data.shape"),
                    declared_shape->ToString(), shape.ToString(), path));
  }
  const std::optional<int64_t> declared = DeclaredSamples(spec, split);
  if (declared && *declared != samples) {
    const std::string name(SplitName(split));
    throw SpecError(fmt::format(
        "{}: {}; expected {}, the number of samples in {}",
        KeyName(spec.at("samples").at(name), "data.samples." + name), *declared,
        samples, path));
  }
}

DatasetInfo InfoFromFiles(const Json& spec, const HeaderReader& read_header,
                          const std::function<std::string(std::string)>& file,
                          int64_t bytes_per_element) {
  DatasetInfo info;
  info.classes = spec.at("classes").integer();
  std::optional<Shape> shape = DeclaredShape(spec);
  std::optional<int64_t> targets;
  for (const Split split : {Split::kTrain, Split::kValid, Split::kTest}) {
    const std::optional<SplitFiles> files = FilesOf(spec, split);
    if (!files) continue;
    SplitHeader header;
    if (Exists(file(files->x))) {
      header = read_header(*files);
      CheckDeclared(spec, split, files->x, header.shape, header.samples);
      if (shape && *shape != header.shape) {
        throw IoError(
            fmt::format("{}: found samples of {}; expected {} as in "
                        "the other splits",
                        files->x, header.shape.ToString(), shape->ToString()));
      }
      shape = header.shape;
    } else {
      const std::optional<int64_t> samples = DeclaredSamples(spec, split);
      if (!shape || !samples || *samples == 0) {
        throw SpecError(fmt::format(
            "{}: \"{}\" is not there; expected the file, or the keys "
            "data.shape and data.samples.{} to plan without it",
            files->x_key, files->x, SplitName(split)));
      }
      header = {.shape = *shape,
                .samples = *samples,
                .bytes_per_element = bytes_per_element};
    }
    if (!targets) targets = header.targets;
    if (header.targets && *header.targets != *targets) {
      throw IoError(fmt::format(
          "{}: found {} targets per sample; expected {} as in the other splits",
          files->y, *header.targets, *targets));
    }
    (split == Split::kTrain   ? info.train_samples
     : split == Split::kValid ? info.valid_samples
                              : info.test_samples) = header.samples;
    // A label takes as many bytes as a target.
    const int64_t answers = std::max<int64_t>(1, targets.value_or(0));
    info.memory_bytes +=
        header.samples * (header.shape.elements() * header.bytes_per_element +
                          answers * static_cast<int64_t>(sizeof(int32_t)));
  }
  info.targets = targets.value_or(0);
  info.shape = *shape;
  return info;
}

}  // namespace lumen::data
