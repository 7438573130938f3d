// SPDX-License-Identifier: Apache-2.0
#include "lumen/data/dataset.h"

#include <fmt/format.h>
#include <glog/logging.h>

#include <array>

#include "lumen/core/error.h"
#include "lumen/data/augmentation.h"

namespace lumen::data {

// One line per reader here, and one in the table below.
DatasetReader CsvDatasetReader();
DatasetReader IdxReader();
DatasetReader NpyReader();
DatasetReader SyntheticReader();

std::span<const DatasetReader> DatasetReaders() {
  static const std::array readers = {
      CsvDatasetReader(),
      IdxReader(),
      NpyReader(),
      SyntheticReader(),
  };
  return readers;
}

namespace {

constexpr Key kNormalizeKeys[] = {
    {.name = "mean",
     .kind = KeyKind::kNumbers,
     .help = "One value per channel, or one for all.",
     .minimum = -1e30,
     .maximum = 1e30},
    {.name = "std",
     .kind = KeyKind::kNumbers,
     .help = "One value per channel, or one for all; above 0.",
     .minimum = 0,
     .maximum = 1e30},
};

constexpr Key kSampleKeys[] = {
    {.name = "train",
     .kind = KeyKind::kInteger,
     .help = "Samples of the training split.",
     .minimum = 0,
     .mathematical = false},
    {.name = "valid",
     .kind = KeyKind::kInteger,
     .fallback = "0",
     .help = "Samples of the validation split.",
     .minimum = 0,
     .mathematical = false},
    {.name = "test",
     .kind = KeyKind::kInteger,
     .fallback = "0",
     .help = "Samples of the test split.",
     .minimum = 0,
     .mathematical = false},
};

// Shape and samples describe the data; the fingerprint covers them.
constexpr Key kCommonKeyArray[] = {
    {.name = "normalize",
     .kind = KeyKind::kObject,
     .fallback = "null",
     .help = "Samples become (x - mean) / std.",
     .keys = kNormalizeKeys},
    {.name = "augment",
     .kind = KeyKind::kVariants,
     .fallback = "[]",
     .help = "Random changes of the training images, in this order, before "
             "they are normalised.",
     .variants = AugmentationVariants},
    {.name = "order",
     .kind = KeyKind::kText,
     .fallback = "\"shuffle\"",
     .help = "Order of the training samples: another one in each epoch, or as "
             "they are stored.",
     .choices = "shuffle|file"},
    {.name = "shape",
     .kind = KeyKind::kIntegers,
     .fallback = "null",
     .help = "Shape of a sample: [channels], [channels, height, width] or "
             "[channels, depth, height, width]. Compared with the files; lets "
             "plan work without them.",
     .minimum = 1,
     .mathematical = false},
    {.name = "samples",
     .kind = KeyKind::kObject,
     .fallback = "null",
     .help = "Number of samples. Compared with the files; lets plan work "
             "without them.",
     .keys = kSampleKeys,
     .mathematical = false},
};

const DatasetReader& ReaderOf(const Json& spec) {
  const std::string& type = spec.at("type").text();
  for (const DatasetReader& reader : DatasetReaders()) {
    if (reader.type == type) return reader;
  }
  LOG(FATAL) << "unresolved data.type " << type;
}

}  // namespace

constinit const std::span<const Key> kCommonDataKeys = kCommonKeyArray;

std::string_view SplitName(Split split) {
  switch (split) {
    case Split::kTrain:
      return "train";
    case Split::kValid:
      return "valid";
    case Split::kTest:
      return "test";
  }
  return "unknown";
}

std::vector<Variant> DatasetVariants() {
  std::vector<Variant> variants;
  for (const DatasetReader& reader : DatasetReaders()) {
    variants.push_back({reader.type, reader.keys, reader.help});
  }
  return variants;
}

std::unique_ptr<Dataset> OpenDataset(const Json& spec, Split split) {
  return ReaderOf(spec).open(spec, split);
}

DatasetInfo GetDatasetInfo(const Json& spec) {
  return ReaderOf(spec).info(spec);
}

}  // namespace lumen::data
