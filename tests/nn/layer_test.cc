// SPDX-License-Identifier: Apache-2.0
// Every row of the layer and loss tables against numeric gradients.
#include "lumen/nn/layer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "network.h"

namespace lumen::nn {
namespace {

// A network around each layer type; a type without one fails the test.
const std::map<std::string, std::string> kNetworks = {
    {"linear", R"([{"type": "linear", "units": 4}])"},
    {"relu", R"([{"type": "linear", "units": 9}, {"type": "relu"},
                 {"type": "linear", "units": 4}])"},
    {"dropout", R"([{"type": "linear", "units": 9},
                    {"type": "dropout", "rate": 0.4},
                    {"type": "linear", "units": 4}])"},
    {"flatten", R"([{"type": "flatten"}, {"type": "linear", "units": 4}])"},
};

void ExpectNumericGradient(Network* network) {
  network->ForwardBackward();
  const std::vector<float> gradient = network->gradient;
  const auto values = network->model->parameters().values();
  // The arena keeps outputs apart from gradients that are still needed, and the
  // mask of a dropout is the same in each of these passes.
  for (size_t i = 0; i < values.size(); ++i) {
    const float old = values[i];
    const float step = 4e-3f;
    values[i] = old + step;
    const double above = network->Forward().loss;
    values[i] = old - step;
    const double below = network->Forward().loss;
    values[i] = old;
    const double numeric = (above - below) / (2 * double{step});
    EXPECT_NEAR(gradient[i], numeric, 5e-3 * std::abs(numeric) + 2e-2)
        << "parameter " << i;
  }
}

TEST(LayerTable, EveryRowPassesTheNumericGradientSparseAndDense) {
  for (const LayerRow& row : LayerTable()) {
    const std::string type(row.type);
    ASSERT_TRUE(kNetworks.contains(type)) << "no gradient check for " << type;
    const Shape input = type == "flatten" ? Shape{2, 1, 2, 3} : Shape{12};
    for (
        const char* sparsity :
        {R"({"method": "dense"})",
         R"({"method": "static", "density": 0.5, "distribution": "uniform"})"}) {
      // Many samples would bring kinks of relu into the step.
      for (int64_t batch : {1, 5, type == "relu" ? 9 : 150}) {
        Network network("{\"layers\": " + kNetworks.at(type) +
                            ", \"sparsity\": " + sparsity + "}",
                        input, 4, batch, NewCompute(sparse::DetectIsa(), 1));
        SCOPED_TRACE(type + " " + sparsity);
        ExpectNumericGradient(&network);
      }
    }
  }
}

TEST(LossTable, EveryRowPassesTheNumericGradient) {
  for (const LossRow& row : LossTable()) {
    ASSERT_EQ(row.type, "softmax_cross_entropy") << "no gradient check for it";
  }
  Network network(
      R"({"layers": [{"type": "linear", "units": 4}],
          "loss": {"type": "softmax_cross_entropy", "label_smoothing": 0.2}})",
      {6}, 4, 20, NewCompute(sparse::DetectIsa(), 1));
  ExpectNumericGradient(&network);
}

TEST(Loss, ValuesAreThoseOfTheFormula) {
  const sparse::Compute compute = NewCompute(sparse::DetectIsa(), 1);
  const double smoothing = 0.1;
  const auto loss = NewLoss(Json::Parse(R"({"type": "softmax_cross_entropy",
                                            "label_smoothing": 0.1})",
                                        "test"),
                            3);
  std::vector<float> z(3 * 16, 0.0f);
  const Panel panel{z.data(), {3}, LaneLayout::For(3)};
  const float scores[3][3] = {{1, 2, 3}, {0, 0, 0}, {-50, 60, 1}};
  for (int i = 0; i < 3; ++i) {
    for (int c = 0; c < 3; ++c) z[c * 16 + i] = scores[i][c];
  }
  const std::vector<int32_t> labels = {2, -1, 0};  // the second is masked
  const LossSums sums =
      loss->Compute(compute, panel, labels, Loss::kWithGradient, 0.5f);
  EXPECT_EQ(sums.samples, 2);
  double expected = 0;
  for (int i : {0, 2}) {
    double total = 0;
    for (float s : scores[i]) total += std::exp(double{s});
    for (int c = 0; c < 3; ++c) {
      const double target =
          smoothing / 3 + (labels[i] == c ? 1 - smoothing : 0);
      expected -= target * (scores[i][c] - std::log(total));
      EXPECT_NEAR(z[c * 16 + i],
                  0.5 * (std::exp(scores[i][c]) / total - target), 1e-6);
    }
  }
  EXPECT_NEAR(sums.loss, expected, 1e-5);
  EXPECT_EQ(sums.metrics.at(0), 1);  // the first is right, the third is not
  for (int l = 0; l < 16; ++l) {
    if (l == 0 || l == 2) continue;
    for (int c = 0; c < 3; ++c) EXPECT_EQ(z[c * 16 + l], 0) << l;
  }
}

TEST(Dropout, KeepsItsShareAndDependsOnEpochAndSample) {
  const std::string spec = R"({"layers": [{"type": "dropout", "rate": 0.25},
                                          {"type": "linear", "units": 2}]})";
  Network network(spec, {512}, 2, 64, NewCompute(sparse::DetectIsa(), 2));
  // The first output is the sum of the inputs: ones, so the share that is kept.
  auto values = network.model->parameters().values();
  std::fill(values.begin(), values.end(), 0.0f);
  std::fill_n(values.begin(), 512, 1.0f);
  std::fill(network.storage.begin(), network.storage.end(), 1.0f);
  const auto kept = [&] {
    std::vector<float> sums;
    const Panel y =
        network.model->Forward(network.x, network.Pass(PassKind::kTraining));
    for (int64_t i = 0; i < 64; ++i) sums.push_back(y.data[i]);
    return sums;
  };
  const std::vector<float> first = kept();
  double mean = 0;
  for (float sum : first) mean += sum / 64 / 512;
  EXPECT_NEAR(mean, 1.0, 0.02);  // inverted: the expectation stays
  EXPECT_EQ(kept(), first);
  network.epoch = 1;
  EXPECT_NE(kept(), first);
  network.epoch = 0;
  // A sample has its mask wherever it lies.
  std::swap(network.samples[3], network.samples[60]);
  std::vector<float> swapped = kept();
  EXPECT_EQ(swapped[3], first[60]);
  EXPECT_EQ(swapped[60], first[3]);
  const Panel y =
      network.model->Forward(network.x, network.Pass(PassKind::kEvaluation));
  for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(y.data[i], 512);
}

}  // namespace
}  // namespace lumen::nn
