// SPDX-License-Identifier: Apache-2.0
// NumPy arrays as a data set: x [n], [n,c], [n,c,h,w] or [n,c,d,h,w] of float32
// (taken as it is) or uint8 (scaled by 1/255); y [n] of integers: labels, or y
// [n] of floats or [n,t] of any type: targets.
#include <fmt/format.h>

#include <filesystem>

#include "data/files.h"
#include "data/found_files.h"
#include "data/memory_dataset.h"
#include "data/text.h"
#include "lumen/core/error.h"
#include "lumen/data/npz.h"

namespace lumen::data {
namespace {

SplitHeader CheckSamples(const std::string& path, const NpyHeader& header) {
  const bool is_float = header.kind == 'f' && header.width == 4;
  const bool is_byte = header.kind == 'u' && header.width == 1;
  if (!is_float && !is_byte) {
    throw IoError(
        fmt::format("{}: found {}; expected float32 or uint8; convert "
                    "it with x.astype(\"float32\")",
                    path, header.TypeName()));
  }
  return {.shape = SampleShape(path, header.shape),
          .samples = header.shape[0],
          .bytes_per_element = header.width};
}

std::unique_ptr<Dataset> Open(const Json& spec, Split split) {
  const std::optional<SplitFiles> files = FilesOf(spec, split);
  if (!files) return nullptr;
  CheckReadable(files->x_key, ReferencedFile(files->x));
  CheckReadable(files->y_key, ReferencedFile(files->y));
  NpyArray x = ReadArray(files->x);
  const SplitHeader header = CheckSamples(files->x, x);
  CheckDeclared(spec, split, files->x, header.shape, header.samples);
  const NpyArray y = ReadArray(files->y);
  Answers answers;
  answers.targets_per_sample = TargetsPerSample(spec, files->y, y);
  try {
    if (answers.targets_per_sample == 0) {
      answers.labels = y.ToInt64();
    } else {
      answers.targets = y.ToFloat();
    }
  } catch (const SpecError& error) {
    throw IoError(files->y + ": " + error.what());
  }
  return std::make_unique<MemoryDataset>(
      files->x, files->y, header.shape, spec.at("classes").integer(),
      x.kind == 'f' ? StoredType::kFloat32 : StoredType::kUint8,
      std::move(x.bytes), std::move(answers));
}

DatasetInfo Info(const Json& spec) {
  const auto read_header = [&](const SplitFiles& files) {
    SplitHeader header = CheckSamples(files.x, ReadArrayHeader(files.x));
    if (Exists(ReferencedFile(files.y))) {
      header.targets =
          TargetsPerSample(spec, files.y, ReadArrayHeader(files.y));
    }
    return header;
  };
  return InfoFromFiles(spec, read_header, ReferencedFile, sizeof(float));
}

std::optional<Discovery> Discover(const std::string& path) {
  namespace fs = std::filesystem;
  const auto extension = [](const std::string& file) {
    return fs::path(file).extension().string();
  };
  std::vector<std::string> files = {path};
  if (fs::is_directory(path) || extension(path) == ".npy") {
    files = FilesAt(path);
  }
  std::vector<FoundArray> arrays;
  for (const std::string& file : files) {
    const std::string name = fs::path(file).filename().string();
    if (extension(file) == ".npy") {
      arrays.push_back({name, name, ReadArrayHeader(file).shape});
    } else if (extension(file) == ".npz") {
      for (const auto& [array, header] : ReadNpzHeaders(file)) {
        arrays.push_back(
            {name + ":" + array, name + " " + array, header.shape});
      }
    }
  }
  std::optional<Json> spec = PairArrays(path, arrays);
  if (!spec) return std::nullopt;
  Discovery discovery;
  SetClasses(
      [&](const std::string& reference) {
        const NpyArray y = ReadArray(reference);
        if (y.shape.size() > 1) return y.shape[1];
        if (y.kind == 'f') {
          discovery.notes.push_back(reference + kFloatNote);
          return int64_t{1};
        }
        return MostOf(y.ToInt64()) + 1;
      },
      &*spec);
  discovery.spec = std::move(*spec);
  return discovery;
}

}  // namespace

std::unique_ptr<Dataset> OpenUnlabelled(const std::string& x_path,
                                        int64_t classes) {
  CheckReadable("samples", ReferencedFile(x_path));
  NpyArray x = ReadArray(x_path);
  const SplitHeader header = CheckSamples(x_path, x);
  Answers answers;
  answers.labels.resize(static_cast<size_t>(header.samples));
  return std::make_unique<MemoryDataset>(
      x_path, x_path, header.shape, classes,
      x.kind == 'f' ? StoredType::kFloat32 : StoredType::kUint8,
      std::move(x.bytes), std::move(answers));
}

DatasetReader NpyReader() {
  return {"npy",
          kFileKeys,
          "NumPy files: \"x.npy\", or \"file.npz:x\" for an array of an "
          "archive; float32, or uint8 scaled by 1/255",
          Open,
          Info,
          SampleKind::kDense,
          Discover};
}

}  // namespace lumen::data
