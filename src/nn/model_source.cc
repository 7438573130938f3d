// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include "lumen/core/error.h"
#include "lumen/nn/model.h"

namespace lumen::nn {
namespace {

constexpr int64_t kChunk = int64_t{1} << 14;

// Uniform in +-bound; the draw belongs to the position in the dense tensor.
void FillUniform(RandomKey key, float bound, const Parameter& parameter,
                 std::span<float> values, const Parallel& parallel) {
  const int64_t n = parameter.size();
  parallel.For((n + kChunk - 1) / kChunk, [&](int64_t c) {
    const int64_t begin = c * kChunk;
    const int64_t count = std::min(kChunk, n - begin);
    std::vector<int64_t> positions(static_cast<size_t>(count));
    parameter.Positions(begin, positions);
    for (int64_t i = 0; i < count; ++i) {
      const auto position =
          static_cast<uint64_t>(positions[static_cast<size_t>(i)]);
      const uint32_t bits = Draw(key, 0, position / 4, 0)[position % 4];
      values[static_cast<size_t>(begin + i)] =
          (2.0f * UnitFloat(bits) - 1.0f) * bound;
    }
  });
}

float Bound(const ParameterDecl& declaration) {
  // Inputs that a row really has.
  const double share = static_cast<double>(declaration.nnz) /
                       static_cast<double>(declaration.dense_size());
  return static_cast<float>(
      1.0 / std::sqrt(static_cast<double>(declaration.fan_in) * share));
}

void FillInitial(const ParameterDecl& declaration, RandomKey key,
                 const Parameter& parameter, std::span<float> values,
                 const Parallel& parallel) {
  switch (declaration.init) {
    case Init::kUniformFanIn:
      FillUniform(key, Bound(declaration), parameter, values, parallel);
      break;
    case Init::kZeros:
      std::fill(values.begin(), values.end(), 0.0f);
      break;
    case Init::kOnes:
      std::fill(values.begin(), values.end(), 1.0f);
      break;
  }
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (int64_t n : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(n);
  }
  return text + "]";
}

void CheckNames(const ImportedTensors& tensors, const Graph& graph) {
  std::vector<std::string> names;
  for (const ParameterDecl& declaration : graph.declarations) {
    names.push_back(declaration.name);
    const auto found = tensors.find(declaration.name);
    if (found == tensors.end()) {
      throw SpecError("model.init.file: has no tensor \"" + declaration.name +
                      "\" " + ShapeText(declaration.shape) +
                      ", which the model has");
    }
    if (found->second.shape != declaration.shape) {
      throw SpecError("model.init.file: \"" + declaration.name + "\" is " +
                      ShapeText(found->second.shape) + "; expected " +
                      ShapeText(declaration.shape));
    }
  }
  for (const auto& [name, tensor] : tensors) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw SpecError("model.init.file: tensor \"" + name +
                      "\" is not in the model");
    }
  }
}

int64_t CountNonzeros(const std::vector<float>& values) {
  return static_cast<int64_t>(values.size()) -
         std::count(values.begin(), values.end(), 0.0f);
}

sparse::Pattern PatternOfZeros(const ParameterDecl& declaration,
                               const std::vector<float>& values) {
  const int64_t rows = declaration.shape[0];
  std::vector<int64_t> positions;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != 0.0f) positions.push_back(static_cast<int64_t>(i));
  }
  return sparse::PatternFromPositions(rows, declaration.dense_size() / rows,
                                      positions);
}

}  // namespace

ModelSource SeedSource(const Graph& graph, uint64_t seed,
                       const Parallel& parallel) {
  return {.pattern =
              [&graph, seed, parallel](int tensor) {
                const ParameterDecl& declaration =
                    graph.declarations[static_cast<size_t>(tensor)];
                const int64_t rows = declaration.shape[0];
                return sparse::NewRandomPattern(
                    NewRandomKey(seed, Stream::kMask,
                                 static_cast<uint32_t>(tensor)),
                    rows, declaration.dense_size() / rows, declaration.nnz,
                    parallel);
              },
          .values =
              [seed, parallel](int tensor, const Parameter& parameter,
                               std::span<float> values) {
                FillInitial(parameter.decl,
                            NewRandomKey(seed, Stream::kInit,
                                         static_cast<uint32_t>(tensor)),
                            parameter, values, parallel);
              }};
}

void UseImportedMasks(const ImportedTensors& tensors, Graph* graph) {
  CheckNames(tensors, *graph);
  for (ParameterDecl& declaration : graph->declarations) {
    if (!declaration.prunable) continue;
    declaration.nnz = CountNonzeros(tensors.at(declaration.name).values);
    if (declaration.nnz == 0) {
      throw SpecError("model.init.file: \"" + declaration.name +
                      "\" has no weight that is not zero");
    }
  }
}

ModelSource ImportSource(const ImportedTensors& tensors, const Graph& graph,
                         ModelSource seed_source) {
  CheckNames(tensors, graph);
  return {
      .pattern =
          [&tensors, &graph, seed = std::move(seed_source)](int tensor) {
            const ParameterDecl& declaration =
                graph.declarations[static_cast<size_t>(tensor)];
            const auto& values = tensors.at(declaration.name).values;
            return CountNonzeros(values) == declaration.nnz
                       ? PatternOfZeros(declaration, values)
                       : seed.pattern(tensor);
          },
      .values =
          [&tensors](int, const Parameter& parameter, std::span<float> values) {
            const auto& dense = tensors.at(parameter.decl.name).values;
            std::vector<int64_t> positions(values.size());
            parameter.Positions(0, positions);
            for (size_t i = 0; i < values.size(); ++i) {
              values[i] = dense[static_cast<size_t>(positions[i])];
            }
          }};
}

}  // namespace lumen::nn
