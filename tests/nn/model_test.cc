// SPDX-License-Identifier: Apache-2.0
#include "lumen/nn/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "lumen/core/error.h"
#include "network.h"
#include "src/nn/arena.h"

namespace lumen::nn {
namespace {

constexpr char kSparseMlp[] = R"({
  "preset": {"type": "mlp", "units": [40, 24], "dropout": 0.2},
  "sparsity": {"method": "static", "density": 0.3, "exclude": ["fc3"]},
  "loss": {"type": "softmax_cross_entropy", "label_smoothing": 0.1}})";

TEST(Model, BitsDoNotDependOnIsaOrThreads) {
  for (int64_t batch : {1, 2, 7, 15, 16, 17, 100, 200}) {
    Network oracle(kSparseMlp, {3, 1, 4, 5}, 5, batch,
                   NewCompute(sparse::Isa::kScalar, 1));
    const LossSums expected = oracle.ForwardBackward();
    for (sparse::Isa isa : sparse::AvailableIsas()) {
      for (int threads : {1, 2, 3}) {
        Network network(kSparseMlp, {3, 1, 4, 5}, 5, batch,
                        NewCompute(isa, threads));
        const LossSums sums = network.ForwardBackward();
        EXPECT_EQ(sums.loss, expected.loss);
        EXPECT_EQ(sums.metrics, expected.metrics);
        ASSERT_EQ(std::memcmp(network.gradient.data(), oracle.gradient.data(),
                              4 * oracle.gradient.size()),
                  0)
            << IsaName(isa) << ", " << threads << " threads, " << batch;
      }
    }
  }
}

TEST(Model, AgreesWithAPerceptronInDouble) {
  Network network(R"({"layers": [{"type": "linear", "units": 6},
                                 {"type": "relu"},
                                 {"type": "linear", "units": 3}],
                      "sparsity": {"method": "static", "density": 0.6}})",
                  {8}, 3, 21, NewCompute(sparse::DetectIsa(), 1));
  const ParameterSet& parameters = network.model->parameters();
  // Dense copies of the four tensors.
  std::vector<std::vector<double>> dense;
  for (const Parameter& tensor : parameters.tensors()) {
    std::vector<double> values(static_cast<size_t>(tensor.decl.dense_size()),
                               0.0);
    std::vector<int64_t> positions(static_cast<size_t>(tensor.size()));
    tensor.Positions(0, positions);
    for (size_t i = 0; i < positions.size(); ++i) {
      values[positions[i]] = parameters.values(tensor)[i];
    }
    dense.push_back(values);
  }
  double expected = 0;
  for (int64_t s = 0; s < 21; ++s) {
    std::vector<double> hidden(6), out(3);
    for (int o = 0; o < 6; ++o) {
      hidden[o] = dense[1][o];
      for (int i = 0; i < 8; ++i) {
        hidden[o] += dense[0][o * 8 + i] * network.At(s, i);
      }
      hidden[o] = std::max(0.0, hidden[o]);
    }
    double total = 0;
    for (int o = 0; o < 3; ++o) {
      out[o] = dense[3][o];
      for (int i = 0; i < 6; ++i) out[o] += dense[2][o * 6 + i] * hidden[i];
      total += std::exp(out[o]);
    }
    expected += std::log(total) - out[network.labels[s]];
  }
  EXPECT_NEAR(network.Forward(PassKind::kEvaluation).loss, expected, 1e-4);
}

TEST(Model, TensorsBecomeFinalFromTheLastToTheFirst) {
  Network network(kSparseMlp, {20}, 5, 10, NewCompute(sparse::DetectIsa(), 1));
  network.ForwardBackward();
  EXPECT_THAT(network.done, testing::ElementsAre(4, 2, 0));
}

TEST(Model, MaskedSamplesChangeNoGradient) {
  Network few(kSparseMlp, {20}, 5, 9, NewCompute(sparse::DetectIsa(), 1));
  few.ForwardBackward();
  Network more(kSparseMlp, {20}, 5, 12, NewCompute(sparse::DetectIsa(), 1));
  for (int64_t i = 0; i < 12; ++i) {
    for (int64_t e = 0; e < 20; ++e) more.At(i, e) = i < 9 ? few.At(i, e) : 0;
    more.labels[i] = i < 9 ? few.labels[i] : -1;
  }
  more.ForwardBackward();
  EXPECT_EQ(more.gradient, few.gradient);
}

TEST(Model, InitialValuesBelongToPositionsNotMasks) {
  Network dense(R"({"layers": [{"type": "linear", "units": 50}]})", {40}, 50, 1,
                NewCompute(sparse::DetectIsa(), 1));
  Network sparse(R"({"layers": [{"type": "linear", "units": 50}],
                     "sparsity": {"method": "static", "density": 0.25}})",
                 {40}, 50, 1, NewCompute(sparse::DetectIsa(), 2));
  const Parameter& weight = sparse.model->parameters().tensors()[0];
  const auto values = sparse.model->parameters().values(weight);
  std::vector<int64_t> positions(values.size());
  weight.Positions(0, positions);
  for (size_t i = 0; i < values.size(); ++i) {
    // A quarter of the inputs: twice the bound.
    EXPECT_FLOAT_EQ(values[i],
                    2 * dense.model->parameters().values()[positions[i]]);
  }
}

TEST(Arena, PlanIsWhatIsAllocatedAndBuffersInUseAreApart) {
  const Graph graph = NewGraph(ModelSpec(kSparseMlp), {20}, 5);
  for (int64_t batch : {1, 64, 500}) {
    Network network(kSparseMlp, {20}, 5, batch,
                    NewCompute(sparse::DetectIsa(), 1));
    EXPECT_EQ(ArenaBytes(graph, LaneLayout::For(batch)),
              network.model->arena_bytes());
  }
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> lifetimes;
    for (int i = 0; i < 12; ++i) {
      const int64_t begin = random() % 20;
      lifetimes.push_back({begin, begin + static_cast<int64_t>(random() % 8),
                           16 * (1 + static_cast<int64_t>(random() % 10))});
    }
    const ArenaPlan plan = PlanArena(lifetimes);
    int64_t total = 0;
    for (size_t i = 0; i < lifetimes.size(); ++i) {
      total += lifetimes[i].size;
      EXPECT_LE(plan.offset[i] + lifetimes[i].size, plan.size);
      for (size_t j = 0; j < i; ++j) {
        const bool together = lifetimes[i].begin <= lifetimes[j].end &&
                              lifetimes[j].begin <= lifetimes[i].end;
        const bool overlap =
            plan.offset[i] < plan.offset[j] + lifetimes[j].size &&
            plan.offset[j] < plan.offset[i] + lifetimes[i].size;
        EXPECT_FALSE(together && overlap);
      }
    }
    EXPECT_LE(plan.size, total);
  }
}

std::string ErrorOf(const std::string& spec) {
  try {
    NewGraph(ModelSpec(spec), {1, 1, 4, 4}, 3);
  } catch (const SpecError& error) {
    return error.what();
  }
  return "";
}

TEST(Graph, ErrorsSayWhereWhatAndWhatToDo) {
  using testing::HasSubstr;
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
}

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
              ImportSource(tensors, copy, SeedSource(copy, 1, Parallel(1))));
  const auto values = model.parameters().values();
  EXPECT_THAT(std::vector<float>(values.begin(), values.end()),
              testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2));
  std::vector<int64_t> positions(8);
  model.parameters().tensors()[0].Positions(0, positions);
  EXPECT_THAT(positions, testing::ElementsAre(0, 2, 3, 6, 7, 8, 9, 10));
}

TEST(Import, MissingStrayAndMisshapenTensorsAreErrors) {
  Graph graph = NewGraph(ModelSpec(kOneLayer), {4}, 3);
  ImportedTensors tensors = Import(1);
  tensors.erase("fc1.bias");
  EXPECT_THROW(UseImportedMasks(tensors, &graph), SpecError);
  tensors = Import(1);
  tensors["fc9.bias"] = {{1}, {0}};
  EXPECT_THROW(UseImportedMasks(tensors, &graph), SpecError);
  tensors = Import(1);
  tensors["fc1.weight"].shape = {4, 3};
  EXPECT_THROW(UseImportedMasks(tensors, &graph), SpecError);
}

}  // namespace
}  // namespace lumen::nn
