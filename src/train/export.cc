// SPDX-License-Identifier: Apache-2.0
#include "lumen/train/export.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <span>

#include "lumen/core/error.h"
#include "lumen/core/file.h"
#include "lumen/data/npz.h"
#include "lumen/data/safetensors.h"
#include "lumen/train/checkpoint.h"
#include "model_build.h"
#include "model_state.h"

namespace lumen::train {
namespace {

using Arrays = std::map<std::string, data::NpyArray>;

void WriteNpzFile(const std::string& path, Arrays arrays) {
  const std::string temporary = TemporaryPath(path);
  data::WriteNpz(temporary, arrays);
  CommitFile(temporary, path);
}

void WriteSafetensorsFile(const std::string& path, Arrays arrays) {
  data::WriteSafetensors(
      path, {.tensors = std::move(arrays), .metadata = {{"format", "pt"}}});
}

// One row per format; the name is also the extension.
struct Format {
  std::string_view name;
  void (*write)(const std::string& path, Arrays arrays);
};
constexpr Format kFormats[] = {
    {"npz", WriteNpzFile},
    {"safetensors", WriteSafetensorsFile},
};

const Format& FormatOf(const ExportOptions& options) {
  std::string known;
  for (const Format& format : kFormats) {
    const std::string extension = "." + std::string(format.name);
    if (options.format.empty() ? options.to.ends_with(extension)
                               : options.format == format.name) {
      return format;
    }
    known += (known.empty() ? "" : ", ") + std::string(format.name);
  }
  if (!options.format.empty()) {
    throw SpecError("--format=" + options.format +
                    ": unknown; known: " + known);
  }
  throw SpecError("--to=" + options.to +
                  ": the extension names no format; expected one of " + known +
                  "; or add --format");
}

template <class T>
data::NpyArray ToArray(std::span<const T> values, char kind,
                       std::vector<int64_t> shape) {
  data::NpyArray array;
  array.kind = kind;
  array.width = sizeof(T);
  array.shape = std::move(shape);
  array.bytes.assign(reinterpret_cast<const char*>(values.data()),
                     values.size_bytes());
  return array;
}

// Absent weights are 0.
data::NpyArray Dense(const nn::ParameterDecl& tensor,
                     const sparse::Pattern& pattern,
                     std::span<const float> values) {
  data::NpyArray array;
  array.shape = tensor.shape;
  array.bytes.resize(static_cast<size_t>(tensor.dense_size()) * sizeof(float));
  size_t i = 0;
  for (int64_t row = 0; row < pattern.rows(); ++row) {
    const auto end =
        static_cast<size_t>(pattern.row_start()[static_cast<size_t>(row + 1)]);
    for (; i < end; ++i) {
      const int64_t position = row * pattern.columns() + pattern.column()[i];
      std::memcpy(
          array.bytes.data() + static_cast<size_t>(position) * sizeof(float),
          &values[i], sizeof(float));
    }
  }
  return array;
}

void AddTensor(const nn::ParameterDecl& tensor, const data::H5Reader& file,
               std::span<const float> values, ExportOptions::Layout layout,
               Arrays* arrays) {
  const std::string& name = tensor.name;
  if (!tensor.is_sparse()) {
    arrays->emplace(name, ToArray(values, 'f', tensor.shape));
    return;
  }
  const sparse::Pattern pattern = ReadPattern(file, tensor);
  if (layout == ExportOptions::kDense) {
    arrays->emplace(name, Dense(tensor, pattern, values));
    return;
  }
  arrays->emplace(name + ".values", ToArray(values, 'f', {tensor.nnz}));
  arrays->emplace(name + ".row_start",
                  ToArray(pattern.row_start(), 'i', {pattern.rows() + 1}));
  arrays->emplace(name + ".column",
                  ToArray(pattern.column(), 'i', {tensor.nnz}));
  arrays->emplace(name + ".shape",
                  ToArray(std::span<const int64_t>(tensor.shape), 'i',
                          {static_cast<int64_t>(tensor.shape.size())}));
}

// The weights that exist, in model order.
std::vector<float> ReadWeights(const data::H5Reader& file,
                               const nn::Graph& graph, bool averaged) {
  int64_t size = 0;
  for (const nn::ParameterDecl& tensor : graph.declarations) size += tensor.nnz;
  std::vector<float> weights(static_cast<size_t>(size));
  if (averaged) {
    ReadAverage(file, weights);
    return weights;
  }
  std::span<float> rest(weights);
  for (const nn::ParameterDecl& tensor : graph.declarations) {
    const auto nnz = static_cast<size_t>(tensor.nnz);
    ReadTensorValues(file, tensor, rest.first(nnz));
    rest = rest.subspan(nnz);
  }
  return weights;
}

}  // namespace

ExportResult Export(const ExportOptions& options) {
  const Format& format = FormatOf(options);
  const std::string checkpoint = FindCheckpoint(options.checkpoint);
  const data::H5Reader file(checkpoint + "/model.h5");
  const Spec spec =
      ParseSpec(ReadHead(file).spec_text, checkpoint + "/model.h5:/spec", {});
  const bool averaged =
      UsesAverage(file, options.weights, checkpoint + "/model.h5");

  nn::Graph graph = GraphFromCheckpoint(spec, file);
  const std::vector<float> weights = ReadWeights(file, graph, averaged);
  Arrays arrays;
  std::span<const float> rest(weights);
  for (const nn::ParameterDecl& tensor : graph.declarations) {
    const auto nnz = static_cast<size_t>(tensor.nnz);
    AddTensor(tensor, file, rest.first(nnz), options.layout, &arrays);
    rest = rest.subspan(nnz);
  }
  for (const nn::StatisticDecl& statistic : graph.statistics) {
    std::vector<float> values(static_cast<size_t>(statistic.size));
    ReadStatistic(file, statistic, values);
    arrays.emplace(statistic.name, ToArray(std::span<const float>(values), 'f',
                                           {statistic.size}));
  }
  ExportResult result{.checkpoint = checkpoint,
                      .format = std::string(format.name),
                      .tensors = static_cast<int64_t>(
                          graph.declarations.size() + graph.statistics.size()),
                      .zeros = std::count(weights.begin(), weights.end(), 0.0f),
                      .averaged = averaged};
  format.write(options.to, std::move(arrays));
  return result;
}

}  // namespace lumen::train
