// SPDX-License-Identifier: Apache-2.0
#include "model_build.h"

#include <utility>

#include "lumen/data/tensor_file.h"
#include "model_state.h"

namespace lumen::train {
namespace {

nn::ImportedTensors ReadTensors(const std::string& path) {
  nn::ImportedTensors tensors;
  for (auto& [name, tensor] : data::ReadTensorFile(path)) {
    tensors[name] = {std::move(tensor.shape), std::move(tensor.values)};
  }
  return tensors;
}

}  // namespace

LaneLayout ShardLayout(const Spec& spec) {
  return LaneLayout::For(spec.shard_batch());
}

nn::Model ModelFromSpec(const Spec& spec, const Shape& input, int64_t classes,
                        const sparse::Compute& compute) {
  nn::Graph graph = nn::NewGraph(spec.model(), input, classes);
  const Json& init = spec.model().at("init");
  // The graph moves into the model; a source refers to this copy of its
  // tensors.
  nn::Graph tensors;
  if (init.at("file").is_null()) {
    tensors.declarations = graph.declarations;
    return {std::move(graph), ShardLayout(spec), spec.seed(), compute,
            nn::SeedSource(tensors, spec.seed(), compute.parallel)};
  }
  const nn::ImportedTensors imported = ReadTensors(init.at("file").text());
  if (init.at("mask").text() == "zeros") {
    nn::UseImportedMasks(imported, &graph);
  }
  tensors.declarations = graph.declarations;
  return {
      std::move(graph), ShardLayout(spec), spec.seed(), compute,
      nn::ImportSource(imported, tensors,
                       nn::SeedSource(tensors, spec.seed(), compute.parallel))};
}

nn::Model ModelFromCheckpoint(const Spec& spec, const data::H5Reader& file,
                              const Shape& input, int64_t classes,
                              const sparse::Compute& compute) {
  nn::Graph graph = nn::NewGraph(spec.model(), input, classes);
  ReadNonzeros(file, &graph.declarations);
  const std::vector<nn::ParameterDecl> declarations = graph.declarations;
  return {std::move(graph), ShardLayout(spec), spec.seed(), compute,
          nn::ModelSource{.pattern =
                              [&](int tensor) {
                                return ReadPattern(
                                    file,
                                    declarations[static_cast<size_t>(tensor)]);
                              },
                          .values =
                              [&](int, const nn::Parameter& parameter,
                                  std::span<float> values) {
                                ReadTensorValues(file, parameter.decl, values);
                              }}};
}

}  // namespace lumen::train
