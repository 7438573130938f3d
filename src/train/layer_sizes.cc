// SPDX-License-Identifier: Apache-2.0
#include "layer_sizes.h"

namespace lumen::train {

Json LayerSizes(const nn::Graph& graph, const nn::ParameterSet& parameters) {
  Json layers = Json::Array();
  for (const nn::Node& node : graph.nodes) {
    int64_t dense = 0;
    int64_t present = 0;
    for (int i = 0; i < node.parameters; ++i) {
      const nn::Parameter& tensor =
          parameters.tensors()[static_cast<size_t>(node.first_parameter + i)];
      dense += tensor.decl.dense_size();
      present += tensor.size();
    }
    if (dense == 0) continue;
    Json layer = Json::Array();
    layer.Append(node.name);
    layer.Append(dense);
    layer.Append(present);
    layers.Append(std::move(layer));
  }
  return layers;
}

}  // namespace lumen::train
