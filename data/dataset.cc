// SPDX-License-Identifier: Apache-2.0
#include "lumen/data/dataset.h"

#include <fmt/format.h>
#include <glog/logging.h>

#include <array>

#include "data/held_out.h"
#include "lumen/core/error.h"
#include "lumen/data/augmentation.h"

namespace lumen::data {

// One line per reader here, and one in the table below.
DatasetReader CifarReader();
DatasetReader H5DatasetReader();
DatasetReader CsvDatasetReader();
DatasetReader IdxReader();
DatasetReader ImageFolderReader();
DatasetReader NpyReader();
DatasetReader SvmlightReader();
DatasetReader SyntheticReader();
DatasetReader XmcReader();

std::span<const DatasetReader> DatasetReaders() {
  static const std::array readers = {
      CifarReader(),    CsvDatasetReader(),  H5DatasetReader(),
      IdxReader(),      ImageFolderReader(), NpyReader(),
      SvmlightReader(), SyntheticReader(),   XmcReader(),
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

constexpr Key kWeightKeys[] = {
    {.name = "rule",
     .kind = KeyKind::kText,
     .fallback = "\"none\"",
     .help = "Balanced: samples / (classes * samples of the class).",
     .choices = "none|balanced"},
    {.name = "values",
     .kind = KeyKind::kNumbers,
     .fallback = "null",
     .help = "One factor per class, instead of a rule.",
     .minimum = 0,
     .maximum = 1e6},
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
    {.name = "valid_fraction",
     .kind = KeyKind::kNumber,
     .fallback = "0",
     .help = "Share of the training samples that become the validation split, "
             "where the spec names none.",
     .minimum = 0,
     .maximum = 0.99},
    {.name = "split_seed",
     .kind = KeyKind::kInteger,
     .fallback = "1",
     .help = "Selects those samples, whatever train.seed is.",
     .minimum = 0},
    {.name = "stratified",
     .kind = KeyKind::kBool,
     .fallback = "false",
     .help = "Take the same share of each class."},
    {.name = "class_weights",
     .kind = KeyKind::kObject,
     .fallback = "{}",
     .help = "Factors of the training loss of a sample by its class: "
             "\"balanced\", or {\"values\": [1, 2.5]}.",
     .keys = kWeightKeys,
     .shorthand_key = "rule"},
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
    {.name = "on_bad_sample",
     .kind = KeyKind::kText,
     .fallback = "\"error\"",
     .help = "A sample that cannot be read ends the run, or is left out of its "
             "batch and counted.",
     .choices = "error|skip"},
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

int32_t Dataset::Label(int64_t index) const {
  std::vector<float> x(shape().elements());
  std::vector<float> values(targets());
  return Read(index, x, values);
}

std::unique_ptr<Dataset> OpenDataset(const Json& spec, Split split) {
  const DatasetReader& reader = ReaderOf(spec);
  if (split == Split::kTest || !HasValidFraction(spec)) {
    return reader.open(spec, split);
  }
  return NewPart(spec, reader.open(spec, Split::kTrain), split);
}

Datasets OpenDatasets(const Json& spec) {
  const DatasetReader& reader = ReaderOf(spec);
  Datasets data{reader.open(spec, Split::kTrain), nullptr,
                reader.open(spec, Split::kTest)};
  if (data.train == nullptr || !HasValidFraction(spec)) {
    data.valid = reader.open(spec, Split::kValid);
    return data;
  }
  const std::shared_ptr<const Dataset> whole = std::move(data.train);
  data.train = NewPart(spec, whole, Split::kTrain);
  data.valid = NewPart(spec, whole, Split::kValid);
  return data;
}

SparseSample Dataset::ReadSparse(int64_t /*index*/) const {
  LOG(FATAL) << "a sparse sample of dense data";
  return {};
}

SampleKind KindOfSamples(const Json& spec) { return ReaderOf(spec).kind; }

DatasetInfo GetDatasetInfo(const Json& spec) {
  const DatasetReader& reader = ReaderOf(spec);
  DatasetInfo info = reader.info(spec);
  if (!HasValidFraction(spec)) return info;
  const int64_t samples = info.train_samples;
  info.valid_samples =
      CountNeedsSamples(spec)
          ? std::ssize(HeldOutSamples(spec, *reader.open(spec, Split::kTrain)))
          : HeldOutCount(spec, samples);
  info.train_samples -= info.valid_samples;
  info.memory_bytes += samples * static_cast<int64_t>(sizeof(int64_t));
  return info;
}

}  // namespace lumen::data
