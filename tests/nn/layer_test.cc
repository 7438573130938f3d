// SPDX-License-Identifier: Apache-2.0
// Every row of the layer table against numeric gradients.
#include "lumen/nn/layer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "numeric_gradient.h"

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
    {"conv2d", R"([{"type": "conv2d", "channels": 3, "window": [3, 2],
                    "padding": [1]},
                   {"type": "conv2d", "channels": 2, "window": [2],
                    "stride": [2], "bias": true},
                   {"type": "flatten"}, {"type": "linear", "units": 4}])"},
    {"batch_norm", R"([{"type": "conv2d", "channels": 2, "window": [1]},
                       {"type": "batch_norm"}, {"type": "flatten"},
                       {"type": "linear", "units": 4}])"},
    {"add", R"([{"type": "linear", "units": 12, "name": "a"},
                {"type": "add", "from": ["a", "input"]},
                {"type": "linear", "units": 4}])"},
    {"group_norm", R"([{"type": "conv2d", "channels": 4, "window": [1]},
                       {"type": "group_norm", "groups": 2},
                       {"type": "flatten"}, {"type": "linear", "units": 4}])"},
    {"max_pool", R"([{"type": "conv2d", "channels": 2, "window": [1]},
                     {"type": "max_pool", "window": [2], "stride": [1]},
                     {"type": "flatten"}, {"type": "linear", "units": 4}])"},
    {"avg_pool", R"([{"type": "conv2d", "channels": 2, "window": [1]},
                     {"type": "avg_pool", "window": [2], "padding": [1]},
                     {"type": "flatten"}, {"type": "linear", "units": 4}])"},
    {"global_pool", R"([{"type": "conv2d", "channels": 5, "window": [2]},
                        {"type": "global_pool"}, {"type": "flatten"},
                        {"type": "linear", "units": 4}])"},
    {"concat", R"([{"type": "conv2d", "channels": 3, "window": [1]},
                   {"type": "concat", "from": ["conv2d0", "input"]},
                   {"type": "flatten"}, {"type": "linear", "units": 4}])"},
    {"block", R"([{"type": "block", "repeat": 2, "layers": [
                    {"type": "linear", "units": 12, "name": "a"},
                    {"type": "add", "from": ["a", "input"]}]},
                  {"type": "linear", "units": 4}])"},
};

TEST(LayerTable, EveryRowPassesTheNumericGradientSparseAndDense) {
  for (const LayerRow& row : LayerTable()) {
    const std::string type(row.type);
    // Reads sparse rows, no panel: sparse_linear_test.cc checks its gradient.
    if (type == "sparse_linear") continue;
    ASSERT_TRUE(kNetworks.contains(type)) << "no gradient check for " << type;
    const bool has_kinks = type == "relu" || type == "max_pool";
    const bool map = kNetworks.at(type).find("flatten") != std::string::npos;
    const Shape input = map ? Shape{2, 1, 2, 3} : Shape{12};
    for (
        const char* sparsity :
        {R"({"method": "dense"})",
         R"({"method": "static", "density": 0.5, "distribution": "uniform"})"}) {
      // Many samples would bring kinks of relu into the step.
      for (int64_t batch : {1, 5, has_kinks ? 9 : 150}) {
        Network network("{\"layers\": " + kNetworks.at(type) +
                            ", \"sparsity\": " + sparsity + "}",
                        input, 4, batch, NewCompute(sparse::DetectIsa(), 1));
        SCOPED_TRACE(type + " " + sparsity);
        ExpectNumericGradient(&network, has_kinks ? 5e-4f : 4e-3f);
      }
    }
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

// The masks of each element and sample, drawn by layer number `index`.
std::vector<float> DropoutMask(int64_t elements, int64_t samples, double rate,
                               uint64_t seed, uint32_t index) {
  const Json spec = Json::Parse(
      "{\"type\": \"dropout\", \"rate\": " + std::to_string(rate) + "}",
      "test");
  const Shape shape{elements};
  std::unique_ptr<Layer> layer;
  for (const LayerRow& row : LayerTable()) {
    if (row.type == "dropout") layer = row.create(spec, "d", {&shape, 1});
  }
  const LaneLayout layout = LaneLayout::For(samples);
  std::vector<float> x(static_cast<size_t>(elements * layout.total_lanes()), 1);
  std::vector<float> y(x.size());
  const Panel in{x.data(), shape, layout}, out{y.data(), shape, layout};
  std::vector<uint64_t> index_of(static_cast<size_t>(samples));
  for (size_t i = 0; i < index_of.size(); ++i) index_of[i] = 1000 + i;
  const sparse::Compute compute = NewCompute(sparse::DetectIsa(), 2);
  layer->Forward({.compute = &compute,
                  .kind = PassKind::kTraining,
                  .seed = seed,
                  .layer_index = index,
                  .samples = index_of},
                 {&in, 1}, out);
  return y;
}

TEST(Dropout, EveryElementOfEverySampleIsDroppedAtTheRate) {
  const int64_t elements = 300, samples = 128;  // one tile
  const double rate = 0.4;
  const std::vector<float> y = DropoutMask(elements, samples, rate, 1, 0);
  std::vector<double> by_element(elements), by_sample(samples);
  double neighbours = 0;  // of elements that are dropped together
  for (int64_t e = 0; e < elements; ++e) {
    for (int64_t s = 0; s < samples; ++s) {
      const float value = y[static_cast<size_t>(e * samples + s)];
      EXPECT_TRUE(value == 0 || std::abs(value - 1 / 0.6) < 1e-4) << value;
      by_element[static_cast<size_t>(e)] += value == 0;
      by_sample[static_cast<size_t>(s)] += value == 0;
      if (e > 0) {
        neighbours +=
            value == 0 && y[static_cast<size_t>((e - 1) * samples + s)] == 0;
      }
    }
  }
  // Five standard deviations of a binomial.
  const auto slack = [rate](double n) {
    return 5 * std::sqrt(n * rate * (1 - rate));
  };
  for (double dropped : by_element) {
    EXPECT_NEAR(dropped, rate * samples, slack(samples));
  }
  for (double dropped : by_sample) {
    EXPECT_NEAR(dropped, rate * elements, slack(elements));
  }
  const double pairs = (elements - 1) * samples;
  EXPECT_NEAR(neighbours, rate * rate * pairs, slack(pairs));
}

TEST(Dropout, LayersAndSeedsDrawTheirOwnMasks) {
  const std::vector<float> mask = DropoutMask(64, 16, 0.5, 1, 0);
  EXPECT_EQ(DropoutMask(64, 16, 0.5, 1, 0), mask);
  EXPECT_NE(DropoutMask(64, 16, 0.5, 1, 1), mask);
  EXPECT_NE(DropoutMask(64, 16, 0.5, 2, 0), mask);
  EXPECT_EQ(DropoutMask(64, 16, 0, 1, 0), std::vector<float>(64 * 16, 1.0f));
}

}  // namespace
}  // namespace lumen::nn
