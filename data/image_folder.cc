// SPDX-License-Identifier: Apache-2.0
// Folders of JPEG, PNG and TIFF files as a data set. Files are read and decoded
// when their sample is asked for.
#include <fmt/format.h>
#include <glog/logging.h>

#include <limits>

#include "data/files.h"
#include "data/image.h"
#include "data/image_list.h"
#include "lumen/core/error.h"
#include "lumen/core/file.h"
#include "lumen/core/hash.h"

namespace lumen::data {
namespace {

constexpr double kMaxSide = 65535;

constexpr Key kLabelKeys[] = {
    {.name = "train",
     .kind = KeyKind::kText,
     .help = "CSV file of the training split.",
     .mathematical = false},
    {.name = "valid",
     .kind = KeyKind::kText,
     .fallback = "null",
     .help = "CSV file of the validation split.",
     .mathematical = false},
    {.name = "test",
     .kind = KeyKind::kText,
     .fallback = "null",
     .help = "CSV file of the test split.",
     .mathematical = false},
};

constexpr Key kImageFolderKeys[] = {
    {.name = "root",
     .kind = KeyKind::kText,
     .fallback = "\"\"",
     .help = "Folder that relative names start from.",
     .mathematical = false},
    {.name = "train",
     .kind = KeyKind::kText,
     .help = "Folder of the training split, with a sub-folder per class unless "
             "labels is given.",
     .mathematical = false},
    {.name = "valid",
     .kind = KeyKind::kText,
     .fallback = "null",
     .help = "Folder of the validation split.",
     .mathematical = false},
    {.name = "test",
     .kind = KeyKind::kText,
     .fallback = "null",
     .help = "Folder of the test split.",
     .mathematical = false},
    {.name = "labels",
     .kind = KeyKind::kObject,
     .fallback = "null",
     .help = "CSV files of lines file,label; file is relative to the split's "
             "folder, label a number or one of class_names.",
     .keys = kLabelKeys,
     .mathematical = false},
    {.name = "classes",
     .kind = KeyKind::kInteger,
     .fallback = "null",
     .help = "Number of classes; else that of class_names, or of sub-folders "
             "of train.",
     .minimum = 1,
     .maximum = std::numeric_limits<int32_t>::max(),
     .mathematical = false},
    {.name = "class_names",
     .kind = KeyKind::kTexts,
     .fallback = "null",
     .help = "Names of the classes 0, 1, ...; else the sorted names of the "
             "sub-folders of train.",
     .mathematical = false},
    {.name = "size",
     .kind = KeyKind::kIntegers,
     .help = "[height, width] that all images are brought to.",
     .minimum = 1,
     .maximum = kMaxSide},
    {.name = "channels",
     .kind = KeyKind::kInteger,
     .fallback = "3",
     .help = "3: RGB, 1: grey; images of the other kind are converted.",
     .minimum = 1,
     .maximum = 3},
    {.name = "fit",
     .kind = KeyKind::kText,
     .fallback = "\"crop\"",
     .help = "crop: the shorter side is scaled to the size and the centre cut "
             "out; stretch: each side is scaled on its own; pad: the longer "
             "side is scaled to the size, black around.",
     .choices = "crop|stretch|pad"},
};

Shape ShapeOf(const Json& spec) {
  const Json& size = spec.at("size");
  if (size.items().size() != 2) {
    throw SpecError(fmt::format("{}: {}; expected [height, width]",
                                KeyName(size, "data.size"), size.Dump()));
  }
  const Json& channels = spec.at("channels");
  if (channels.integer() == 2) {
    throw SpecError(KeyName(channels, "data.channels") +
                    ": 2; expected 1 (grey) or 3 (RGB)");
  }
  return {.channels = channels.integer(),
          .height = size.items()[0].integer(),
          .width = size.items()[1].integer()};
}

Fit FitOf(const Json& spec, const Shape& shape) {
  const std::string& fit = spec.at("fit").text();
  return {fit == "crop"  ? FitKind::kCrop
          : fit == "pad" ? FitKind::kPad
                         : FitKind::kStretch,
          shape.height, shape.width};
}

class ImageFolder : public Dataset {
 public:
  ImageFolder(ImageList list, const Shape& shape, const Fit& fit)
      : list_(std::move(list)), shape_(shape), fit_(fit) {
    Hasher hasher;
    const int64_t header[] = {shape.channels, shape.height, shape.width,
                              static_cast<int64_t>(fit.kind), list_.classes};
    hasher.Update(std::span<const int64_t>(header));
    for (const ImageFile& file : list_.files) {
      const int64_t numbers[] = {file.label, file.bytes,
                                 static_cast<int64_t>(file.name.size())};
      hasher.Update(std::span<const int64_t>(numbers));
      hasher.Update(file.name);
      memory_bytes_ += static_cast<int64_t>(sizeof(file) + file.name.size());
    }
    fingerprint_ = hasher.Digest();
  }

  int64_t size() const override {
    return static_cast<int64_t>(list_.files.size());
  }
  Shape shape() const override { return shape_; }
  int64_t classes() const override { return list_.classes; }
  int32_t Read(int64_t index, std::span<float> x,
               std::span<float>) const override {
    DCHECK(index >= 0 && index < size()) << index;
    const ImageFile& file = list_.files[index];
    const std::string path = list_.folder + "/" + file.name;
    const std::string name = fmt::format("{}: sample {}", path, index);
    // Fresh pages for each image would cost more than its scaling.
    thread_local std::vector<uint8_t> memory;
    Image image = DecodeImage(ReadFile(path), name, fit_, std::move(memory));
    FitImage(image, fit_, shape_.channels, x);
    memory = std::move(image.pixels);
    return file.label;
  }
  int32_t Label(int64_t index) const override {
    return list_.files[index].label;
  }
  // Of names, sizes and labels: contents would have to be read in full.
  uint64_t fingerprint() const override { return fingerprint_; }
  int64_t memory_bytes() const override { return memory_bytes_; }
  std::vector<std::string> class_names() const override {
    return list_.class_names;
  }
  std::string SampleName(int64_t index) const override {
    return list_.files[index].name;
  }
  const std::string& left_out_text() const { return list_.left_out_text; }

 private:
  ImageList list_;
  Shape shape_;
  Fit fit_;
  uint64_t fingerprint_ = 0;
  int64_t memory_bytes_ = 0;
};

std::unique_ptr<ImageFolder> OpenFolder(const Json& spec, Split split) {
  if (FindValue(spec, SplitName(split)) == nullptr) return nullptr;
  const Shape shape = ShapeOf(spec);
  auto data = std::make_unique<ImageFolder>(ListImages(spec, split), shape,
                                            FitOf(spec, shape));
  if (!data->left_out_text().empty()) {
    LOG(WARNING) << ImageRoot(spec, split) << ": " << data->left_out_text();
  }
  CheckDeclared(spec, split, ImageRoot(spec, split), shape, data->size());
  return data;
}

std::unique_ptr<Dataset> Open(const Json& spec, Split split) {
  return OpenFolder(spec, split);
}

DatasetInfo Info(const Json& spec) {
  DatasetInfo info;
  info.shape = ShapeOf(spec);
  info.classes = DeclaredClasses(spec);
  for (const Split split : {Split::kTrain, Split::kValid, Split::kTest}) {
    const Json* key = FindValue(spec, SplitName(split));
    if (key == nullptr) continue;
    int64_t& samples = split == Split::kTrain   ? info.train_samples
                       : split == Split::kValid ? info.valid_samples
                                                : info.test_samples;
    const std::string folder = ImageRoot(spec, split);
    if (Exists(folder)) {
      const auto data = OpenFolder(spec, split);
      samples = data->size();
      info.classes = data->classes();
      info.memory_bytes += data->memory_bytes();
      continue;
    }
    samples = DeclaredSamples(spec, split).value_or(0);
    if (samples == 0 || info.classes == 0) {
      const std::string name(SplitName(split));
      throw SpecError(fmt::format(
          "{}: \"{}\" is not there; expected the folder, or the keys "
          "data.classes and data.samples.{} to plan without it",
          KeyName(*key, "data." + name), folder, name));
    }
  }
  return info;
}

}  // namespace

DatasetReader ImageFolderReader() {
  return {"image_folder",
          kImageFolderKeys,
          "Folders of JPEG, PNG and TIFF images, a sub-folder per class or a "
          "CSV file of labels; scaled to one size, values from 0 to 1",
          Open,
          Info,
          SampleKind::kDense,
          DiscoverImages};
}

}  // namespace lumen::data
