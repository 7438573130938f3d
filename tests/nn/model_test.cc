// SPDX-License-Identifier: Apache-2.0
#include "lumen/nn/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "network.h"

namespace lumen::nn {
namespace {

constexpr char kSparseMlp[] = R"({
  "preset": {"type": "mlp", "units": [40, 24], "dropout": 0.2},
  "sparsity": {"method": "static", "density": 0.3, "exclude": ["fc3"]},
  "loss": {"type": "softmax_cross_entropy", "label_smoothing": 0.1}})";

// Branches that are added and joined, and each kind of layer on maps.
constexpr char kSparseConvolutions[] = R"({
  "layers": [
    {"type": "conv2d", "channels": 4, "window": [3], "padding": [1],
     "name": "stem"},
    {"type": "batch_norm"}, {"type": "relu"},
    {"type": "max_pool", "window": [3], "stride": [2], "padding": [1],
     "name": "pool"},
    {"type": "block", "name": "block", "repeat": 2, "layers": [
      {"type": "conv2d", "channels": 4, "window": [3], "padding": [1]},
      {"type": "group_norm", "groups": 2}, {"type": "relu"},
      {"type": "conv2d", "channels": 4, "window": [1]},
      {"type": "batch_norm", "name": "bn"},
      {"type": "add", "from": ["bn", "input"]}, {"type": "relu"}]},
    {"type": "avg_pool", "window": [2], "stride": [1], "name": "mean"},
    {"type": "conv2d", "channels": 3, "window": [2], "bias": true,
     "from": ["pool"], "name": "side"},
    {"type": "concat", "from": ["mean", "side"]},
    {"type": "global_pool"}, {"type": "dropout", "rate": 0.2},
    {"type": "linear", "units": 5}],
  "sparsity": {"method": "static", "density": 0.4}})";

void ExpectSameBitsEverywhere(const char* spec, const Shape& input,
                              int64_t batch) {
  Network oracle(spec, input, 5, batch, NewCompute(sparse::Isa::kScalar, 1));
  const LossSums expected = oracle.ForwardBackward();
  for (sparse::Isa isa : sparse::AvailableIsas()) {
    for (int threads : {1, 2, 3}) {
      Network network(spec, input, 5, batch, NewCompute(isa, threads));
      const LossSums sums = network.ForwardBackward();
      EXPECT_EQ(sums.loss, expected.loss);
      EXPECT_EQ(sums.metrics, expected.metrics);
      EXPECT_EQ(sums.samples, batch);
      EXPECT_EQ(network.next_statistics, oracle.next_statistics);
      ASSERT_EQ(std::memcmp(network.gradient.data(), oracle.gradient.data(),
                            4 * oracle.gradient.size()),
                0)
          << IsaName(isa) << ", " << threads << " threads, " << batch;
    }
  }
}

TEST(Model, BitsDoNotDependOnIsaOrThreads) {
  for (int64_t batch : {100, 129, 200}) {
    ExpectSameBitsEverywhere(kSparseMlp, {3, 1, 4, 5}, batch);
  }
  for (int64_t batch = 1; batch <= 17; ++batch) {
    ExpectSameBitsEverywhere(kSparseMlp, {3, 1, 4, 5}, batch);
  }
  for (int64_t batch : {1, 5, 16, 17, 64}) {
    ExpectSameBitsEverywhere(kSparseConvolutions, {3, 1, 7, 6}, batch);
  }
}

TEST(Model, BitsDoNotDependOnTheWidthOfTiles) {
  for (int64_t batch : {1, 16, 40, 129, 200, 300}) {
    Network wide(kSparseMlp, {3, 1, 4, 5}, 5, batch,
                 NewCompute(sparse::DetectIsa(), 1));
    const LossSums expected = wide.ForwardBackward();
    for (sparse::Isa isa : sparse::AvailableIsas()) {
      Network narrow(kSparseMlp, {3, 1, 4, 5}, 5,
                     LaneLayout::For(batch, kVectorLanes), NewCompute(isa, 2));
      EXPECT_EQ(narrow.ForwardBackward().loss, expected.loss);
      EXPECT_EQ(std::memcmp(narrow.gradient.data(), wide.gradient.data(),
                            4 * wide.gradient.size()),
                0)
          << IsaName(isa) << ", " << batch;
    }
  }
}

TEST(Model, AShardWithoutSamplesHasZeroGradients) {
  Network network(kSparseMlp, {20}, 5, 0, NewCompute(sparse::DetectIsa(), 2));
  std::fill(network.gradient.begin(), network.gradient.end(), 7.0f);
  const LossSums sums = network.ForwardBackward();
  EXPECT_EQ(sums.samples, 0);
  EXPECT_EQ(sums.loss, 0);
  EXPECT_THAT(network.gradient, testing::Each(0.0f));
  EXPECT_THAT(network.done, testing::ElementsAre(4, 2, 0));
}

TEST(Model, TensorsBecomeFinalFromTheLastToTheFirst) {
  Network network(kSparseMlp, {20}, 5, 10, NewCompute(sparse::DetectIsa(), 1));
  network.ForwardBackward();
  EXPECT_THAT(network.done, testing::ElementsAre(4, 2, 0));
}

TEST(Model, MaskedSamplesChangeNoGradient) {
  struct Case {
    const char* spec;
    Shape input;
  };
  for (const Case& test :
       {Case{kSparseMlp, {20}}, Case{kSparseConvolutions, {3, 1, 7, 6}}}) {
    const int64_t elements = test.input.elements();
    Network few(test.spec, test.input, 5, 9,
                NewCompute(sparse::DetectIsa(), 1));
    few.ForwardBackward();
    Network more(test.spec, test.input, 5, 12,
                 NewCompute(sparse::DetectIsa(), 1));
    for (int64_t i = 0; i < 12; ++i) {
      for (int64_t e = 0; e < elements; ++e) {
        more.At(i, e) = i < 9 ? few.At(i, e) : 0;
      }
      more.labels[i] = i < 9 ? few.labels[i] : -1;
    }
    more.ForwardBackward();
    EXPECT_EQ(more.gradient, few.gradient);
    EXPECT_EQ(more.next_statistics, few.next_statistics);
  }
}

TEST(Model, AShardWithoutSamplesHasZeroGradientsOfConvolutionsToo) {
  Network network(kSparseConvolutions, {3, 1, 7, 6}, 5, 0,
                  NewCompute(sparse::DetectIsa(), 2));
  std::fill(network.gradient.begin(), network.gradient.end(), 7.0f);
  network.ForwardBackward();
  EXPECT_THAT(network.gradient, testing::Each(0.0f));
  EXPECT_EQ(network.next_statistics, network.statistics);
}

TEST(Model, EvaluationDrawsNothingAndLeavesTheInputAlone) {
  Network network(kSparseMlp, {3, 1, 4, 5}, 5, 33,
                  NewCompute(sparse::DetectIsa(), 1));
  const std::vector<float> before = network.storage;
  const double first = network.Forward(PassKind::kEvaluation).loss;
  network.epoch = 3;
  EXPECT_EQ(network.Forward(PassKind::kEvaluation).loss, first);
  network.ForwardBackward();
  EXPECT_EQ(network.storage, before);
}

TEST(Model, TheSourceIsAskedTensorByTensor) {
  Graph graph = NewGraph(ModelSpec(kSparseMlp), {20}, 5);
  Graph tensors;
  tensors.declarations = graph.declarations;
  const ModelSource seed = SeedSource(tensors, 1, Parallel(1));
  std::vector<std::string> asked;
  const ModelSource source = {
      .pattern =
          [&](int tensor) {
            asked.push_back("pattern " + std::to_string(tensor));
            return seed.pattern(tensor);
          },
      .values =
          [&](int tensor, const Parameter& parameter, std::span<float> values) {
            asked.push_back("values " + std::to_string(tensor));
            EXPECT_EQ(parameter.rows != nullptr, parameter.decl.is_sparse());
            EXPECT_EQ(std::ssize(values), parameter.size());
          }};
  const Model model(std::move(graph), LaneLayout::For(4), 1,
                    NewCompute(sparse::DetectIsa(), 1), source);
  // The biases and the excluded fc3 have no mask.
  EXPECT_THAT(asked, testing::ElementsAre("pattern 0", "values 0", "values 1",
                                          "pattern 2", "values 2", "values 3",
                                          "values 4", "values 5"));
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

}  // namespace
}  // namespace lumen::nn
