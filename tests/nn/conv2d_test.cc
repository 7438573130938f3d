// SPDX-License-Identifier: Apache-2.0
// Convolutions of maps that are too large to be copied at once, against plain
// loops in double; and what is no convolution.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "layer_bench.h"
#include "lumen/core/error.h"

namespace lumen::nn {
namespace {

Shape Map(int64_t channels, int64_t height, int64_t width) {
  return {.channels = channels, .height = height, .width = width};
}

struct Geometry {
  Shape input;
  int64_t outputs;
  int64_t window;
  int64_t stride;
  int64_t padding;

  std::string Keys() const {
    return R"("channels": )" + std::to_string(outputs) + R"(, "window": [)" +
           std::to_string(window) + R"(], "stride": [)" +
           std::to_string(stride) + R"(], "padding": [)" +
           std::to_string(padding) + "]";
  }
};

// Weights by position, zero where there is none.
std::vector<double> DenseWeights(const LayerBench& bench) {
  const auto& values = bench.values[0];
  if (!bench.rows[0]) return {values.begin(), values.end()};
  std::vector<int64_t> positions(values.size());
  bench.rows[0]->Positions(0, positions);
  std::vector<double> weights(
      static_cast<size_t>(bench.rows[0]->rows() * bench.rows[0]->columns()));
  for (size_t i = 0; i < values.size(); ++i) {
    weights[static_cast<size_t>(positions[i])] = values[i];
  }
  return weights;
}

struct Expected {
  std::vector<double> y, dx, dw;
};

// Of all samples in turn, sample-major; dw by position.
Expected PlainLoops(LayerBench* bench, const Geometry& g) {
  const std::vector<double> weights = DenseWeights(*bench);
  const Shape in = g.input, out = bench->layer->output_shape();
  const auto at = [](const Shape& s, int64_t sample, int64_t c, int64_t h,
                     int64_t w) {
    return static_cast<size_t>(
        ((sample * s.channels + c) * s.height + h) * s.width + w);
  };
  const int64_t samples = bench->layout.samples;
  Expected e{std::vector<double>(static_cast<size_t>(samples * out.elements())),
             std::vector<double>(static_cast<size_t>(samples * in.elements())),
             std::vector<double>(weights.size())};
  for (int64_t s = 0; s < samples; ++s) {
    for (int64_t n = 0; n < out.channels; ++n) {
      for (int64_t h = 0; h < out.height; ++h) {
        for (int64_t w = 0; w < out.width; ++w) {
          const size_t y = at(out, s, n, h, w);
          const double dy =
              bench->dy->At(s, (n * out.height + h) * out.width + w);
          for (int64_t k = 0; k < in.channels * g.window * g.window; ++k) {
            const int64_t c = k / (g.window * g.window);
            const int64_t i =
                h * g.stride - g.padding + k / g.window % g.window;
            const int64_t j = w * g.stride - g.padding + k % g.window;
            if (i < 0 || j < 0 || i >= in.height || j >= in.width) continue;
            const auto p =
                static_cast<size_t>(n * in.channels * g.window * g.window + k);
            const double x =
                bench->x[0]->At(s, (c * in.height + i) * in.width + j);
            e.y[y] += weights[p] * x;
            e.dx[at(in, s, c, i, j)] += weights[p] * dy;
            e.dw[p] += x * dy;
          }
        }
      }
    }
  }
  return e;
}

void ExpectNear(OwnedPanel* panel, const std::vector<double>& expected) {
  const int64_t elements = panel->panel.shape.elements();
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    ASSERT_NEAR(panel->At(at / elements, at % elements), expected[i], 5e-4)
        << "element " << i;
  }
}

TEST(Conv2d, MapsAreCutIntoBandsWithoutChangingTheSum) {
  // 4 MiB hold 16 rows or fewer of each; the last is one row too many.
  for (const Geometry& g : {Geometry{Map(64, 37, 62), 3, 3, 1, 1},
                            Geometry{Map(64, 41, 61), 3, 3, 2, 1},
                            Geometry{Map(128, 9, 126), 2, 5, 1, 2},
                            Geometry{Map(3, 37, 60), 70, 3, 1, 1},
                            Geometry{Map(64, 15, 62), 2, 3, 1, 1}}) {
    for (double density : {1.0, 0.3}) {
      SCOPED_TRACE(g.Keys() + " density " + std::to_string(density));
      LayerBench bench(NewLayer("conv2d", {g.Keys(), {g.input}}), {g.input}, 2,
                       density);
      const Expected expected = PlainLoops(&bench, g);
      bench.Forward();
      bench.Backward();
      ExpectNear(bench.y.get(), expected.y);
      ExpectNear(bench.dx[0].get(), expected.dx);
      std::vector<int64_t> positions(bench.values[0].size());
      for (size_t i = 0; i < positions.size(); ++i) {
        positions[i] = static_cast<int64_t>(i);
      }
      if (bench.rows[0]) bench.rows[0]->Positions(0, positions);
      for (size_t i = 0; i < positions.size(); ++i) {
        ASSERT_NEAR(bench.gradients[0][i],
                    expected.dw[static_cast<size_t>(positions[i])], 2e-3);
      }
      // Added, in bands too.
      const std::vector<float> dx = bench.dx[0]->data;
      bench.Backward(true);
      for (size_t i = 0; i < dx.size(); ++i) {
        ASSERT_EQ(bench.dx[0]->data[i], 2 * dx[i]);
      }
    }
  }
}

TEST(Conv2d, ErrorsSayWhereWhatAndWhatWasExpected) {
  const auto error_of = [](const std::string& keys, const Shape& input) {
    try {
      NewLayer("conv2d", {keys, {input}});
    } catch (const SpecError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string where = "test.json:2: conv2d \"it\": ";
  EXPECT_EQ(
      error_of(R"("channels": 4, "window": [3], "groups": 2)", Map(3, 5, 5)),
      where +
          "2 groups of 3 inputs and 4 outputs; expected groups to "
          "divide both");
  EXPECT_EQ(error_of(R"("channels": 4, "window": [3], "dilation": [2])",
                     Map(3, 4, 5)),
            where +
                "input is 3x4x5 and the window spans 5; expected a window "
                "no larger than input and padding");
  EXPECT_EQ(error_of(R"("channels": 4, "window": [3])",
                     {.depth = 2, .height = 5, .width = 5}),
            where + "input is 1x2x5x5; expected channels, height and width");
  EXPECT_EQ(error_of(R"("channels": 4, "window": [3, 3, 3])", Map(3, 5, 5)),
            where + "window has 3 numbers; expected one, or rows and columns");
  EXPECT_EQ(error_of(R"("channels": 4, "window": [1])", Map(1 << 20, 100, 100)),
            where + "input 1048576x100x100 is too large for 32-bit addresses");
}

}  // namespace
}  // namespace lumen::nn
