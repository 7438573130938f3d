// SPDX-License-Identifier: Apache-2.0
// Weights of a file: names, shapes, masks and values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lumen/core/error.h"
#include "network.h"

namespace lumen::nn {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

ImportedTensors Import(float absent) {
  ImportedTensors tensors;
  tensors["fc1.weight"] = {
      {3, 4}, {1, absent, 2, 3, absent, absent, 4, 5, 6, 7, 8, absent}};
  tensors["fc1.bias"] = {{3}, {0, 1, 2}};
  return tensors;
}

constexpr char kOneLayer[] = R"({"preset": {"type": "mlp", "units": []}})";

TEST(Import, ZerosBecomeAbsentAndTheRestKeepsItsValues) {
  const ImportedTensors tensors = Import(0);
  Graph graph = NewGraph(ModelSpec(kOneLayer), {4}, 3);
  UseImportedMasks(tensors, &graph);
  EXPECT_EQ(graph.declarations[0].nnz, 8);
  EXPECT_EQ(graph.declarations[1].nnz, 3) << "a bias is never pruned";
  Graph copy;
  copy.declarations = graph.declarations;
  Model model(std::move(graph), LaneLayout::For(1), 1,
              NewCompute(sparse::DetectIsa(), 1),
              ImportSource(
                  tensors, copy,
                  MaskSource(tensors, copy, SeedSource(copy, 1, Parallel(1)))));
  const auto values = model.parameters().values();
  EXPECT_THAT(std::vector<float>(values.begin(), values.end()),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2));
  std::vector<int64_t> positions(8);
  model.parameters().tensors()[0].Positions(0, positions);
  EXPECT_THAT(positions, ElementsAre(0, 2, 3, 6, 7, 8, 9, 10));
}

// A model with the tensors' values and, after UseImportedMasks, their masks.
Model NewModel(Graph graph, const ImportedTensors& tensors) {
  Graph copy;
  copy.declarations = graph.declarations;
  return {std::move(graph), LaneLayout::For(1), 1,
          NewCompute(sparse::DetectIsa(), 1),
          ImportSource(tensors, copy, SeedSource(copy, 1, Parallel(1)))};
}

TEST(Import, MasksOfTheSpecStayWhateverIsZeroInTheFile) {
  // As many nonzeros as the file has: still the mask of the seed.
  const std::string spec = R"({"preset": {"type": "mlp", "units": []},
    "sparsity": {"method": "static", "density": 0.5}})";
  ImportedTensors tensors;
  tensors["fc1.weight"] = {{10, 40}, std::vector<float>(400, 0.0f)};
  tensors["fc1.bias"] = {{10}, std::vector<float>(10, 1.0f)};
  auto& weight = tensors["fc1.weight"].values;
  for (size_t i = 0; i < 200; ++i) weight[i] = static_cast<float>(i + 1);
  Graph graph = NewGraph(ModelSpec(spec), {40}, 10);
  ASSERT_EQ(graph.declarations[0].nnz, 200);
  const Model model = NewModel(std::move(graph), tensors);
  const Network random(spec, {40}, 10, 1, NewCompute(sparse::DetectIsa(), 1));
  std::vector<int64_t> positions(200), expected(200);
  const Parameter& ours = model.parameters().tensors()[0];
  ours.Positions(0, positions);
  random.model->parameters().tensors()[0].Positions(0, expected);
  EXPECT_EQ(positions, expected);
  for (size_t i = 0; i < 200; ++i) {
    EXPECT_EQ(model.parameters().values(ours)[i],
              weight[static_cast<size_t>(positions[i])]);
  }
}

TEST(Import, ExcludedLayersKeepTheirZeros) {
  const std::string spec = R"({"preset": {"type": "mlp", "units": []},
    "sparsity": {"method": "static", "exclude": ["fc1"]}})";
  Graph graph = NewGraph(ModelSpec(spec), {4}, 3);
  UseImportedMasks(Import(0), &graph);
  EXPECT_EQ(graph.declarations[0].nnz, 12);
}

TEST(Import, AMaskFileDecidesWhichWeightsOfTheSeedExist) {
  const std::string spec = R"({"preset": {"type": "mlp", "units": [3]}})";
  Graph graph = NewGraph(ModelSpec(spec), {4}, 3);
  ImportedTensors masks;  // does not name fc2.weight: that stays dense
  masks["fc1.weight"] = {{3, 4}, {1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 1}};
  UseImportedMasks(masks, &graph);
  EXPECT_EQ(graph.declarations[0].nnz, 5);
  EXPECT_EQ(graph.declarations[2].nnz, 9);
  Graph copy;
  copy.declarations = graph.declarations;
  const Model model(std::move(graph), LaneLayout::For(1), 1,
                    NewCompute(sparse::DetectIsa(), 1),
                    MaskSource(masks, copy, SeedSource(copy, 1, Parallel(1))));
  std::vector<int64_t> positions(5);
  model.parameters().tensors()[0].Positions(0, positions);
  EXPECT_THAT(positions, ElementsAre(0, 3, 4, 5, 11));
}

TEST(Import, TensorsWithoutZerosAreDense) {
  Graph graph = NewGraph(ModelSpec(kOneLayer), {4}, 3);
  const ImportedTensors tensors = Import(9);
  UseImportedMasks(tensors, &graph);
  const Model model = NewModel(std::move(graph), tensors);
  EXPECT_EQ(model.parameters().tensors()[0].rows, nullptr);
  EXPECT_EQ(model.parameters().size(), 15);
}

std::string ErrorOf(const ImportedTensors& tensors) {
  Graph graph = NewGraph(ModelSpec(kOneLayer), {4}, 3);
  try {
    UseImportedMasks(tensors, &graph);
    ImportSource(tensors, graph, ModelSource());
  } catch (const SpecError& error) {
    return error.what();
  }
  return "";
}

TEST(Import, ErrorsNameBothSides) {
  ImportedTensors tensors = Import(1);
  tensors.erase("fc1.bias");
  EXPECT_THAT(ErrorOf(tensors),
              HasSubstr("has no tensor \"fc1.bias\" [3], which the model has"));
  tensors["1.bias"] = {{3}, {0, 1, 2}};
  EXPECT_THAT(ErrorOf(tensors), HasSubstr("did you mean its \"1.bias\"?"));
  tensors.erase("1.bias");
  tensors["layers.0.linear.b"] = {{3}, {0, 1, 2}};
  EXPECT_THAT(ErrorOf(tensors), HasSubstr("instead it has layers.0.linear.b"));

  tensors = Import(1);
  tensors["fc9.bias"] = {{1}, {0}};
  EXPECT_THAT(ErrorOf(tensors),
              HasSubstr("tensor \"fc9.bias\" [1] is not in the model"));

  tensors = Import(1);
  tensors["fc1.weight"].shape = {4, 3};
  EXPECT_THAT(ErrorOf(tensors),
              HasSubstr("\"fc1.weight\" is [4, 3]; expected [3, 4]"));

  tensors = Import(1);
  tensors["fc1.weight"].values[5] = std::nanf("");
  EXPECT_THAT(ErrorOf(tensors),
              AllOf(HasSubstr("value 5"), HasSubstr("expected finite")));

  tensors = Import(0);
  for (float& value : tensors["fc1.weight"].values) value = -0.0f;
  EXPECT_THAT(ErrorOf(tensors), HasSubstr("every value is 0"));
}

}  // namespace
}  // namespace lumen::nn
