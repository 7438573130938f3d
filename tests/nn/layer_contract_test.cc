// SPDX-License-Identifier: Apache-2.0
// The contract of Layer, of every row of the table by itself: gradients of
// inputs and parameters against central differences, the memory it may use, and
// the same bits everywhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "layer_bench.h"
#include "layer_examples.h"
#include "lumen/core/error.h"

namespace lumen::nn {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  return a.empty() ||
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

double CentralDifference(LayerBench* bench, float* at) {
  constexpr float kStep = 0x1p-8f;
  const float kept = *at;
  *at = kept + kStep;
  const double above = bench->Objective();
  *at = kept - kStep;
  const double below = bench->Objective();
  *at = kept;
  return (above - below) / (2 * double{kStep});
}

void ExpectGradient(LayerBench* bench, float gradient, float* at,
                    const std::string& what) {
  const double numeric = CentralDifference(bench, at);
  EXPECT_NEAR(gradient, numeric, 3e-3 + 1e-3 * std::abs(numeric)) << what;
}

void CheckGradients(LayerBench* bench) {
  bench->Forward();
  bench->Backward();
  const auto gradients = bench->gradients;
  // The last three samples, of which one may be masked, stand for all.
  const int64_t samples = bench->layout.samples;
  for (int64_t s = std::max<int64_t>(0, samples - 3); s < samples; ++s) {
    for (size_t i = 0; i < bench->x.size(); ++i) {
      for (int64_t e = 0; e < bench->shapes[i].elements(); ++e) {
        ExpectGradient(bench, bench->dx[i]->At(s, e), &bench->x[i]->At(s, e),
                       "input " + std::to_string(i) + " element " +
                           std::to_string(e) + " of sample " +
                           std::to_string(s));
      }
    }
  }
  for (size_t p = 0; p < gradients.size(); ++p) {
    for (size_t i = 0; i < gradients[p].size(); ++i) {
      ExpectGradient(
          bench, gradients[p][i], &bench->values[p][i],
          "parameter " + std::to_string(p) + " entry " + std::to_string(i));
    }
  }
}

class EveryLayer : public ::testing::TestWithParam<LayerRow> {
 protected:
  std::string type() const { return std::string(GetParam().type); }
  const std::vector<Example>& examples() const {
    return LayerExamples().at(type());
  }
  void SetUp() override {
    ASSERT_TRUE(LayerExamples().contains(type()))
        << "no examples of layer type " << type();
    if (examples().empty()) GTEST_SKIP() << "there is no layer of this type";
  }

  using Task = std::function<void(LayerBench*)>;
  // Each example, sparse and dense, without masked lanes and with some; not
  // those whose groups do not fit the number of samples.
  void ForBenches(const std::vector<int64_t>& shards, const Task& task) const {
    for (const Example& example : examples()) {
      for (int64_t samples : shards) {
        for (double density : {1.0, 0.4}) {
          for (bool masked : {false, true}) {
            std::unique_ptr<Layer> layer = NewLayer(type(), example);
            if (!Fits(*layer, samples)) continue;
            SCOPED_TRACE(example.keys + " density " + std::to_string(density) +
                         ", " + std::to_string(samples) + " samples" +
                         (masked ? ", some masked" : ""));
            LayerBench bench(std::move(layer), example.inputs, samples,
                             density);
            if (masked && samples > 1) bench.Mask({0, samples - 2});
            task(&bench);
          }
        }
      }
    }
  }

  static bool Fits(const Layer& layer, int64_t samples) {
    try {
      layer.CheckShard(samples);
      return true;
    } catch (const SpecError&) {
      return false;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Layers, EveryLayer,
                         ::testing::ValuesIn(LayerTable().begin(),
                                             LayerTable().end()),
                         [](const auto& info) {
                           return std::string(info.param.type);
                         });

TEST_P(EveryLayer, GradientsAreThoseOfCentralDifferences) {
  ForBenches({1, 2, 7, 17, 32}, CheckGradients);
}

TEST_P(EveryLayer, MaskedLanesGetNoGradient) {
  ForBenches({2, 17, 32}, [](LayerBench* bench) {
    bench->Forward();
    bench->Backward();
    for (int64_t s = 0; s < bench->layout.total_lanes(); ++s) {
      if (bench->Holds(s)) continue;
      for (const auto& dx : bench->dx) {
        for (int64_t e = 0; e < dx->panel.shape.elements(); ++e) {
          EXPECT_EQ(dx->At(s, e), 0) << "lane " << s << " element " << e;
        }
      }
    }
  });
}

TEST_P(EveryLayer, LanesWithoutASampleChangeNoOther) {
  ForBenches({2, 17, 32}, [](LayerBench* bench) {
    bench->Forward();
    bench->Backward();
    const auto gradients = bench->gradients;
    const auto dx = bench->dx[0]->data;
    const auto next_statistics = bench->next_statistics;
    for (const auto& x : bench->x) {
      for (int64_t s = 0; s < bench->layout.total_lanes(); ++s) {
        if (bench->Holds(s)) continue;
        for (int64_t e = 0; e < x->panel.shape.elements(); ++e) {
          x->At(s, e) += 3;
        }
      }
    }
    bench->Forward();
    bench->Backward();
    EXPECT_EQ(bench->gradients, gradients);
    EXPECT_EQ(bench->dx[0]->data, dx);
    EXPECT_EQ(bench->next_statistics, next_statistics);
  });
}

TEST_P(EveryLayer, GradientsAreAddedToWhatIsThere) {
  ForBenches({3, 17}, [](LayerBench* bench) {
    if (!bench->layer->adds_gradients()) return;
    bench->Forward();
    bench->Backward();
    std::vector<std::vector<float>> sums;
    for (const auto& dx : bench->dx) {
      std::vector<float> sum = dx->data;
      for (size_t i = 0; i < sum.size(); ++i) {
        dx->data[i] = 0.5f - static_cast<float>(i % 7);
        sum[i] += dx->data[i];
      }
      sums.push_back(std::move(sum));
    }
    bench->Backward(true);
    for (size_t i = 0; i < sums.size(); ++i) {
      EXPECT_EQ(bench->dx[i]->data, sums[i]);
    }
  });
}

// All that a training pass leaves behind.
std::vector<std::vector<float>> Results(LayerBench* bench) {
  bench->Forward();
  bench->Backward();
  std::vector<std::vector<float>> results = bench->gradients;
  for (const auto& dx : bench->dx) results.push_back(dx->data);
  results.push_back(bench->y->data);
  results.push_back(bench->next_statistics);
  return results;
}

TEST_P(EveryLayer, BitsDoNotDependOnIsaOrThreads) {
  std::vector<int64_t> shards = {32, 33};
  for (int64_t samples = 1; samples <= 17; ++samples) shards.push_back(samples);
  ForBenches(shards, [](LayerBench* bench) {
    bench->compute = NewCompute(sparse::Isa::kScalar, 1);
    const auto expected = Results(bench);
    for (sparse::Isa isa : sparse::AvailableIsas()) {
      for (int threads : {1, 2}) {
        // Starting threads is what takes time here.
        if (threads > 1 && bench->layout.samples % 8 != 1) continue;
        bench->compute = NewCompute(isa, threads);
        const auto actual = Results(bench);
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_TRUE(SameBits(actual[i], expected[i]))
              << IsaName(isa) << ", " << threads << " threads, result " << i;
        }
      }
    }
  });
}

TEST_P(EveryLayer, WorksWithoutADxAndWithoutPanelsItDoesNotNeed) {
  ForBenches({20}, [](LayerBench* bench) {
    bench->Forward();
    bench->Backward();
    std::vector<std::vector<float>> wanted_dx;
    std::vector<InputGradient> to;
    for (const auto& dx : bench->dx) {
      wanted_dx.push_back(dx->data);
      to.push_back({dx->panel});
    }
    const auto wanted = bench->gradients;

    std::vector<Panel> inputs = bench->Inputs();
    Panel output = bench->y->panel;
    const BackwardNeeds needs = bench->layer->backward_needs();
    if (!needs.output) output.data = nullptr;
    if (!needs.inputs) {
      for (Panel& input : inputs) input.data = nullptr;
    }
    bench->BackwardTo(inputs, output, bench->dy->panel, to);
    for (size_t i = 0; i < to.size(); ++i) {
      EXPECT_EQ(bench->dx[i]->data, wanted_dx[i]);
    }
    for (size_t i = to.size(); i-- > 0;) {
      to[i].panel.data = nullptr;
      bench->BackwardTo(inputs, output, bench->dy->panel, to);
      EXPECT_EQ(bench->dx[0]->data, wanted_dx[0]);
      EXPECT_EQ(bench->gradients, wanted);
    }
  });
}

TEST_P(EveryLayer, ASharedMemoryHasTheSameBits) {
  ForBenches({20}, [](LayerBench* bench) {
    const OutputMemory memory = bench->layer->output_memory();
    if (memory == OutputMemory::kApart) return;
    bench->Forward();
    bench->Backward();
    const auto y = bench->y->data;
    const auto dy = bench->dy->data;
    // In the memory of each input in turn.
    for (size_t i = 0; i < bench->x.size(); ++i) {
      const auto x = bench->x[i]->data;
      Panel in_place = bench->y->panel;
      in_place.data = bench->x[i]->panel.data;
      bench->ForwardTo(bench->Inputs(), in_place);
      EXPECT_EQ(bench->x[i]->data, y);
      if (memory == OutputMemory::kView) {
        EXPECT_EQ(bench->x[i]->data, x);
      }
      std::vector<InputGradient> to;
      for (const auto& dx : bench->dx) to.push_back({dx->panel});
      to[i].panel.data = bench->dy->panel.data;
      bench->BackwardTo(bench->Inputs(), in_place, bench->dy->panel, to);
      EXPECT_EQ(bench->dy->data, bench->dx[i]->data);
      if (memory != OutputMemory::kInPlace) {
        EXPECT_EQ(bench->dy->data, dy);
      }
      bench->x[i]->data = x;
      bench->dy->data = dy;
    }
  });
}

TEST_P(EveryLayer, AShardWithoutSamplesHasZeroGradients) {
  ForBenches({0}, [](LayerBench* bench) {
    bench->Forward();
    bench->Backward();
    for (const auto& gradient : bench->gradients) {
      EXPECT_THAT(gradient, Each(0.0f));
    }
    EXPECT_EQ(bench->next_statistics, bench->statistics);
  });
}

TEST_P(EveryLayer, SeveralInputsAreAnErrorThatNamesTheLine) {
  Example example = examples().front();
  if (example.inputs.size() > 1) GTEST_SKIP() << "has several inputs";
  example.inputs.push_back(example.inputs[0]);
  try {
    NewLayer(type(), example);
    FAIL() << "no error";
  } catch (const SpecError& e) {
    EXPECT_THAT(e.what(), HasSubstr("test.json:2: " + type() +
                                    ": 2 inputs; expected one"));
  }
}

}  // namespace
}  // namespace lumen::nn
