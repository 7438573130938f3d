// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "command_line.h"
#include "lumen/core/error.h"
#include "lumen/core/text.h"
#include "lumen/data/h5_file.h"
#include "lumen/train/checkpoint.h"
#include "lumen/train/plan.h"
#include "reporter.h"

namespace lumen::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kChunk = int64_t{1} << 20;

struct Statistics {
  float least = std::numeric_limits<float>::infinity();
  float most = -std::numeric_limits<float>::infinity();
  double squares = 0;
};

Statistics Read(const data::H5Reader& file, const data::ArrayInfo& array,
                int64_t size) {
  Statistics result;
  std::vector<float> part;
  for (int64_t begin = 0; begin < size; begin += kChunk) {
    part.resize(static_cast<size_t>(std::min(kChunk, size - begin)));
    file.Read(array.name, begin, std::span<float>(part));
    for (float value : part) {
      result.least = std::min(result.least, value);
      result.most = std::max(result.most, value);
      result.squares += static_cast<double>(value) * value;
    }
  }
  return result;
}

int64_t Product(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (int64_t n : shape) product *= n;
  return product;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text;
  for (int64_t n : shape) text += (text.empty() ? "" : "x") + std::to_string(n);
  return text;
}

// "/parameters/fc1.weight/values" gives "fc1.weight", "" for other arrays.
std::string TensorName(const std::string& array) {
  constexpr std::string_view kPrefix = "/parameters/";
  constexpr std::string_view kSuffix = "/values";
  if (!array.starts_with(kPrefix) || !array.ends_with(kSuffix)) return "";
  return array.substr(kPrefix.size(),
                      array.size() - kPrefix.size() - kSuffix.size());
}

void PrintTensors(const data::H5Reader& file) {
  fmt::print("  {:<20} {:>14} {:>12} {:>8} {:>11} {:>11} {:>11}\n", "tensor",
             "shape", "nonzeros", "density", "least", "most", "norm");
  for (const data::ArrayInfo& array : file.List()) {
    const std::string name = TensorName(array.name);
    if (name.empty()) continue;
    const std::string shape_name = "/parameters/" + name + "/shape";
    std::vector<int64_t> shape(
        static_cast<size_t>(file.Info(shape_name).shape.at(0)));
    file.Read(shape_name, 0, std::span<int64_t>(shape));
    const int64_t size = Product(array.shape);
    const Statistics s = Read(file, array, size);
    fmt::print(
        "  {:<20} {:>14} {:>12} {:>6.1f} % {:>11.4g} {:>11.4g} {:>11.4g}\n",
        name, ShapeText(shape), size,
        100.0 * static_cast<double>(size) /
            static_cast<double>(std::max<int64_t>(1, Product(shape))),
        s.least, s.most, std::sqrt(s.squares));
  }
}

// True when every file is whole.
bool PrintFiles(const std::string& checkpoint) {
  train::Manifest manifest;
  try {
    manifest = train::ReadManifest(checkpoint);
  } catch (const IoError& error) {
    fmt::print("  not whole: {}\n", error.what());
    return false;
  }
  bool whole = true;
  for (const train::CheckpointFile& file : manifest.files) {
    std::string state = "ok";
    try {
      train::VerifyFile(checkpoint, manifest, file.name);
    } catch (const IoError& error) {
      state = error.what();
      whole = false;
    }
    fmt::print("  {:<20} {:>12}  {}  {}\n", file.name, FormatBytes(file.bytes),
               file.digest, state);
  }
  return whole;
}

void PrintCheckpoint(const std::string& checkpoint) {
  fmt::print("checkpoint {}\n", checkpoint);
  // A damaged file is never handed to HDF5.
  if (!PrintFiles(checkpoint)) {
    throw IoError(checkpoint +
                  ": not a whole checkpoint; nothing more is read");
  }
  const data::H5Reader file(checkpoint + "/model.h5");
  PrintTensors(file);
  fmt::print("progress {}", file.ReadText("/progress"));
  fmt::print("spec {}", file.ReadText("/spec"));
}

// The newest line of metrics.jsonl: where a run is that was never ended.
void PrintLastMetrics(const std::string& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    // The end of a line may be missing after a crash.
    if (line.starts_with('{') && line.ends_with('}')) last.swap(line);
  }
  if (!last.empty()) fmt::print("last metrics {}\n", last);
}

void PrintRun(const std::string& folder) {
  const auto checkpoints = train::ListCheckpoints(folder);
  fmt::print("run {}: {}, newest first\n", folder,
             CountOf(std::ssize(checkpoints), "checkpoint"));
  for (const std::string& checkpoint : checkpoints) {
    fmt::print("checkpoint {}\n", checkpoint);
    PrintFiles(checkpoint);
  }
  PrintLastMetrics(folder + "/metrics.jsonl");
  if (fs::exists(folder + "/summary.json")) {
    fmt::print("summary {}", Json::ParseFile(folder + "/summary.json").Dump(2));
  }
}

// "a/step-5/" as "a/step-5".
std::string WithoutSlash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

bool IsCheckpoint(const fs::path& path) {
  return path.filename().string().starts_with("step-") ||
         fs::exists(path / "MANIFEST.json") || fs::exists(path / "model.h5");
}

bool IsRun(const fs::path& path) {
  return fs::exists(path / "checkpoints") || fs::exists(path / "metrics.jsonl");
}

}  // namespace

int RunInspect(const CommandLine& line) {
  const std::string path = WithoutSlash(line.arguments[0]);
  if (!fs::exists(path)) {
    throw IoError(path +
                  ": no such file or folder; expected a run folder, a "
                  "checkpoint folder or a spec");
  }
  if (!fs::is_directory(path)) {
    const train::Spec spec = train::LoadSpec(path, {});
    fmt::print("{}", PlanText(train::NewPlan(spec, 1, 1)));
    fmt::print("spec {}", spec.json.Dump(2));
  } else if (IsCheckpoint(path)) {
    PrintCheckpoint(path);
  } else if (IsRun(path)) {
    PrintRun(path);
  } else {
    throw IoError(path +
                  ": holds neither a run (checkpoints, metrics.jsonl) nor a "
                  "checkpoint (MANIFEST.json)");
  }
  return 0;
}

}  // namespace lumen::cli
