// SPDX-License-Identifier: Apache-2.0
// The contract of Layer, of every row of the table by itself: gradients of
// inputs and parameters against central differences, and the memory it may use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "lumen/core/error.h"
#include "lumen/nn/layer.h"
#include "network.h"

namespace lumen::nn {
namespace {

using ::testing::HasSubstr;

struct Case {
  std::string spec;  // without "type"
  Shape input;
};

// A panel with its memory.
struct OwnedPanel {
  OwnedPanel(const Shape& shape, LaneLayout layout, float value = 0.0f)
      : panel{nullptr, shape, layout} {
    data.assign(static_cast<size_t>(panel.size()), value);
    panel.data = data.data();
  }
  OwnedPanel(const OwnedPanel&) = delete;
  OwnedPanel& operator=(const OwnedPanel&) = delete;

  std::vector<float> data;
  Panel panel;
};

// Element e of sample s.
float& At(const Panel& panel, int64_t s, int64_t e) {
  const int64_t lanes = panel.layout.lanes;
  return panel.tile(s / lanes)[e * lanes + s % lanes];
}

// Uniform with |value| in [0.25, 1.25): away from 0, where a ReLU has no
// derivative.
float Value(std::mt19937* random) {
  const uint32_t bits = (*random)();
  const float size = 0.25f + UnitFloat(bits);
  return bits & 1 ? size : -size;
}

// Fills the samples; lanes without one stay 0.
void Fill(uint32_t seed, const Panel& panel) {
  std::mt19937 random(seed);
  for (int64_t s = 0; s < panel.layout.samples; ++s) {
    for (int64_t e = 0; e < panel.shape.elements(); ++e) {
      At(panel, s, e) = Value(&random);
    }
  }
}

// A new row of the table needs cases here.
const std::map<std::string, std::vector<Case>>& Cases() {
  static const std::map<std::string, std::vector<Case>> cases = {
      {"linear",
       {{R"("units": 5)", {.channels = 7}},
        {R"("units": 1)", {.channels = 1}},
        {R"("units": 18, "bias": false)", {.channels = 3}}}},
      {"relu", {{"", {.channels = 6}}, {"", {.channels = 2, .width = 3}}}},
      {"dropout",
       {{R"("rate": 0.5)", {.channels = 9}},
        {R"("rate": 0)", {.channels = 3}},
        {R"("rate": 0.1)", {.channels = 2, .height = 3, .width = 2}}}},
      {"flatten", {{"", {.channels = 2, .height = 2, .width = 3}}}},
  };
  return cases;
}

std::unique_ptr<Layer> NewLayer(const LayerRow& row, const Case& test) {
  const Json spec =
      ModelSpec(R"({"layers": [{"type": ")" + std::string(row.type) + "\"" +
                (test.spec.empty() ? "" : ", ") + test.spec + "}]}");
  return row.create(spec.at("layers").items()[0], "it",
                    std::span(&test.input, 1));
}

// A layer with parameters of its own.
struct Bench {
  std::unique_ptr<Layer> layer;
  sparse::Compute compute = NewCompute(sparse::DetectIsa(), 1);
  LaneLayout layout = LaneLayout::For(20, 16);  // two tiles
  std::vector<uint64_t> samples;
  std::vector<std::vector<float>> values, gradients;
  std::vector<std::unique_ptr<sparse::KernelRows>> rows;

  Bench(std::unique_ptr<Layer> the_layer, double density)
      : layer(std::move(the_layer)) {
    for (uint64_t s = 0; s < 20; ++s) samples.push_back(1000 + 3 * s);
    for (const ParameterDecl& declaration : layer->parameters()) {
      int64_t nnz = declaration.dense_size();
      rows.emplace_back();
      if (declaration.prunable && density < 1) {
        nnz =
            static_cast<int64_t>(std::ceil(static_cast<double>(nnz) * density));
        const int64_t outputs = declaration.shape[0];
        rows.back() = std::make_unique<sparse::KernelRows>(
            sparse::NewRandomPattern(NewRandomKey(1, Stream::kMask, 0), outputs,
                                     declaration.dense_size() / outputs, nnz,
                                     Parallel()),
            layout.lanes, Parallel());
      }
      values.emplace_back();
      std::mt19937 random(77);
      for (int64_t i = 0; i < nnz; ++i) {
        values.back().push_back(Value(&random));
      }
      gradients.emplace_back(values.back().size(),
                             std::numeric_limits<float>::quiet_NaN());
    }
  }

  LayerContext Context(std::vector<BoundParameter>* bound) {
    for (size_t p = 0; p < values.size(); ++p) {
      if (rows[p]) rows[p]->RefreshTransposed(values[p], Parallel());
      bound->push_back({values[p].data(), gradients[p].data(), rows[p].get()});
    }
    return {.compute = &compute,
            .parameters = *bound,
            .kind = PassKind::kTraining,
            .seed = 3,
            .layer_index = 4,
            .epoch = 2,
            .samples = samples};
  }

  void Forward(const Panel& x, const Panel& y) {
    std::vector<BoundParameter> bound;
    const LayerContext context = Context(&bound);
    layer->Forward(context, std::span(&x, 1), y);
  }

  void Backward(const Panel& x, const Panel& y, const Panel& dy,
                const Panel& dx) {
    std::vector<BoundParameter> bound;
    const LayerContext context = Context(&bound);
    layer->Backward(context, std::span(&x, 1), y, dy, std::span(&dx, 1));
  }
};

// sum of dy * y over the samples, in double.
double Objective(Bench* bench, const OwnedPanel& x, const OwnedPanel& dy) {
  OwnedPanel y(bench->layer->output_shape(), bench->layout);
  bench->Forward(x.panel, y.panel);
  double sum = 0;
  for (size_t i = 0; i < y.data.size(); ++i) {
    sum += double{y.data[i]} * dy.data[i];
  }
  return sum;
}

double CentralDifference(Bench* bench, const OwnedPanel& x,
                         const OwnedPanel& dy, float* at) {
  constexpr float kStep = 0x1p-5f;
  const float kept = *at;
  *at = kept + kStep;
  const double above = Objective(bench, x, dy);
  *at = kept - kStep;
  const double below = Objective(bench, x, dy);
  *at = kept;
  return (above - below) / (2 * double{kStep});
}

void CheckGradients(Bench* bench, const Shape& input) {
  const OwnedPanel x(input, bench->layout);
  const OwnedPanel dy(bench->layer->output_shape(), bench->layout);
  Fill(1, x.panel);
  Fill(2, dy.panel);
  OwnedPanel y(bench->layer->output_shape(), bench->layout);
  bench->Forward(x.panel, y.panel);
  OwnedPanel dx(input, bench->layout, std::numeric_limits<float>::quiet_NaN());
  bench->Backward(x.panel, y.panel, dy.panel, dx.panel);
  for (int64_t s = 0; s < bench->layout.samples; ++s) {
    for (int64_t e = 0; e < input.elements(); ++e) {
      EXPECT_NEAR(At(dx.panel, s, e),
                  CentralDifference(bench, x, dy, &At(x.panel, s, e)), 2e-4)
          << "input " << e << " of sample " << s;
    }
  }
  for (size_t p = 0; p < bench->values.size(); ++p) {
    for (size_t i = 0; i < bench->values[p].size(); ++i) {
      EXPECT_NEAR(bench->gradients[p][i],
                  CentralDifference(bench, x, dy, &bench->values[p][i]), 2e-4)
          << "parameter " << p << " entry " << i;
    }
  }
}

class EveryLayer : public ::testing::TestWithParam<LayerRow> {
 protected:
  const LayerRow& row() const { return GetParam(); }
  const std::vector<Case>& cases() const {
    return Cases().at(std::string(row().type));
  }
  void SetUp() override {
    ASSERT_TRUE(Cases().contains(std::string(row().type)))
        << "no gradient check for layer type " << row().type;
  }
};

INSTANTIATE_TEST_SUITE_P(Layers, EveryLayer,
                         ::testing::ValuesIn(LayerTable().begin(),
                                             LayerTable().end()),
                         [](const auto& info) {
                           return std::string(info.param.type);
                         });

TEST_P(EveryLayer, GradientsAreThoseOfCentralDifferences) {
  for (const Case& test : cases()) {
    for (double density : {1.0, 0.4}) {
      SCOPED_TRACE(test.spec + " density " + std::to_string(density));
      Bench bench(NewLayer(row(), test), density);
      CheckGradients(&bench, test.input);
    }
  }
}

TEST_P(EveryLayer, WorksWithoutADxAndWithoutPanelsItDoesNotNeed) {
  for (const Case& test : cases()) {
    Bench bench(NewLayer(row(), test), 0.4);
    const OwnedPanel x(test.input, bench.layout);
    const OwnedPanel dy(bench.layer->output_shape(), bench.layout);
    Fill(1, x.panel);
    Fill(2, dy.panel);
    OwnedPanel y(bench.layer->output_shape(), bench.layout);
    bench.Forward(x.panel, y.panel);
    OwnedPanel dx(test.input, bench.layout);
    bench.Backward(x.panel, y.panel, dy.panel, dx.panel);
    const auto wanted_dx = dx.data;
    const auto wanted = bench.gradients;

    Panel no_x = x.panel, no_y = y.panel, no_dx = dx.panel;
    const BackwardNeeds needs = bench.layer->backward_needs();
    if (!needs.inputs) no_x.data = nullptr;
    if (!needs.output) no_y.data = nullptr;
    bench.Backward(no_x, no_y, dy.panel, dx.panel);
    EXPECT_EQ(dx.data, wanted_dx);
    no_dx.data = nullptr;
    bench.Backward(no_x, no_y, dy.panel, no_dx);
    EXPECT_EQ(bench.gradients, wanted);
  }
}

TEST_P(EveryLayer, OutputInTheMemoryOfTheInputHasTheSameBits) {
  for (const Case& test : cases()) {
    Bench bench(NewLayer(row(), test), 1.0);
    if (bench.layer->output_memory() == OutputMemory::kApart) continue;
    const OwnedPanel x(test.input, bench.layout);
    const OwnedPanel dy(bench.layer->output_shape(), bench.layout);
    Fill(1, x.panel);
    Fill(2, dy.panel);
    OwnedPanel y(bench.layer->output_shape(), bench.layout);
    OwnedPanel dx(test.input, bench.layout);
    bench.Forward(x.panel, y.panel);
    bench.Backward(x.panel, y.panel, dy.panel, dx.panel);
    Panel y_in_place = y.panel, dx_in_place = dx.panel;
    y_in_place.data = x.panel.data;
    dx_in_place.data = dy.panel.data;
    bench.Forward(x.panel, y_in_place);
    EXPECT_EQ(x.data, y.data);
    bench.Backward(x.panel, y_in_place, dy.panel, dx_in_place);
    EXPECT_EQ(dy.data, dx.data);
  }
}

TEST_P(EveryLayer, SeveralInputsAreAnErrorThatNamesTheLine) {
  const Case& test = cases().front();
  const std::vector<Shape> two = {test.input, test.input};
  const Json spec =
      ModelSpec("{\"layers\": [\n{\"type\": \"" + std::string(row().type) +
                "\"" + (test.spec.empty() ? "" : ", ") + test.spec + "}]}");
  try {
    row().create(spec.at("layers").items()[0], "it", two);
    FAIL() << "no error";
  } catch (const SpecError& e) {
    EXPECT_THAT(e.what(), HasSubstr("test.json:2: " + std::string(row().type) +
                                    ": 2 inputs; expected one"));
  }
}

}  // namespace
}  // namespace lumen::nn
