// SPDX-License-Identifier: Apache-2.0
#include "model_build.h"

#include <utility>

#include "lumen/data/dataset.h"
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

nn::Model ModelFromSpec(const Spec& spec, const Shape& input, int64_t classes,
                        const sparse::Compute& compute,
                        const nn::ActivationUse& use) {
  nn::Graph graph = nn::NewGraph(spec.model(), input, classes,
                                 data::KindOfSamples(spec.data()));
  const LaneLayout layout = nn::LayoutFor(graph, spec.shard_batch());
  const Json& init = spec.model().at("init");
  const std::string& mask = init.at("mask").text();
  nn::ImportedTensors values, mask_file;
  if (!init.at("file").is_null()) values = ReadTensors(init.at("file").text());
  if (mask == "file") mask_file = ReadTensors(init.at("mask_file").text());
  const nn::ImportedTensors& masks = mask == "file" ? mask_file : values;
  if (mask != "spec") nn::UseImportedMasks(masks, &graph);
  // The graph moves into the model; sources refer to this copy of its tensors.
  nn::Graph tensors;
  tensors.declarations = graph.declarations;
  tensors.statistics = graph.statistics;
  nn::ModelSource source =
      nn::SeedSource(tensors, spec.seed(), compute.parallel);
  if (mask != "spec") {
    source = nn::MaskSource(masks, tensors, std::move(source));
  }
  if (!values.empty()) {
    source = nn::ImportSource(values, tensors, std::move(source));
  }
  return {std::move(graph), layout, spec.seed(), compute, source, use};
}

nn::Model ModelFromCheckpoint(const Spec& spec, const data::H5Reader& file,
                              const Shape& input, int64_t classes,
                              const sparse::Compute& compute,
                              const nn::ActivationUse& use) {
  nn::Graph graph = nn::NewGraph(spec.model(), input, classes,
                                 data::KindOfSamples(spec.data()));
  ReadNonzeros(file, &graph.declarations);
  const std::vector<nn::ParameterDecl> declarations = graph.declarations;
  const LaneLayout layout = nn::LayoutFor(graph, spec.shard_batch());
  return {
      std::move(graph),
      layout,
      spec.seed(),
      compute,
      nn::ModelSource{
          .pattern =
              [&](int tensor) {
                return ReadPattern(file,
                                   declarations[static_cast<size_t>(tensor)]);
              },
          .values =
              [&](int, const nn::Parameter& parameter,
                  std::span<float> values) {
                ReadTensorValues(file, parameter.decl, values);
              },
          .statistic =
              [&](const nn::StatisticDecl& statistic, std::span<float> values) {
                ReadStatistic(file, statistic, values);
                return true;
              }},
      use};
}

nn::Graph GraphFromCheckpoint(const Spec& spec, const data::H5Reader& file) {
  const ModelInput input = ReadInput(file, spec);
  nn::Graph graph = nn::NewGraph(spec.model(), input.shape, input.outputs);
  ReadNonzeros(file, &graph.declarations);
  return graph;
}

}  // namespace lumen::train
