// SPDX-License-Identifier: Apache-2.0
#include "lumen/train/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "lumen/core/schema.h"

namespace lumen::train {
namespace {

Json OptimizerSpec(const std::string& text) {
  static const Key key = {.name = "optimizer",
                          .kind = KeyKind::kVariant,
                          .variants = OptimizerVariants};
  Json json = Json::Object();
  json.Set("optimizer", Json::Parse(text, "test"));
  return Resolve(json, {&key, 1}).at("optimizer");
}

sparse::Compute NewCompute(sparse::Isa isa, int threads) {
  return {&sparse::Kernels(isa), Parallel(threads)};
}

// Dense tensors of these sizes.
nn::ParameterSet NewParameters(
    const std::vector<std::pair<std::string, int64_t>>& tensors) {
  std::vector<nn::ParameterDecl> declarations;
  for (const auto& [name, size] : tensors) {
    declarations.push_back({.name = name, .shape = {size}, .nnz = size});
  }
  return nn::ParameterSet(std::move(declarations));
}

struct TorchCase {
  std::string spec;
  std::vector<double> weights;  // after five steps
};

// torch.optim.NAME([w], lr=0.1, weight_decay=...) in double, w = [0.5, -1, 2,
// 0], with the gradients g[i] = (i + 1) / 4 -+ t / 8 for step t and even or odd
// i. SGD: momentum 0.9.
TEST(Optimizer, FiveStepsAreThoseOfPyTorch) {
  const TorchCase cases[] = {
      {R"({"type": "adam"})",
       {0.2194355634, -1.501043884, 1.519940825, -0.502238439}},
      {R"({"type": "adam", "weight_decay": 0.1})",
       {0.1795940142, -1.500390078, 1.514687891, -0.5022307922}},
      {R"({"type": "adamw", "weight_decay": 0.1})",
       {0.2033747805, -1.442130104, 1.431684331, -0.4923200798}},
      {R"({"type": "adamw", "weight_decay": 0.1, "decay_exclude": ["w"]})",
       {0.2194355634, -1.501043884, 1.519940825, -0.502238439}},
      {R"({"type": "sgd", "weight_decay": 0.1})",
       {0.3444454402, -1.743007259, 1.010066609, -1.513203104}},
      {R"({"type": "sgd", "nesterov": true})",
       {0.4130465, -2.17527325, 1.071562, -2.01675775}},
  };
  for (const TorchCase& torch : cases) {
    SCOPED_TRACE(torch.spec);
    nn::ParameterSet parameters = NewParameters({{"w", 4}});
    const std::vector<float> initial = {0.5f, -1.0f, 2.0f, 0.0f};
    std::copy(initial.begin(), initial.end(), parameters.values().begin());
    const auto optimizer = NewOptimizer(OptimizerSpec(torch.spec), parameters);
    for (int t = 0; t < 5; ++t) {
      std::vector<float> gradient;
      for (int i = 0; i < 4; ++i) {
        const float part = 0.125f * static_cast<float>(t);
        gradient.push_back(0.25f * static_cast<float>(i + 1) +
                           (i % 2 == 0 ? -part : part));
      }
      optimizer->Apply(NewCompute(sparse::Isa::kScalar, 1), &parameters, 0,
                       gradient, 0.1, t);
    }
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(parameters.values()[i], torch.weights[i], 1e-6) << i;
    }
  }
}

// Three steps of every row of the table, with the range cut at `cuts`.
std::vector<float> ThreeSteps(const std::string& type,
                              const sparse::Compute& compute,
                              const std::vector<int64_t>& cuts) {
  nn::ParameterSet parameters =
      NewParameters({{"a.weight", 70000}, {"a.bias", 3}, {"b.weight", 1000}});
  const auto size = static_cast<size_t>(parameters.size());
  for (size_t i = 0; i < size; ++i) {
    parameters.values()[i] = static_cast<float>(i % 97) / 48.0f - 1.0f;
  }
  const auto optimizer =
      NewOptimizer(OptimizerSpec("{\"type\": \"" + type +
                                 "\", \"weight_decay\": 0.01, "
                                 "\"decay_exclude\": [\"bias\"]}"),
                   parameters);
  for (int64_t t = 0; t < 3; ++t) {
    std::vector<float> gradient(size);
    for (size_t i = 0; i < size; ++i) {
      gradient[i] =
          static_cast<float>((i + static_cast<size_t>(t)) % 89) / 44.0f - 1.0f;
    }
    for (size_t c = 0; c + 1 < cuts.size(); ++c) {
      const auto begin = static_cast<size_t>(cuts[c]);
      optimizer->Apply(compute, &parameters, cuts[c],
                       std::span<const float>(gradient).subspan(
                           begin, static_cast<size_t>(cuts[c + 1]) - begin),
                       0.05, t);
    }
  }
  std::vector<float> result(parameters.values().begin(),
                            parameters.values().end());
  for (const OptimizerState& state : optimizer->State()) {
    result.insert(result.end(), state.values.begin(), state.values.end());
  }
  return result;
}

TEST(Optimizer, BitsDependOnNeitherCutsNorThreadsNorIsa) {
  const std::vector<int64_t> whole = {0, 71003};
  const std::vector<int64_t> parts = {0, 1, 17, 69999, 70002, 70500, 71003};
  for (const OptimizerRow& row : Optimizers()) {
    const std::string type(row.type);
    const auto expected =
        ThreeSteps(type, NewCompute(sparse::Isa::kScalar, 1), whole);
    for (sparse::Isa isa : sparse::AvailableIsas()) {
      for (const auto& cuts : {whole, parts}) {
        for (int threads : {1, 2}) {
          EXPECT_EQ(expected, ThreeSteps(type, NewCompute(isa, threads), cuts))
              << type << ", " << sparse::IsaName(isa) << ", " << threads
              << " threads";
        }
      }
    }
  }
}

TEST(Optimizer, StateHasThePlannedSize) {
  const nn::ParameterSet parameters = NewParameters({{"w", 10}});
  for (const std::string text :
       {R"({"type": "sgd"})", R"({"type": "sgd", "momentum": 0})",
        R"({"type": "adam"})", R"({"type": "adamw"})"}) {
    const Json spec = OptimizerSpec(text);
    int64_t floats = 0;
    for (const auto& state : NewOptimizer(spec, parameters)->State()) {
      floats += std::ssize(state.values);
    }
    EXPECT_EQ(floats, 10 * OptimizerStateFloats(spec)) << text;
  }
}

TEST(Optimizer, AWeightThatNeverHadAGradientStaysInAdam) {
  nn::ParameterSet parameters = NewParameters({{"w", 1}});
  parameters.values()[0] = 3;
  const auto optimizer =
      NewOptimizer(OptimizerSpec(R"({"type": "adam"})"), parameters);
  const std::vector<float> zero = {0};
  optimizer->Apply(NewCompute(sparse::DetectIsa(), 1), &parameters, 0, zero,
                   0.1, 0);
  EXPECT_EQ(parameters.values()[0], 3);
}

}  // namespace
}  // namespace lumen::train
