// SPDX-License-Identifier: Apache-2.0
// Weights of a file as masks and initial values of a model.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "lumen/core/error.h"
#include "lumen/core/schema.h"
#include "lumen/nn/model.h"

namespace lumen::nn {
namespace {

constexpr char kWhere[] = "model.init.file: ";
// Of PyTorch's batch normalisation: how often it was called. Not used.
constexpr char kBatchCounter[] = ".num_batches_tracked";
constexpr int64_t kChunk = int64_t{1} << 16;
constexpr size_t kNamesInMessage = 8;

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (int64_t n : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(n);
  }
  return text + "]";
}

std::string Quoted(const std::string& name) { return "\"" + name + "\""; }

// What the other side has instead: the closest of the names that the two do
// not share, or else the first few of them.
std::string Hint(const std::string& name,
                 const std::vector<std::string>& strays) {
  if (strays.empty()) return "";
  const std::string nearest = Nearest(name, strays);
  if (!nearest.empty()) return "; did you mean its " + Quoted(nearest) + "?";
  std::string text = "; instead it has ";
  for (size_t i = 0; i < strays.size() && i < kNamesInMessage; ++i) {
    text += (i > 0 ? ", " : "") + strays[i];
  }
  return text + (strays.size() > kNamesInMessage ? ", ..." : "");
}

void CheckFinite(const std::string& name, const std::vector<float>& values) {
  const auto found =
      std::find_if(values.begin(), values.end(),
                   [](float value) { return !std::isfinite(value); });
  if (found != values.end()) {
    throw SpecError(kWhere + Quoted(name) + ": value " +
                    std::to_string(found - values.begin()) + " is " +
                    std::to_string(*found) + "; expected finite numbers");
  }
}

void CheckTensor(const std::string& name, const ImportedTensor& tensor,
                 const std::vector<int64_t>& shape) {
  int64_t size = 1;
  for (int64_t n : shape) size *= n;
  if (tensor.shape != shape || std::ssize(tensor.values) != size) {
    throw SpecError(kWhere + Quoted(name) + " is " + ShapeText(tensor.shape) +
                    "; expected " + ShapeText(shape) + " as in the model");
  }
  CheckFinite(name, tensor.values);
}

void CheckTensors(const ImportedTensors& tensors, const Graph& graph) {
  std::set<std::string> in_model;
  for (const ParameterDecl& declaration : graph.declarations) {
    in_model.insert(declaration.name);
  }
  for (const StatisticDecl& statistic : graph.statistics) {
    in_model.insert(statistic.name);
  }
  std::vector<std::string> strays;
  for (const auto& [name, tensor] : tensors) {
    if (!in_model.contains(name) && !name.ends_with(kBatchCounter)) {
      strays.push_back(name);
    }
  }
  for (const ParameterDecl& declaration : graph.declarations) {
    const auto found = tensors.find(declaration.name);
    if (found == tensors.end()) {
      throw SpecError(kWhere + std::string("has no tensor ") +
                      Quoted(declaration.name) + " " +
                      ShapeText(declaration.shape) +
                      ", which the model has; expected one array per "
                      "parameter" +
                      Hint(declaration.name, strays));
    }
    CheckTensor(declaration.name, found->second, declaration.shape);
  }
  // Running statistics may be missing: then they start afresh.
  for (const StatisticDecl& statistic : graph.statistics) {
    const auto found = tensors.find(statistic.name);
    if (found == tensors.end()) continue;
    CheckTensor(statistic.name, found->second, {statistic.size});
  }
  if (!strays.empty()) {
    throw SpecError(kWhere + std::string("tensor ") + Quoted(strays[0]) + " " +
                    ShapeText(tensors.at(strays[0]).shape) +
                    " is not in the model; expected its parameters only" +
                    (strays.size() == 1 ? std::string()
                                        : " (" + std::to_string(strays.size()) +
                                              " such tensors)"));
  }
}

int64_t CountNonzeros(const std::vector<float>& values) {
  return std::ssize(values) - std::count(values.begin(), values.end(), 0.0f);
}

sparse::Pattern PatternOfNonzeros(const ParameterDecl& declaration,
                                  const std::vector<float>& values) {
  const int64_t rows = declaration.shape[0];
  const int64_t columns = declaration.dense_size() / rows;
  std::vector<int64_t> row_start = {0};
  Buffer<int32_t> column(declaration.nnz);
  int64_t p = 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      if (values[static_cast<size_t>(r * columns + c)] != 0.0f) {
        column[p++] = static_cast<int32_t>(c);
      }
    }
    row_start.push_back(p);
  }
  return {rows, columns, std::move(row_start), std::move(column)};
}

void CopyValues(const std::vector<float>& dense, const Parameter& parameter,
                std::span<float> values) {
  std::vector<int64_t> positions;
  for (int64_t begin = 0; begin < parameter.size(); begin += kChunk) {
    const int64_t count = std::min(kChunk, parameter.size() - begin);
    positions.resize(static_cast<size_t>(count));
    parameter.Positions(begin, positions);
    for (int64_t i = 0; i < count; ++i) {
      values[static_cast<size_t>(begin + i)] =
          dense[static_cast<size_t>(positions[static_cast<size_t>(i)])];
    }
  }
}

}  // namespace

void UseImportedMasks(const ImportedTensors& masks, Graph* graph) {
  std::vector<std::string> strays;
  for (const auto& [name, tensor] : masks) {
    const auto known = [&](const auto& decl) { return decl.name == name; };
    if (std::none_of(graph->declarations.begin(), graph->declarations.end(),
                     known)) {
      strays.push_back(name);
    }
  }
  bool any = false;
  int prunable = 0;
  for (ParameterDecl& declaration : graph->declarations) {
    if (!declaration.prunable) continue;
    ++prunable;
    const auto found = masks.find(declaration.name);
    if (found == masks.end()) {
      declaration.nnz = declaration.dense_size();
      continue;
    }
    any = true;
    CheckTensor(declaration.name, found->second, declaration.shape);
    declaration.mask = MaskOrigin::kImport;
    declaration.nnz = CountNonzeros(found->second.values);
    if (declaration.nnz == 0) {
      throw SpecError(kWhere + Quoted(declaration.name) +
                      ": every value is 0, so no weight would exist; expected "
                      "some; exclude the layer or set model.init.mask to "
                      "\"spec\"");
    }
  }
  if (!any && prunable > 0) {
    throw SpecError(kWhere +
                    std::string("names no weight of the model to "
                                "mask") +
                    Hint(graph->declarations[0].name, strays));
  }
}

ModelSource MaskSource(const ImportedTensors& masks, const Graph& graph,
                       ModelSource values) {
  ModelSource source = values;
  source.pattern = [&masks, &graph, other = values](int tensor) {
    const ParameterDecl& declaration =
        graph.declarations[static_cast<size_t>(tensor)];
    return declaration.mask == MaskOrigin::kImport
               ? PatternOfNonzeros(declaration,
                                   masks.at(declaration.name).values)
               : other.pattern(tensor);
  };
  return source;
}

ModelSource ImportSource(const ImportedTensors& tensors, const Graph& graph,
                         ModelSource masks) {
  CheckTensors(tensors, graph);
  return {
      .pattern = masks.pattern,
      .values =
          [&tensors](int, const Parameter& parameter, std::span<float> values) {
            CopyValues(tensors.at(parameter.decl.name).values, parameter,
                       values);
          },
      .statistic =
          [&tensors](const StatisticDecl& statistic, std::span<float> values) {
            const auto found = tensors.find(statistic.name);
            if (found == tensors.end()) return false;
            std::copy(found->second.values.begin(), found->second.values.end(),
                      values.begin());
            return true;
          }};
}

}  // namespace lumen::nn
