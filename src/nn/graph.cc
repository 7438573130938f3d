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

// Where names are looked up: a block sees its own layers first.
struct Scope {
  const Scope* outer = nullptr;
  std::string prefix;  // "layer1.0."
  int input = -1;      // node that "input" means
};

int FindNode(const Graph& graph, const std::string& name) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

int FindSource(const Json& name, const Scope& scope, const Graph& graph) {
  for (const Scope* s = &scope; s != nullptr; s = s->outer) {
    if (name.text() == "input") return s->input;
    const int node = FindNode(graph, s->prefix + name.text());
    if (node >= 0) return node;
  }
  std::vector<std::string> names = {"input"};
  for (const Node& node : graph.nodes) {
    names.push_back(node.name.starts_with(scope.prefix)
                        ? node.name.substr(scope.prefix.size())
                        : node.name);
  }
  const std::string nearest = Nearest(name.text(), names);
  throw SpecError(name.where() + ": model.layers: from: no layer \"" +
                  name.text() + "\" before this one" +
                  (nearest.empty() ? std::string()
                                   : "; did you mean \"" + nearest + "\"?"));
}

std::vector<int> Sources(const Json& layer, const Scope& scope, int previous,
                         const Graph& graph) {
  const Json& from = layer.at("from");
  if (from.is_null()) return {previous};
  std::vector<int> sources;
  for (const Json& name : from.items()) {
    const int source = FindSource(name, scope, graph);
    if (std::find(sources.begin(), sources.end(), source) != sources.end()) {
      throw SpecError(name.where() + ": model.layers: from: \"" + name.text() +
                      "\" twice; expected different layers");
    }
    sources.push_back(source);
  }
  return sources;
}

// Node that a layer list ends in.
int AddLayers(const Json& layers, const Scope& scope, Graph* graph);

// Layers of a block, once or `repeat` times in a row.
int AddBlock(const Json& block, const std::string& name, const Scope& scope,
             int previous, Graph* graph) {
  const std::vector<int> sources = Sources(block, scope, previous, *graph);
  if (sources.size() != 1) {
    throw SpecError(block.where() + ": model.layers: block \"" + name + "\": " +
                    std::to_string(sources.size()) + " inputs; expected one");
  }
  const Json& repeat = block.at("repeat");
  const int64_t times = repeat.is_null() ? 1 : repeat.integer();
  int last = sources[0];
  for (int64_t i = 0; i < times; ++i) {
    const Scope inside = {
        .outer = &scope,
        .prefix =
            name + "." + (repeat.is_null() ? "" : std::to_string(i) + "."),
        .input = last};
    last = AddLayers(block.at("layers"), inside, graph);
  }
  return last;
}

// Sparse samples have one way into a network.
void CheckReads(const Json& layer, const Node& node, const Graph& graph) {
  const bool wants_sparse = node.layer->reads() == SampleKind::kSparse;
  for (const int input : node.inputs) {
    const bool is_sparse = input < 0 && graph.samples == SampleKind::kSparse;
    if (wants_sparse == is_sparse) continue;
    const std::string what = layer.where() + ": model.layers: " + node.type +
                             " \"" + node.name + "\" reads ";
    if (is_sparse) {
      throw SpecError(what +
                      "sparse samples; expected a network that starts with "
                      "{\"type\": \"sparse_linear\", \"units\": ...}");
    }
    throw SpecError(
        what +
        (input < 0
             ? "samples that are not sparse"
             : "\"" + graph.nodes[static_cast<size_t>(input)].name + "\"") +
        "; expected sparse samples, as data.type svmlight and xmc give; use "
        "linear here");
  }
}

// Decides whether the output of the node lies in strips.
void UseStrips(const Json& layer, Node* node, const Graph& graph) {
  int in_strips = 0;
  for (const int input : node->inputs) {
    in_strips += input < 0 ? graph.strips > 1
                           : graph.nodes[static_cast<size_t>(input)].in_strips;
  }
  if (in_strips == 0) return;
  const StripUse use = node->layer->strip_use();
  if (use == StripUse::kRefuses ||
      in_strips != static_cast<int>(node->inputs.size())) {
    throw SpecError(layer.where() + ": model.layers: " + node->type + " \"" +
                    node->name + "\" cannot work on " +
                    std::to_string(graph.strips) + " strips of " +
                    std::to_string(graph.input.width) +
                    " columns (model.strips); expected strips as wide as a "
                    "multiple of all strides, same padding, and global_pool "
                    "before layers on features");
  }
  node->in_strips = use == StripUse::kKeeps;
}

int AddNode(const Json& layer, const std::string& name, const Scope& scope,
            int previous, Graph* graph) {
  Node node;
  node.type = layer.at("type").text();
  node.name = name;
  if (FindNode(*graph, name) >= 0) {
    throw SpecError(layer.where() + ": model.layers: two layers are named \"" +
                    name + "\"; expected unique names");
  }
  node.inputs = Sources(layer, scope, previous, *graph);
  std::vector<Shape> shapes;
  for (int input : node.inputs) {
    shapes.push_back(
        input < 0
            ? graph->input
            : graph->nodes[static_cast<size_t>(input)].layer->output_shape());
  }
  node.layer = FindRow(node.type).create(layer, node.name, shapes);
  CheckReads(layer, node, *graph);
  UseStrips(layer, &node, *graph);
  node.first_parameter = static_cast<int>(graph->declarations.size());
  for (ParameterDecl& declaration : node.layer->parameters()) {
    declaration.nnz = declaration.dense_size();
    graph->declarations.push_back(std::move(declaration));
    ++node.parameters;
  }
  node.first_statistic = graph->statistics_size();
  for (StatisticDecl& statistic : node.layer->statistics()) {
    graph->statistics.push_back(std::move(statistic));
  }
  graph->nodes.push_back(std::move(node));
  return static_cast<int>(graph->nodes.size()) - 1;
}

int AddLayers(const Json& layers, const Scope& scope, Graph* graph) {
  if (layers.items().empty()) {
    throw SpecError(layers.where() + ": model.layers: is empty");
  }
  int last = scope.input;
  int64_t index = 0;
  for (const Json& layer : layers.items()) {
    const std::string& type = layer.at("type").text();
    const Json& given = layer.at("name");
    const std::string name =
        scope.prefix +
        (given.is_null() ? type + std::to_string(index) : given.text());
    CheckName(layer, name);
    last = type == "block" ? AddBlock(layer, name, scope, last, graph)
                           : AddNode(layer, name, scope, last, graph);
    ++index;
  }
  return last;
}

// Layers whose output nobody reads are a slip in a `from`.
void CheckAllUsed(const Json& layers, const Graph& graph) {
  std::set<int> used = {static_cast<int>(graph.nodes.size()) - 1};
  for (const Node& node : graph.nodes) {
    used.insert(node.inputs.begin(), node.inputs.end());
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (used.contains(static_cast<int>(i))) continue;
    throw SpecError(layers.where() + ": model.layers: no layer reads \"" +
                    graph.nodes[i].name +
                    "\"; expected every layer to lead to the last");
  }
}

// Where dense kernels win (DESIGN section 4): few inputs per output, and the
// head.
std::set<std::string> DenseByRule(const Graph& graph) {
  std::set<std::string> dense;
  bool convolves = false;
  for (const Node& node : graph.nodes) {
    if (node.type != "conv2d") continue;
    convolves = true;
    const bool of_input = node.inputs[0] < 0;
    const bool depthwise =
        graph.declarations[static_cast<size_t>(node.first_parameter)]
            .shape[1] == 1;
    if (of_input || depthwise) dense.insert(node.name);
  }
  if (convolves) dense.insert(graph.nodes.back().name);
  return dense;
}

std::set<std::string> Excluded(const Json& sparsity, const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(node.name);
  std::set<std::string> excluded;
  if (sparsity.at("exclude").is_null()) return DenseByRule(graph);
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
  for (const char* key : {"density", "initial_density"}) {
    if (sparsity.at(key).number() > 0) continue;
    throw SpecError(sparsity.at(key).where() + ": model.sparsity." + key +
                    ": 0; expected more than 0");
  }
  const bool pruned = sparsity.at("method").text() == "gmp";
  const Json& density = sparsity.at(pruned ? "initial_density" : "density");
  const std::vector<int64_t> nonzeros =
      NonzerosAt(*graph, sparsity, density.number());
  for (size_t i = 0; i < nonzeros.size(); ++i) {
    ParameterDecl& tensor = graph->declarations[i];
    tensor.nnz = nonzeros[i];
    if (tensor.is_sparse() && nonzeros[i] > kMaxTensorNonzeros) {
      throw SpecError(sparsity.where() + ": model.sparsity: " + tensor.name +
                      " has " + std::to_string(nonzeros[i]) +
                      " nonzeros; expected at most " +
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

int64_t Graph::statistics_size() const {
  int64_t size = 0;
  for (const StatisticDecl& statistic : statistics) size += statistic.size;
  return size;
}

Shape Graph::OutputShape(int node) const {
  const Node& n = nodes[static_cast<size_t>(node)];
  Shape shape = n.layer->output_shape();
  if (n.in_strips) shape.width *= strips;
  return shape;
}

int64_t Graph::MultiplyAdds(int node) const {
  const Node& n = nodes[static_cast<size_t>(node)];
  return (n.in_strips ? strips : 1) *
         n.layer->MultiplyAdds(NodeNonzeros(*this, node, &ParameterDecl::nnz));
}

int64_t Graph::DenseMultiplyAdds(int node) const {
  const Node& n = nodes[static_cast<size_t>(node)];
  return (n.in_strips ? strips : 1) *
         n.layer->MultiplyAdds(NodeNonzeros(*this, node, nullptr));
}

std::vector<int64_t> NonzerosAt(const Graph& graph, const Json& sparsity,
                                double density) {
  std::vector<sparse::LayerSize> sizes;
  std::vector<int64_t> nonzeros;
  for (const ParameterDecl& declaration : graph.declarations) {
    nonzeros.push_back(declaration.dense_size());
    if (!declaration.prunable) continue;
    const int64_t rows = declaration.shape[0];
    sparse::LayerSize size = {.rows = rows,
                              .columns = declaration.dense_size() / rows};
    for (size_t d = 2; d < declaration.shape.size(); ++d) {
      size.window *= declaration.shape[d];
      size.window_sides += declaration.shape[d];
    }
    sizes.push_back(size);
  }
  const auto of_layers =
      sparse::DistributeNonzeros(sparsity.at("distribution").text() == "erk"
                                     ? sparse::Distribution::kErk
                                     : sparse::Distribution::kUniform,
                                 density, sizes);
  auto next = of_layers.begin();
  for (size_t i = 0; i < nonzeros.size(); ++i) {
    if (graph.declarations[i].prunable) nonzeros[i] = *next++;
  }
  return nonzeros;
}

LaneLayout LayoutFor(const Graph& graph, int64_t samples) {
  int64_t lanes = kMaxTileLanes;
  for (const Node& node : graph.nodes) {
    node.layer->CheckShard(samples);
    lanes = std::min(lanes, node.layer->max_lanes());
  }
  LaneLayout layout = LaneLayout::For(samples, lanes);
  layout.strips = graph.strips;
  if (layout.strips > 1 && samples != 1) {
    throw SpecError("model.strips: " + std::to_string(layout.strips) +
                    " with shards of " + std::to_string(samples) +
                    " samples; expected one sample per shard: set "
                    "train.shards to train.global_batch");
  }
  return layout;
}

void CutIntoStrips(const Json& strips, Graph* graph) {
  graph->strips = strips.integer();
  if (graph->strips == 1) return;
  Shape& input = graph->input;
  if (graph->samples == SampleKind::kSparse || input.depth > 1 ||
      input.width % graph->strips != 0) {
    throw SpecError(strips.where() +
                    ": model.strips: " + std::to_string(graph->strips) +
                    " for samples of " + input.ToString() +
                    "; expected images whose width it divides");
  }
  input.width /= graph->strips;
}

Graph NewGraph(const Json& spec, const Shape& input, int64_t classes,
               SampleKind samples) {
  const Json layers = LayersOf(spec, input, classes);
  Graph graph;
  graph.input = input;
  graph.samples = samples;
  CutIntoStrips(spec.at("strips"), &graph);
  AddLayers(layers, Scope(), &graph);
  CheckAllUsed(layers, graph);
  const Node& last = graph.nodes.back();
  const Shape output = graph.output();
  // Two classes need no more than one output where each is a yes or no.
  const bool enough =
      output.channels == classes ||
      (output.channels == 1 && classes == 2 && TakesValues(spec.at("loss")));
  if (output.elements() != output.channels || !enough) {
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
  const std::string& mask = init.at("mask").text();
  const auto require = [&](const char* value, const char* key) {
    if (mask != value || !init.at(key).is_null()) return;
    throw SpecError(init.where() + ": model.init.mask: \"" + value +
                    "\" without a file; expected model.init." + key +
                    " to name one");
  };
  require("zeros", "file");
  require("file", "mask_file");
  const Json& sparsity = spec.at("sparsity");
  Exclude(sparsity, &graph);
  if (sparsity.at("method").text() != "dense") Distribute(sparsity, &graph);
  return graph;
}

}  // namespace lumen::nn
