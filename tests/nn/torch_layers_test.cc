// SPDX-License-Identifier: Apache-2.0
// Layers against PyTorch: torch_layers.py writes the cases.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "layer_bench.h"

namespace lumen::nn {
namespace {

constexpr int kNoTorch = 77;

std::vector<float> Floats(const Json& array) {
  std::vector<float> values;
  for (const Json& value : array.items()) {
    values.push_back(static_cast<float>(value.number()));
  }
  return values;
}

void FromSamples(const std::vector<float>& values, OwnedPanel* panel) {
  const int64_t elements = panel->panel.shape.elements();
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    panel->At(at / elements, at % elements) = values[i];
  }
}

std::vector<float> ToSamples(OwnedPanel* panel) {
  std::vector<float> values;
  for (int64_t s = 0; s < panel->panel.layout.samples; ++s) {
    for (int64_t e = 0; e < panel->panel.shape.elements(); ++e) {
      values.push_back(panel->At(s, e));
    }
  }
  return values;
}

// Near for sums of fp32: relative to the largest.
void ExpectNear(const std::vector<float>& actual, const Json& expected,
                const std::string& what) {
  const std::vector<float> wanted = Floats(expected);
  ASSERT_EQ(actual.size(), wanted.size()) << what;
  double largest = 1;
  for (float value : wanted) {
    largest = std::max(largest, std::abs(double{value}));
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(actual[i], wanted[i], 2e-6 * largest) << what << " " << i;
  }
}

void Check(const Json& test) {
  const Json& shape = test.at("shape");
  const Shape input = {.channels = shape.items()[0].integer(),
                       .height = shape.items()[1].integer(),
                       .width = shape.items()[2].integer()};
  LayerBench bench(
      NewLayer(test.at("type").text(), {test.at("keys").text(), {input}}),
      {input}, test.at("samples").integer());
  const auto& parameters = test.at("parameters").items();
  ASSERT_EQ(bench.values.size(), parameters.size());
  for (size_t p = 0; p < parameters.size(); ++p) {
    bench.values[p] = Floats(parameters[p]);
    ASSERT_EQ(bench.values[p].size(), bench.gradients[p].size());
  }
  bench.statistics = Floats(test.at("statistics"));
  FromSamples(Floats(test.at("x")), bench.x[0].get());
  FromSamples(Floats(test.at("dy")), bench.dy.get());
  const bool training = test.at("training").boolean();
  bench.Forward(training ? PassKind::kTraining : PassKind::kEvaluation);
  ExpectNear(ToSamples(bench.y.get()), test.at("y"), "y");
  if (!training) return;
  ExpectNear(bench.next_statistics, test.at("next_statistics"), "statistics");
  bench.Backward();
  ExpectNear(ToSamples(bench.dx[0].get()), test.at("dx"), "dx");
  for (size_t p = 0; p < parameters.size(); ++p) {
    ExpectNear(bench.gradients[p], test.at("gradients").items()[p],
               "gradient " + std::to_string(p));
  }
}

TEST(TorchLayers, ValuesAndGradientsAreThoseOfPyTorch) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) /
      ("torch_layers_" + std::to_string(getpid()) + ".json");
  const std::string command =
      std::string(LUMEN_PYTHON " " LUMEN_SOURCE "/tests/nn/torch_layers.py ") +
      path.string();
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status)) << command;
  if (WEXITSTATUS(status) == kNoTorch) {
    GTEST_SKIP() << LUMEN_PYTHON << " has no PyTorch";
  }
  ASSERT_EQ(WEXITSTATUS(status), 0) << command;
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  std::filesystem::remove(path);
  const Json cases = Json::Parse(text, path.string());
  EXPECT_GT(cases.items().size(), 25u);
  for (const Json& test : cases.items()) {
    SCOPED_TRACE(test.at("type").text() + " " + test.at("keys").text() +
                 (test.at("training").boolean() ? "" : ", evaluation"));
    Check(test);
  }
}

}  // namespace
}  // namespace lumen::nn
