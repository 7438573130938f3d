// SPDX-License-Identifier: Apache-2.0
// One image in strips side by side gives what the whole image gives, but for
// rounding: sums are taken in another order.
#include <gtest/gtest.h>

#include <cmath>

#include "lumen/core/error.h"
#include "network.h"

namespace lumen::nn {
namespace {

constexpr Shape kImage = {.channels = 3, .height = 21, .width = 320};
constexpr int64_t kClasses = 4;
constexpr char kConvolutions[] = R"([
  {"type": "conv2d", "channels": 6, "window": [7], "stride": [2],
   "padding": [3], "name": "stem"},
  {"type": "batch_norm"}, {"type": "relu"},
  {"type": "max_pool", "window": [3], "stride": [2], "padding": [1]},
  {"type": "block", "repeat": 2, "name": "block", "layers": [
    {"type": "conv2d", "channels": 6, "window": [3], "padding": [1]},
    {"type": "batch_norm"}, {"type": "relu"},
    {"type": "conv2d", "channels": 6, "window": [3], "padding": [1],
     "bias": true, "name": "second"},
    {"type": "add", "from": ["second", "input"]}, {"type": "relu"}]},
  {"type": "conv2d", "channels": 5, "window": [3], "stride": [2],
   "padding": [1], "bias": true},
  {"type": "conv2d", "channels": 8, "window": [5], "padding": [4],
   "dilation": [2]},
  {"type": "conv2d", "channels": 8, "window": [1], "bias": true},
  {"type": "max_pool", "window": [2]},
  {"type": "global_pool"},
  {"type": "linear", "units": 4}])";

std::string Spec(int strips, double density) {
  return std::string("{\"layers\": ") + kConvolutions +
         ", \"strips\": " + std::to_string(strips) +
         (density < 1 ? R"(, "sparsity": {"method": "static", "density": 0.3})"
                      : "") +
         "}";
}

// The same image in every layout.
std::unique_ptr<Network> NewNetwork(int strips, double density, int threads) {
  auto network = std::make_unique<Network>(
      Spec(strips, density), kImage, kClasses, int64_t{1},
      NewCompute(sparse::DetectIsa(), threads));
  const int64_t width = kImage.width / strips;
  for (int64_t row = 0; row < kImage.channels * kImage.height; ++row) {
    for (int64_t column = 0; column < kImage.width; ++column) {
      const int64_t lane = column / width;
      network->storage[static_cast<size_t>((row * width + column % width) * 16 +
                                           lane)] =
          std::sin(static_cast<float>(row * 31 + column * 7));
    }
  }
  return network;
}

void ExpectNear(const std::vector<float>& expected,
                const std::vector<float>& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  float largest = 0;
  for (float value : expected) largest = std::max(largest, std::abs(value));
  EXPECT_GT(largest, 0);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(expected[i], actual[i], 2e-5f * largest) << i;
  }
}

TEST(Strips, GiveWhatTheWholeImageGives) {
  for (double density : {1.0, 0.3}) {
    const auto whole = NewNetwork(1, density, 1);
    const LossSums expected = whole->ForwardBackward();
    for (int strips : {2, 5}) {
      SCOPED_TRACE(std::to_string(strips) + " strips");
      const auto cut = NewNetwork(strips, density, 1);
      EXPECT_EQ(cut->layout.strips, strips);
      EXPECT_LT(cut->model->arena_bytes(), whole->model->arena_bytes());
      EXPECT_NEAR(cut->ForwardBackward().loss, expected.loss, 1e-5);
      ExpectNear(whole->gradient, cut->gradient);
      ExpectNear(whole->next_statistics, cut->next_statistics);
      EXPECT_NEAR(cut->Forward(PassKind::kEvaluation).loss,
                  whole->Forward(PassKind::kEvaluation).loss, 1e-5);
      // Work is counted for the whole image.
      for (int i = 0; i < static_cast<int>(cut->model->graph().nodes.size());
           ++i) {
        EXPECT_EQ(cut->model->graph().MultiplyAdds(i),
                  whole->model->graph().MultiplyAdds(i));
        EXPECT_EQ(cut->model->graph().OutputShape(i),
                  whole->model->graph().OutputShape(i));
      }
    }
  }
}

TEST(Strips, ThreadsAndIsaChangeNoBits) {
  const auto one = NewNetwork(5, 0.3, 1);
  const double loss = one->ForwardBackward().loss;
  const auto two = NewNetwork(5, 0.3, 2);
  EXPECT_EQ(two->ForwardBackward().loss, loss);
  EXPECT_EQ(two->gradient, one->gradient);
  for (sparse::Isa isa : sparse::AvailableIsas()) {
    const auto other = NewNetwork(5, 0.3, 1);
    Network scalar(Spec(5, 0.3), kImage, kClasses, int64_t{1},
                   NewCompute(isa, 1));
    scalar.storage = other->storage;
    scalar.x.data = scalar.storage.data();
    EXPECT_EQ(scalar.ForwardBackward().loss, loss);
    EXPECT_EQ(scalar.gradient, one->gradient);
  }
}

std::string ErrorOf(const std::string& layers, const Shape& image, int strips,
                    int64_t batch = 1) {
  try {
    const Graph graph =
        NewGraph(ModelSpec("{\"strips\": " + std::to_string(strips) +
                           ", \"layers\": [" + layers + "]}"),
                 image, kClasses);
    LayoutFor(graph, batch);
  } catch (const SpecError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Strips, RefuseWhatDoesNotFit) {
  const Shape image = {.channels = 3, .height = 21, .width = 80};
  const std::string end = R"({"type": "global_pool"},
                             {"type": "linear", "units": 4})";
  const std::string conv = R"({"type": "conv2d", "channels": 4, "window": [3],
                               "stride": [2], "padding": [1]}, )";
  EXPECT_EQ(ErrorOf(conv + end, image, 5), "no error");
  EXPECT_NE(ErrorOf(conv + end, image, 7).find("whose width it divides"),
            std::string::npos);
  EXPECT_NE(ErrorOf(conv + end, image, 5, 2).find("one sample per shard"),
            std::string::npos);
  // 5 columns are no multiple of the stride.
  EXPECT_NE(ErrorOf(conv + end, image, 16).find("cannot work on 16 strips"),
            std::string::npos);
  EXPECT_NE(
      ErrorOf(R"({"type": "conv2d", "channels": 4, "window": [3]}, )" + end,
              image, 5)
          .find("conv2d0"),
      std::string::npos);
  EXPECT_NE(ErrorOf(R"({"type": "flatten"}, {"type": "linear", "units": 4})",
                    image, 5)
                .find("flatten"),
            std::string::npos);
}

}  // namespace
}  // namespace lumen::nn
