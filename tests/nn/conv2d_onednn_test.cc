// SPDX-License-Identifier: Apache-2.0
// Convolution layers against an independent implementation.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "layer_bench.h"
#include "lumen/sparse/onednn.h"

namespace lumen::nn {
namespace {

struct Case {
  std::string keys;
  Shape input;
};

class Conv2dOracle : public ::testing::TestWithParam<Case> {};

Case Of(const std::string& keys, int64_t channels, int64_t height,
        int64_t width) {
  return {keys, {.channels = channels, .height = height, .width = width}};
}

INSTANTIATE_TEST_SUITE_P(
    Windows, Conv2dOracle,
    ::testing::Values(
        Of(R"("channels": 24, "window": [3], "padding": [1])", 16, 14, 14),
        Of(R"("channels": 24, "window": [3], "padding": [1])", 5, 7, 7),
        Of(R"("channels": 3, "window": [3], "padding": [1])", 2, 3, 70),
        Of(R"("channels": 33, "window": [1])", 17, 9, 9),
        Of(R"("channels": 8, "window": [1], "stride": [2])", 16, 9, 8),
        Of(R"("channels": 16, "window": [7], "stride": [2], "padding": [3])", 3,
           20, 20),
        Of(R"("channels": 16, "window": [3], "stride": [2], "padding": [1])", 8,
           15, 16),
        Of(R"("channels": 6, "window": [3, 2], "stride": [1, 3],
              "padding": [0, 1])",
           4, 8, 11),
        Of(R"("channels": 8, "window": [3], "dilation": [2], "padding": [2])",
           8, 10, 10),
        // Maps that do not fit into scratch memory at once.
        Of(R"("channels": 4, "window": [3], "padding": [1])", 64, 40, 70),
        Of(R"("channels": 4, "window": [2], "stride": [3], "padding": [1])", 64,
           60, 70),
        Of(R"("channels": 12, "window": [3], "padding": [1], "groups": 3)", 6,
           8, 8),
        Of(R"("channels": 8, "window": [3], "padding": [1], "groups": 8)", 8,
           10, 10)));

// [sample][element] of a panel.
std::vector<float> SampleRows(OwnedPanel* panel) {
  std::vector<float> rows;
  for (int64_t s = 0; s < panel->panel.layout.samples; ++s) {
    for (int64_t e = 0; e < panel->panel.shape.elements(); ++e) {
      rows.push_back(panel->At(s, e));
    }
  }
  return rows;
}

// The order of additions differs; inputs are below 1.25.
void ExpectNear(const std::vector<float>& expected,
                const std::vector<float>& actual, int64_t terms) {
  ASSERT_EQ(expected.size(), actual.size());
  const double tolerance = 4e-7 * static_cast<double>(terms + 4);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(expected[i], actual[i], tolerance) << i;
  }
}

// Dense, then sparse with zeros for the missing weights.
TEST_P(Conv2dOracle, LayerAgreesWithOneDnn) {
  const auto& [keys, input] = GetParam();
  const int64_t images = 20;  // two tiles, the second not full
  for (double density : {1.0, 0.3}) {
    LayerBench bench(NewLayer("conv2d", {keys, {input}}), {input}, images,
                     density);
    bench.Forward();
    bench.Backward();
    const sparse::Addressing at = bench.layer->addressing(kVectorLanes);
    const int64_t all = at.rows() * at.columns();
    std::vector<int64_t> positions(bench.values[0].size());
    if (bench.rows[0]) {
      bench.rows[0]->Positions(0, positions);
    } else {
      std::iota(positions.begin(), positions.end(), 0);
    }
    std::vector<float> weight(static_cast<size_t>(all));
    for (size_t p = 0; p < positions.size(); ++p) {
      weight[static_cast<size_t>(positions[p])] = bench.values[0][p];
    }
    sparse::OneDnnConv theirs(images, input, at.rows(), at.window());
    theirs.SetX(SampleRows(bench.x[0].get()).data());
    theirs.SetDy(SampleRows(bench.dy.get()).data());
    theirs.SetWeight(weight.data());
    theirs.Forward();
    theirs.BackwardData();
    theirs.BackwardWeights();

    std::vector<float> y = SampleRows(bench.y.get());
    std::vector<float> dx = SampleRows(bench.dx[0].get());
    std::vector<float> their_y(y.size()), their_dx(dx.size()), dw(weight);
    theirs.GetY(their_y.data());
    theirs.GetDx(their_dx.data());
    theirs.GetDw(dw.data());
    ExpectNear(their_y, y, at.columns());
    ExpectNear(their_dx, dx,
               at.rows() * at.window().size[0] * at.window().size[1]);
    std::vector<float> of_nonzeros;
    for (int64_t p : positions) {
      of_nonzeros.push_back(dw[static_cast<size_t>(p)]);
    }
    ExpectNear(of_nonzeros, bench.gradients[0],
               images * at.output().height * at.output().width);
  }
}

}  // namespace
}  // namespace lumen::nn
