// SPDX-License-Identifier: Apache-2.0
// Arrays of HDF5 files as a data set. x stays in the file and is read one
// sample at a time; y is held in memory.
#include <fmt/format.h>
#include <glog/logging.h>

#include <cmath>
#include <filesystem>

#include "data/files.h"
#include "data/found_files.h"
#include "data/memory_dataset.h"
#include "data/text.h"
#include "lumen/core/error.h"
#include "lumen/core/hash.h"
#include "lumen/data/h5_file.h"

namespace lumen::data {
namespace {

// See npz.cc: deflate cannot shrink more than this.
constexpr int64_t kMaxDeflateRatio = 1032;
constexpr int64_t kSamplesHashed = 16;

// "file.h5:/path".
struct Reference {
  std::string file;
  std::string array;
};
Reference SplitReference(const std::string& reference) {
  const size_t colon = reference.rfind(":/");
  if (colon == std::string::npos) return {reference, ""};
  return {reference.substr(0, colon), reference.substr(colon + 1)};
}
std::string FileOf(const std::string& reference) {
  return SplitReference(reference).file;
}

// An array of a file.
struct Source {
  std::unique_ptr<H5Reader> reader;
  std::string reference;
  std::string array;
  NpyHeader header;
  bool is_float() const { return header.kind == 'f'; }
};

NpyHeader HeaderOf(const ArrayInfo& info) {
  NpyHeader header;
  header.shape = info.shape;
  switch (info.type) {
    case ElementType::kFloat32:
      break;
    case ElementType::kFloat64:
      header.width = 8;
      break;
    case ElementType::kInt32:
      header.kind = 'i';
      break;
    case ElementType::kInt64:
      header.kind = 'i';
      header.width = 8;
      break;
    case ElementType::kUint8:
      header.kind = 'u';
      header.width = 1;
      break;
  }
  return header;
}

Source OpenSource(const std::string& key, const std::string& reference) {
  const auto [file, array] = SplitReference(reference);
  if (array.empty()) {
    throw SpecError(
        fmt::format("{}: \"{}\" names no array; expected \"file.h5:/path\"",
                    key, reference));
  }
  CheckReadable(key, file);
  Source source{std::make_unique<H5Reader>(file), reference, array, {}};
  source.header = HeaderOf(source.reader->Info(array));
  return source;
}

Shape CheckSamples(const Source& x) {
  const NpyHeader& header = x.header;
  if (header.kind == 'i') {
    throw IoError(
        fmt::format("{}: found {}; expected float32, float64 or uint8",
                    x.reference, header.TypeName()));
  }
  return SampleShape(x.reference, header.shape);
}

Answers ReadAnswers(const Json& spec, const Source& y) {
  Answers answers;
  answers.targets_per_sample = TargetsPerSample(spec, y.reference, y.header);
  const int64_t elements = y.header.elements();
  const auto bytes =
      static_cast<int64_t>(std::filesystem::file_size(FileOf(y.reference)));
  if (elements / kMaxDeflateRatio > bytes) {
    throw IoError(fmt::format("{}: promises {} values; the file has {} bytes",
                              y.reference, elements, bytes));
  }
  if (answers.targets_per_sample == 0) {
    answers.labels.resize(elements);
    y.reader->Read(y.array, 0, std::span(answers.labels));
  } else if (y.header.kind == 'f' && y.header.width == 4) {
    answers.targets.resize(elements);
    y.reader->Read(y.array, 0, std::span(answers.targets));
  } else {
    std::vector<double> values(elements);
    y.reader->Read(y.array, 0, std::span(values));
    answers.targets.assign(values.begin(), values.end());
  }
  return answers;
}

class H5Dataset : public Dataset {
 public:
  H5Dataset(Source x, const Shape& shape, int64_t classes,
            const std::string& y_reference, Answers answers)
      : x_(std::move(x)),
        shape_(shape),
        classes_(classes),
        labels_(CheckedLabels(y_reference, answers.labels, classes)),
        targets_(std::move(answers.targets)),
        targets_per_sample_(answers.targets_per_sample) {
    CheckTargets(y_reference, targets_, targets_per_sample_);
    cache_bytes_ = x_.reader->KeepOpen(x_.array);
    fingerprint_ = Fingerprint();
  }

  int64_t size() const override { return x_.header.shape[0]; }
  Shape shape() const override { return shape_; }
  int64_t classes() const override { return classes_; }
  int64_t targets() const override { return targets_per_sample_; }
  int32_t Label(int64_t index) const override {
    return targets_per_sample_ == 0 ? labels_[index] : 0;
  }
  uint64_t fingerprint() const override { return fingerprint_; }
  int64_t memory_bytes() const override {
    return static_cast<int64_t>(labels_.size() * sizeof(int32_t) +
                                targets_.size() * sizeof(float)) +
           cache_bytes_;
  }

  int32_t Read(int64_t index, std::span<float> x,
               std::span<float> targets) const override {
    DCHECK(index >= 0 && index < size()) << index;
    ReadValues(index, x);
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isfinite(x[i])) continue;
      throw IoError(fmt::format(
          "{}: sample {}: {} at element {}; expected finite numbers",
          x_.reference, index, x[i], i));
    }
    if (targets_per_sample_ == 0) return labels_[index];
    std::copy_n(targets_.data() + index * targets_per_sample_,
                targets_per_sample_, targets.data());
    return 0;
  }

 private:
  void ReadValues(int64_t index, std::span<float> x) const {
    const int64_t offset = index * shape_.elements();
    try {
      if (x_.header.width == 8) {
        std::vector<double> values(x.size());
        x_.reader->Read(x_.array, offset, std::span(values));
        for (size_t i = 0; i < x.size(); ++i) {
          x[i] = static_cast<float>(values[i]);
        }
        return;
      }
      x_.reader->Read(x_.array, offset, x);
    } catch (const IoError& error) {
      throw IoError(fmt::format("sample {}: {}", index, error.what()));
    }
    if (x_.is_float()) return;
    for (float& value : x) value /= 255.0f;
  }

  // Of shapes, type, all of y and some samples of x: x may be larger than what
  // can be read before a run.
  uint64_t Fingerprint() const {
    Hasher hasher;
    const int64_t header[] = {size(),          shape_.channels,    shape_.depth,
                              shape_.height,   shape_.width,       classes_,
                              x_.header.width, targets_per_sample_};
    hasher.Update(std::span<const int64_t>(header));
    hasher.Update(std::span<const int32_t>(labels_));
    hasher.Update(std::span<const float>(targets_));
    std::vector<float> x(shape_.elements());
    const int64_t samples = std::min(size(), kSamplesHashed);
    for (int64_t i = 0; i < samples; ++i) {
      try {
        ReadValues(size() / samples * i, x);
      } catch (const IoError&) {  // Read tells of it
        std::ranges::fill(x, 0.0f);
      }
      hasher.Update(std::span<const float>(x));
    }
    return hasher.Digest();
  }

  Source x_;
  Shape shape_;
  int64_t classes_;
  std::vector<int32_t> labels_;
  std::vector<float> targets_;
  int64_t targets_per_sample_;
  int64_t cache_bytes_ = 0;
  uint64_t fingerprint_ = 0;
};

std::unique_ptr<Dataset> Open(const Json& spec, Split split) {
  const std::optional<SplitFiles> files = FilesOf(spec, split);
  if (!files) return nullptr;
  Source x = OpenSource(files->x_key, files->x);
  const Source y = OpenSource(files->y_key, files->y);
  const Shape shape = CheckSamples(x);
  const int64_t samples = x.header.shape[0];
  CheckDeclared(spec, split, files->x, shape, samples);
  Answers answers = ReadAnswers(spec, y);
  if (samples == 0 || samples != answers.samples()) {
    throw IoError(
        fmt::format("{}: found {} samples; expected {}", files->x, samples,
                    samples == 0 ? "at least one"
                                 : fmt::format("{}, as many as in {}",
                                               answers.samples(), files->y)));
  }
  return std::make_unique<H5Dataset>(std::move(x), shape,
                                     spec.at("classes").integer(), files->y,
                                     std::move(answers));
}

DatasetInfo Info(const Json& spec) {
  int64_t cache_bytes = 0;
  const auto read_header = [&](const SplitFiles& files) {
    const Source x = OpenSource(files.x_key, files.x);
    SplitHeader header{.shape = CheckSamples(x),
                       .samples = x.header.shape[0],
                       .bytes_per_element = 0,
                       .targets = std::nullopt};
    cache_bytes += x.reader->KeepOpen(x.array);
    if (Exists(FileOf(files.y))) {
      const Source y = OpenSource(files.y_key, files.y);
      header.targets = TargetsPerSample(spec, y.reference, y.header);
    }
    return header;
  };
  DatasetInfo info = InfoFromFiles(spec, read_header, FileOf, 0);
  info.memory_bytes += cache_bytes;
  return info;
}

std::optional<Discovery> Discover(const std::string& path) {
  namespace fs = std::filesystem;
  const auto is_hdf5 = [](const std::string& file) {
    const std::string extension = fs::path(file).extension().string();
    return extension == ".h5" || extension == ".hdf5" || extension == ".hdf";
  };
  std::vector<std::string> files = {path};
  if (fs::is_directory(path)) files = FilesAt(path);
  std::vector<FoundArray> arrays;
  for (const std::string& file : files) {
    if (!is_hdf5(file)) continue;
    const std::string name = fs::path(file).filename().string();
    for (const ArrayInfo& array : H5Reader(file).List()) {
      arrays.push_back(
          {name + ":" + array.name, name + " " + array.name, array.shape});
    }
  }
  std::optional<Json> spec = PairArrays(path, arrays);
  if (!spec) return std::nullopt;
  Discovery discovery;
  SetClasses(
      [&](const std::string& reference) {
        const Source y = OpenSource("y", reference);
        if (y.header.shape.size() > 1) return y.header.shape[1];
        if (y.is_float()) {
          discovery.notes.push_back(reference + kFloatNote);
          return int64_t{1};
        }
        std::vector<int64_t> labels(y.header.elements());
        y.reader->Read(y.array, 0, std::span(labels));
        return MostOf(labels) + 1;
      },
      &*spec);
  discovery.spec = std::move(*spec);
  return discovery;
}

}  // namespace

DatasetReader H5DatasetReader() {
  return {"hdf5",
          kFileKeys,
          "Arrays of HDF5 files, \"file.h5:/path\", read sample by sample; "
          "float32, float64, or uint8 scaled by 1/255",
          Open,
          Info,
          SampleKind::kDense,
          Discover};
}

}  // namespace lumen::data
