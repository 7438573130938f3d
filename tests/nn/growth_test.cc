// SPDX-License-Identifier: Apache-2.0
#include "lumen/nn/growth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "network.h"

namespace lumen::nn {
namespace {

std::vector<int64_t> Positions(const std::vector<GrowthCandidate>& found) {
  std::vector<int64_t> positions;
  for (const GrowthCandidate& candidate : found) {
    positions.push_back(candidate.position);
  }
  return positions;
}

TEST(GrowthList, KeepsTheLargestMagnitudesAndOfEqualOnesTheFirst) {
  GrowthList list(3);
  const float values[] = {1, -5, 2, 2, -2, 0, std::nanf(""), 4, 2};
  for (int64_t i = 0; i < 9; ++i) list.Add(10 * i, values[i]);
  EXPECT_THAT(Positions(list.Take()), testing::ElementsAre(10, 20, 70));
}

TEST(GrowthList, FewerThanWantedAreAll) {
  GrowthList list(5);
  list.Add(1, 0);  // a weight without gradient has no reason to grow
  list.Add(2, -1);
  EXPECT_THAT(Positions(list.Take()), testing::ElementsAre(2));
  EXPECT_TRUE(GrowthList(5).Take().empty());
}

TEST(GrowthList, EqualsASortOfEverything) {
  std::mt19937 random(1);
  for (int64_t count : {1, 2, 7, 100}) {
    std::vector<GrowthCandidate> all;
    GrowthList list(count);
    for (int64_t i = 0; i < 1000; ++i) {
      const auto value = static_cast<float>(random() % 50) - 25.0f;
      list.Add(i, value);
      if (value != 0) all.push_back({i, value});
    }
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return std::abs(a.gradient) > std::abs(b.gradient);
    });
    all.resize(static_cast<size_t>(count));
    std::vector<int64_t> expected = Positions(all);
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(Positions(list.Take()), expected) << count;
  }
}

constexpr char kLayers[] = R"("layers": [
  {"name": "a", "type": "conv2d", "channels": 8, "window": [3], "padding": [1]},
  {"name": "n", "type": "batch_norm"}, {"type": "relu"},
  {"name": "b", "type": "conv2d", "channels": 6, "window": [3, 2],
   "stride": [2, 1], "groups": 2, "bias": true},
  {"type": "relu"}, {"type": "flatten"},
  {"name": "c", "type": "linear", "units": 9}, {"type": "relu"},
  {"name": "d", "type": "linear", "units": 5}])";

// The weights of a sparse model in a dense one.
ImportedTensors DenseTensors(const ParameterSet& parameters) {
  ImportedTensors tensors;
  for (const Parameter& tensor : parameters.tensors()) {
    ImportedTensor dense = {tensor.decl.shape, {}};
    dense.values.resize(static_cast<size_t>(tensor.decl.dense_size()));
    std::vector<int64_t> positions(static_cast<size_t>(tensor.size()));
    tensor.Positions(0, positions);
    for (size_t i = 0; i < positions.size(); ++i) {
      dense.values[static_cast<size_t>(positions[i])] =
          parameters.values(tensor)[i];
    }
    tensors[tensor.decl.name] = std::move(dense);
  }
  return tensors;
}

// What a search finds is the gradient of the dense model with zeros in place of
// absent weights, to the bit.
void CompareWithDenseModel(int64_t samples, int threads) {
  const std::string sparse_spec =
      std::string("{") + kLayers +
      R"(, "sparsity": {"method": "rigl", "density": 0.3, "exclude": []}})";
  const std::string dense_spec = std::string("{") + kLayers + "}";
  const Shape input = {.channels = 3, .height = 7, .width = 6};
  const auto compute = NewCompute(sparse::DetectIsa(), threads);
  Network sparse(sparse_spec, input, 5, samples, compute);
  Network dense(dense_spec, input, 5, samples, compute);
  const ImportedTensors tensors = DenseTensors(sparse.model->parameters());
  for (Parameter& tensor : dense.model->parameters().tensors()) {
    const auto& values = tensors.at(tensor.decl.name).values;
    std::copy(values.begin(), values.end(),
              dense.model->parameters().values(tensor).begin());
  }
  dense.ForwardBackward();

  constexpr int64_t kCount = 20;
  std::map<int, std::vector<GrowthCandidate>> found;
  GrowthSearch search;
  const auto declared = sparse.model->parameters().tensors();
  for (const Parameter& tensor : declared) {
    search.count.push_back(tensor.rows ? kCount : 0);
  }
  search.found = [&](int tensor, std::vector<GrowthCandidate> candidates) {
    found[tensor] = std::move(candidates);
  };
  sparse.model->parameters().Refresh(compute.parallel);
  Model::Pass pass = sparse.Pass(PassKind::kTraining);
  pass.growth = &search;
  const Panel y = sparse.model->Forward(sparse.x, pass);
  sparse.loss->Compute(compute, y, sparse.targets(), Loss::kWithGradient, 1);
  sparse.model->Backward(sparse.x, y, pass, sparse.gradient, [](int) {});

  int searched = 0;
  for (int t = 0; t < static_cast<int>(declared.size()); ++t) {
    const Parameter& tensor = declared[static_cast<size_t>(t)];
    if (!tensor.rows) continue;
    ++searched;
    const float* gradient =
        dense.gradient.data() +
        dense.model->parameters().tensors()[static_cast<size_t>(t)].offset;
    std::vector<int64_t> present(static_cast<size_t>(tensor.size()));
    tensor.Positions(0, present);
    GrowthList expected(kCount);
    for (int64_t p = 0; p < tensor.decl.dense_size(); ++p) {
      if (!std::binary_search(present.begin(), present.end(), p)) {
        expected.Add(p, gradient[p]);
      }
    }
    const auto best = expected.Take();
    ASSERT_EQ(Positions(found[t]), Positions(best)) << tensor.decl.name;
    for (size_t i = 0; i < best.size(); ++i) {
      EXPECT_EQ(found[t][i].gradient, best[i].gradient) << tensor.decl.name;
    }
  }
  EXPECT_EQ(searched, 4);
}

TEST(GrowthSearch, FindsTheGradientOfTheDenseModel) {
  for (int64_t samples : {1, 16, 19, 40}) {
    for (int threads : {1, 2}) CompareWithDenseModel(samples, threads);
  }
}

TEST(ReplaceMask, WeightsThatStayKeepTheirValuesAndNewOnesAreZero) {
  Network network(
      R"({"preset": {"type": "mlp", "units": []},
          "sparsity": {"method": "set", "density": 0.5}})",
      {.channels = 4}, 3, 1, NewCompute(sparse::DetectIsa(), 1));
  ParameterSet& parameters = network.model->parameters();
  Parameter& weight = parameters.tensors()[0];
  ASSERT_EQ(weight.size(), 6);
  std::vector<int64_t> old(6);
  weight.Positions(0, old);
  const std::vector<float> values(parameters.values(weight).begin(),
                                  parameters.values(weight).end());
  // All but the first entry stay; one at the end is new.
  std::vector<int64_t> positions(old.begin() + 1, old.end());
  std::vector<int64_t> source = {1, 2, 3, 4, 5};
  int64_t fresh = 11;
  while (std::find(old.begin(), old.end(), fresh) != old.end()) --fresh;
  const auto at = std::lower_bound(positions.begin(), positions.end(), fresh);
  source.insert(source.begin() + (at - positions.begin()), -1);
  positions.insert(at, fresh);
  network.model->ReplaceMask(0, sparse::PatternFromPositions(3, 4, positions),
                             source);
  std::vector<int64_t> now(6);
  weight.Positions(0, now);
  EXPECT_EQ(now, positions);
  for (size_t i = 0; i < source.size(); ++i) {
    EXPECT_EQ(parameters.values(weight)[i],
              source[i] < 0 ? 0.0f : values[static_cast<size_t>(source[i])]);
  }
}

}  // namespace
}  // namespace lumen::nn
