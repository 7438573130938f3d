// SPDX-License-Identifier: Apache-2.0
#include "lumen/nn/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "network.h"

namespace lumen::nn {
namespace {

constexpr char kSparse[] = R"({"preset": {"type": "mlp", "units": [30]},
  "sparsity": {"method": "static", "density": 0.3}})";

uint64_t Digest(const ParameterSet& parameters) {
  Hasher hasher;
  parameters.HashInto(&hasher);
  return hasher.Digest();
}

TEST(Parameters, HashCoversNameShapePositionsAndValuesInModelOrder) {
  Network network(kSparse, {20}, 5, 1, NewCompute(sparse::DetectIsa(), 1));
  const ParameterSet& parameters = network.model->parameters();
  Hasher hasher;
  for (const Parameter& tensor : parameters.tensors()) {
    hasher.Update(tensor.decl.name);
    hasher.Update(std::span<const int64_t>(tensor.decl.shape));
    std::vector<int64_t> positions(static_cast<size_t>(tensor.size()));
    tensor.Positions(0, positions);
    hasher.Update(std::span<const int64_t>(positions));
    hasher.Update(parameters.values(tensor));
  }
  EXPECT_EQ(Digest(parameters), hasher.Digest());

  // One value by one bit.
  float& value = network.model->parameters().values()[17];
  const uint64_t before = Digest(parameters);
  value = std::nextafter(value, 10.0f);
  EXPECT_NE(Digest(parameters), before);
}

TEST(Parameters, SameSeedSameStartOnAnyNumberOfThreads) {
  std::set<uint64_t> digests, other_seeds;
  for (int threads : {1, 2, 3}) {
    Network network(kSparse, {200}, 5, 40,
                    NewCompute(sparse::DetectIsa(), threads));
    digests.insert(Digest(network.model->parameters()));
    Network other(kSparse, {200}, 5, 40,
                  NewCompute(sparse::DetectIsa(), threads), 100 + threads);
    other_seeds.insert(Digest(other.model->parameters()));
  }
  EXPECT_EQ(digests.size(), 1u);
  EXPECT_EQ(other_seeds.size(), 3u);
}

TEST(Parameters, StartIsUniformWithTheBoundOfPyTorch) {
  Network network(R"({"layers": [{"type": "linear", "units": 400}]})", {100},
                  400, 1, NewCompute(sparse::DetectIsa(), 2));
  const ParameterSet& parameters = network.model->parameters();
  for (const Parameter& tensor : parameters.tensors()) {
    const double bound = 0.1;  // 1 / sqrt(100), of the bias too
    double mean = 0, square = 0, largest = 0;
    for (float value : parameters.values(tensor)) {
      mean += value;
      square += double{value} * value;
      largest = std::max(largest, std::abs(double{value}));
    }
    const auto n = static_cast<double>(tensor.size());
    const double slack = 4 * bound / std::sqrt(n);
    EXPECT_NEAR(mean / n, 0, slack) << tensor.decl.name;
    EXPECT_NEAR(square / n, bound * bound / 3, bound * slack);
    EXPECT_LE(largest, bound);
    EXPECT_GT(largest, 0.95 * bound);
  }
}

// Positions do not fit 32 bits, let alone a float.
TEST(Parameters, PositionsAbove32BitsHaveTheirOwnValues) {
  ParameterDecl declaration{.name = "w",
                            .shape = {200000, 200000},
                            .fan_in = 1,
                            .init = Init::kUniformFanIn,
                            .prunable = true,
                            .nnz = 1000};
  Graph graph;
  graph.declarations = {declaration};
  const ModelSource source = SeedSource(graph, 1, Parallel(2));
  Parameter parameter{.decl = declaration};
  parameter.rows = std::make_unique<sparse::KernelRows>(
      source.pattern(0), sparse::Addressing::OfLinear(200000, 200000, 128),
      Parallel(2));
  std::vector<int64_t> positions(1000);
  parameter.Positions(0, positions);
  EXPECT_TRUE(std::is_sorted(positions.begin(), positions.end()));
  EXPECT_GT(positions.back(), int64_t{1} << 35);
  EXPECT_LT(positions.back(), declaration.dense_size());
  std::vector<float> values(1000);
  source.values(0, parameter, values);
  // 24 bits per draw: a thousand of them hardly meet.
  EXPECT_GT(std::set<float>(values.begin(), values.end()).size(), 995u);
}

TEST(Parameters, RefreshCarriesNewValuesIntoTheBackwardPass) {
  Network network(kSparse, {20}, 5, 3, NewCompute(sparse::DetectIsa(), 1));
  network.ForwardBackward();
  const std::vector<float> before = network.gradient;
  for (float& value : network.model->parameters().values()) value *= 2;
  network.ForwardBackward();  // refreshes
  EXPECT_NE(network.gradient, before);
  Network fresh(kSparse, {20}, 5, 3, NewCompute(sparse::DetectIsa(), 1));
  for (float& value : fresh.model->parameters().values()) value *= 2;
  fresh.ForwardBackward();
  EXPECT_EQ(network.gradient, fresh.gradient);
}

}  // namespace
}  // namespace lumen::nn
