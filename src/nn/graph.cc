// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <set>

#include "lumen/core/error.h"
#include "lumen/nn/loss.h"
#include "lumen/nn/model.h"

namespace lumen::nn {
namespace {

// Of the transposed rows of sparse::KernelRows.
constexpr int64_t kMaxTensorNonzeros = (int64_t{1} << 32) - 1;

// The resolved layers of the spec, whichever way they are given.
Json LayersOf(const Json& spec, const Shape& input, int64_t classes) {
  const Json& preset = spec.at("preset");
  const Json& layers = spec.at("layers");
  if (preset.is_null() == layers.is_null()) {
    throw SpecError(spec.where() +
                    ": model: needs either \"preset\" or "
                    "\"layers\", " +
                    (preset.is_null() ? "has none" : "has both"));
  }
  if (!layers.is_null()) return layers;
  Json given = Json::Object();
  given.Set("layers", ExpandPreset(preset, input, classes));
  const auto keys = ModelKeys();
  const auto key = std::find_if(keys.begin(), keys.end(), [](const Key& k) {
    return k.name == "layers";
  });
  return Resolve(given, std::span<const Key>(&*key, 1), "model").at("layers");
}

const LayerRow& FindRow(const std::string& type) {
  const auto table = LayerTable();
  return *std::find_if(table.begin(), table.end(),
                       [&](const LayerRow& row) { return row.type == type; });
}

// Names become those of parameters: in checkpoints, exports and messages.
void CheckName(const Json& layer, const std::string& name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
  };
  if (name.empty() || name[0] == '.' ||
      !std::all_of(name.begin(), name.end(), allowed)) {
    throw SpecError(layer.where() + ": model.layers: name \"" + name +
                    "\"; expected letters, digits, \"_\", \"-\" and, not "
                    "first, \".\"");
  }
}

void AddNode(const Json& layer, Graph* graph) {
  Node node;
  node.type = layer.at("type").text();
  const auto index = graph->nodes.size();
  const Json& name = layer.at("name");
  node.name = name.is_null() ? node.type + std::to_string(index) : name.text();
  CheckName(layer, node.name);
  for (const Node& other : graph->nodes) {
    if (other.name == node.name) {
      throw SpecError(layer.where() +
                      ": model.layers: two layers are named \"" + node.name +
                      "\"; expected unique names");
    }
  }
  const Shape shape =
      index == 0 ? graph->input : graph->nodes.back().layer->output_shape();
  node.inputs = {static_cast<int>(index) - 1};
  node.layer =
      FindRow(node.type).create(layer, node.name, std::span(&shape, 1));
  node.first_parameter = static_cast<int>(graph->declarations.size());
  for (ParameterDecl& declaration : node.layer->parameters()) {
    declaration.nnz = declaration.dense_size();
    graph->declarations.push_back(std::move(declaration));
    ++node.parameters;
  }
  graph->nodes.push_back(std::move(node));
}

std::set<std::string> Excluded(const Json& sparsity, const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(node.name);
  std::set<std::string> excluded;
  for (const Json& name : sparsity.at("exclude").items()) {
    if (std::find(names.begin(), names.end(), name.text()) == names.end()) {
      const std::string nearest = Nearest(name.text(), names);
      throw SpecError(name.where() + ": model.sparsity.exclude: no layer \"" +
                      name.text() + "\"" +
                      (nearest.empty()
                           ? std::string()
                           : "; did you mean \"" + nearest + "\"?"));
    }
    excluded.insert(name.text());
  }
  return excluded;
}

// Excluded layers take no mask.
void Exclude(const Json& sparsity, Graph* graph) {
  const std::set<std::string> excluded = Excluded(sparsity, *graph);
  for (const Node& node : graph->nodes) {
    if (!excluded.contains(node.name)) continue;
    for (int p = 0; p < node.parameters; ++p) {
      graph->declarations[static_cast<size_t>(node.first_parameter + p)]
          .prunable = false;
    }
  }
}

void Distribute(const Json& sparsity, Graph* graph) {
  const double density = sparsity.at("density").number();
  if (density <= 0) {
    throw SpecError(sparsity.at("density").where() +
                    ": model.sparsity.density: 0; expected more than 0");
  }
  std::vector<sparse::LayerSize> sizes;
  std::vector<ParameterDecl*> tensors;
  for (ParameterDecl& declaration : graph->declarations) {
    if (!declaration.prunable) continue;
    const int64_t rows = declaration.shape[0];
    sizes.push_back({.rows = rows, .columns = declaration.dense_size() / rows});
    tensors.push_back(&declaration);
  }
  const auto nonzeros =
      sparse::DistributeNonzeros(sparsity.at("distribution").text() == "erk"
                                     ? sparse::Distribution::kErk
                                     : sparse::Distribution::kUniform,
                                 density, sizes);
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i]->nnz = nonzeros[i];
    if (tensors[i]->is_sparse() && nonzeros[i] > kMaxTensorNonzeros) {
      throw SpecError(
          sparsity.where() + ": model.sparsity: " + tensors[i]->name + " has " +
          std::to_string(nonzeros[i]) + " nonzeros; expected at most " +
          std::to_string(kMaxTensorNonzeros) +
          "; lower the density or split the layer");
    }
  }
}

std::vector<int64_t> NodeNonzeros(const Graph& graph, int node,
                                  int64_t ParameterDecl::*nnz) {
  const Node& n = graph.nodes[static_cast<size_t>(node)];
  std::vector<int64_t> sizes;
  for (int p = 0; p < n.parameters; ++p) {
    const ParameterDecl& declaration =
        graph.declarations[static_cast<size_t>(n.first_parameter + p)];
    sizes.push_back(nnz ? declaration.*nnz : declaration.dense_size());
  }
  return sizes;
}

}  // namespace

int64_t Graph::MultiplyAdds(int node) const {
  return nodes[static_cast<size_t>(node)].layer->MultiplyAdds(
      NodeNonzeros(*this, node, &ParameterDecl::nnz));
}

int64_t Graph::DenseMultiplyAdds(int node) const {
  return nodes[static_cast<size_t>(node)].layer->MultiplyAdds(
      NodeNonzeros(*this, node, nullptr));
}

Graph NewGraph(const Json& spec, const Shape& input, int64_t classes) {
  const Json layers = LayersOf(spec, input, classes);
  if (layers.items().empty()) {
    throw SpecError(layers.where() + ": model.layers: is empty");
  }
  Graph graph;
  graph.input = input;
  for (const Json& layer : layers.items()) AddNode(layer, &graph);
  const Node& last = graph.nodes.back();
  const Shape output = graph.output();
  if (output.elements() != output.channels || output.channels != classes) {
    throw SpecError(layers.where() + ": model.layers: the last layer \"" +
                    last.name + "\" gives " + output.ToString() +
                    "; expected " + std::to_string(classes) +
                    " outputs, one per class of the data");
  }
  if (last.layer->backward_needs().output) {
    throw SpecError(layers.where() + ": model.layers: the last layer \"" +
                    last.name + "\" is a " + last.type +
                    "; expected a layer whose outputs are scores, like linear");
  }
  const Json& init = spec.at("init");
  if (init.at("mask").text() == "zeros" && init.at("file").is_null()) {
    throw SpecError(init.where() +
                    ": model.init.mask: \"zeros\" without a file; expected "
                    "model.init.file to name one");
  }
  const Json& sparsity = spec.at("sparsity");
  Exclude(sparsity, &graph);
  if (sparsity.at("method").text() == "static") Distribute(sparsity, &graph);
  return graph;
}

}  // namespace lumen::nn
