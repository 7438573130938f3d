// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "lumen/core/error.h"
#include "network.h"

namespace lumen::nn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string ErrorOf(const std::string& spec) {
  try {
    NewGraph(ModelSpec(spec), {1, 1, 4, 4}, 3);
  } catch (const SpecError& error) {
    return error.what();
  }
  return "";
}

TEST(Graph, TwoClassesTakeOneOutputWhereItIsAYesOrNo) {
  const std::string layers = R"({"layers": [{"type": "linear", "units": 1}])";
  const auto outputs = [&](const char* loss, int64_t classes) {
    const Json spec =
        ModelSpec(layers + ", \"loss\": {\"type\": \"" + loss + "\"}}");
    return NewGraph(spec, {4}, classes).output().channels;
  };
  EXPECT_EQ(outputs("sigmoid_bce", 2), 1);
  EXPECT_EQ(outputs("mse", 2), 1);
  EXPECT_THROW(outputs("sigmoid_bce", 3), SpecError);
  EXPECT_THROW(outputs("softmax_cross_entropy", 2), SpecError);
}

TEST(Graph, ErrorsSayWhereWhatAndWhatToDo) {
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("needs either"));
  EXPECT_THAT(ErrorOf(R"({"layers": [{"type": "linear", "units": 3}]})"),
              HasSubstr("put a {\"type\": \"flatten\"} before it"));
  EXPECT_THAT(ErrorOf(R"({"layers": [{"type": "flatten"},
                                     {"type": "linear", "units": 4}]})"),
              HasSubstr("expected 3 outputs"));
  EXPECT_THAT(ErrorOf(R"({"layers": [{"type": "flatten"},
      {"type": "linear", "units": 3}, {"type": "relu"}]})"),
              HasSubstr("expected a layer whose outputs are scores"));
  EXPECT_THAT(ErrorOf(R"({"layers": [{"type": "flatten", "name": "a"},
      {"name": "a", "type": "linear", "units": 3}]})"),
              HasSubstr("two layers are named \"a\""));
  EXPECT_THAT(ErrorOf(R"({"preset": {"type": "mlp", "units": [8]},
                          "sparsity": {"method": "static",
                                       "exclude": ["fc22"]}})"),
              HasSubstr("did you mean"));
  EXPECT_THAT(ErrorOf(R"({"layers": [{"type": "linera", "units": 3}]})"),
              HasSubstr("did you mean \"linear\"?"));
  EXPECT_THAT(ErrorOf(R"({"layers": []})"), HasSubstr("empty"));
  EXPECT_THAT(
      ErrorOf("{\n\n\"layers\": [\n{\"type\": \"linear\", \"units\": 3}]}"),
      HasSubstr("test.json:4: "));
  EXPECT_THAT(ErrorOf(R"({"preset": {"type": "mlp", "units": [8]},
                          "layers": [{"type": "relu"}]})"),
              HasSubstr("has both"));
  EXPECT_THAT(ErrorOf(R"({"preset": {"type": "mpl", "units": [8]}})"),
              HasSubstr("did you mean \"mlp\"?"));
  EXPECT_THAT(ErrorOf(R"({"preset": {"type": "mlp", "units": [8]},
                          "sparsity": {"method": "magic"}})"),
              testing::AllOf(HasSubstr("dense"), HasSubstr("static")));
  EXPECT_THAT(ErrorOf(R"({"preset": {"type": "mlp", "units": [8]},
                          "sparsity": {"method": "static", "density": 0}})"),
              HasSubstr("density: 0; expected more than 0"));
  EXPECT_THAT(ErrorOf(R"({"preset": {"type": "mlp", "units": [8]},
                          "init": {"mask": "zeros"}})"),
              HasSubstr("without a file"));
  EXPECT_THAT(ErrorOf(R"({"layers": [{"type": "flatten", "name": "a/b"},
                                     {"type": "linear", "units": 3}]})"),
              HasSubstr("name \"a/b\"; expected letters"));
  EXPECT_THAT(ErrorOf(R"({"layers": [{"type": "flatten", "name": ""},
                                     {"type": "linear", "units": 3}]})"),
              HasSubstr("expected letters"));
  EXPECT_THAT(ErrorOf(R"({"preset": {"type": "mlp",
                                     "units": [9000000000000000]}})"),
              HasSubstr("units; expected at most 134217728"));
  EXPECT_THAT(ErrorOf(R"({"layers": [{"type": "dropout", "rate": 1}]})"),
              HasSubstr("rate"));
}

TEST(Graph, ATensorBeyond32BitsOfNonzerosIsAnError) {
  EXPECT_THAT(ErrorOf(R"({"preset": {"type": "mlp", "units": [100000, 100000]},
                          "sparsity": {"method": "static", "density": 0.5,
                                       "distribution": "uniform"}})"),
              HasSubstr("lower the density or split the layer"));
}

std::vector<std::string> Names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(node.name);
  return names;
}

TEST(Preset, MlpIsLinearReluDropoutAndScores) {
  const Graph graph = NewGraph(
      ModelSpec(
          R"({"preset": {"type": "mlp", "units": [8, 9], "dropout": 0.1}})"),
      {1, 1, 4, 4}, 3);
  EXPECT_THAT(Names(graph), ElementsAre("flatten", "fc1", "relu1", "dropout1",
                                        "fc2", "relu2", "dropout2", "fc3"));
  EXPECT_EQ(graph.output(), (Shape{3}));
  EXPECT_EQ(graph.declarations[2].name, "fc2.weight");
  EXPECT_THAT(graph.declarations[2].shape, ElementsAre(9, 8));
  // Features need no flatten, a rate of 0 no dropout.
  EXPECT_THAT(
      Names(NewGraph(ModelSpec(R"({"preset": {"type": "mlp", "units": [8]}})"),
                     {16}, 3)),
      ElementsAre("fc1", "relu1", "fc2"));
}

TEST(Graph, NonzerosAddUpToTheDensityOfTheLayersNotExcluded) {
  for (const char* distribution : {"uniform", "erk"}) {
    for (double density : {0.001, 0.05, 0.3, 0.9, 1.0}) {
      const Graph graph = NewGraph(
          ModelSpec(R"({"preset": {"type": "mlp", "units": [500, 300]},
                        "sparsity": {"method": "static",
                                     "exclude": ["fc3"], "distribution": ")" +
                    std::string(distribution) +
                    "\", \"density\": " + std::to_string(density) + "}}"),
          {784}, 10);
      const double all = 784 * 500 + 500 * 300;
      const auto& declarations = graph.declarations;
      EXPECT_NEAR(
          static_cast<double>(declarations[0].nnz + declarations[2].nnz),
          density * all, 2);
      EXPECT_EQ(declarations[4].nnz, 3000);
      EXPECT_FALSE(declarations[4].prunable);
      for (int bias : {1, 3, 5}) {
        EXPECT_EQ(declarations[bias].nnz, declarations[bias].dense_size());
      }
      if (distribution == std::string("uniform")) {
        EXPECT_NEAR(static_cast<double>(declarations[0].nnz),
                    density * 784 * 500, 1);
      } else if (density < 0.3) {
        // Densities in proportion to (N + K) / (N K), Evci et al. 2020.
        const double first = static_cast<double>(declarations[0].nnz) / 1284;
        const double second = static_cast<double>(declarations[2].nnz) / 800;
        EXPECT_NEAR(first / second, 1, 0.01);
      }
    }
  }
}

TEST(Graph, MultiplyAddsCountNonzeros) {
  const Graph graph =
      NewGraph(ModelSpec(R"({"preset": {"type": "mlp", "units": [50]},
                    "sparsity": {"method": "static", "density": 0.1,
                                 "distribution": "uniform"}})"),
               {40}, 10);
  EXPECT_EQ(graph.MultiplyAdds(0), 200);
  EXPECT_EQ(graph.DenseMultiplyAdds(0), 2000);
  EXPECT_EQ(graph.MultiplyAdds(1), 0);
  EXPECT_EQ(graph.MultiplyAdds(2), 50);
  EXPECT_EQ(graph.DenseMultiplyAdds(2), 500);
}

TEST(Graph, ModelsLargerThanMemoryAreOnlyPlanned) {
  const Graph graph =
      NewGraph(ModelSpec(
                   R"({"preset": {"type": "mlp", "units": [1000000, 1000000]},
              "sparsity": {"method": "static", "density": 0.0001}})"),
               {1000}, 10);
  EXPECT_EQ(graph.declarations[2].dense_size(), int64_t{1000000000000});
  EXPECT_GT(ArenaBytes(graph, LaneLayout::For(64)), 0);
}

}  // namespace
}  // namespace lumen::nn
