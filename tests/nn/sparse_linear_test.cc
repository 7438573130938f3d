// SPDX-License-Identifier: Apache-2.0
// sparse_linear against PyTorch, against linear on the same samples written
// out, and against itself on other threads and instruction sets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <string>
#include <vector>

#include "lumen/core/error.h"
#include "lumen/sparse/isa.h"
#include "network.h"
#include "numeric_gradient.h"

namespace lumen::nn {
namespace {

// Rows with their storage.
struct OwnedRows {
  std::vector<int64_t> start = {0};
  std::vector<int32_t> index;
  std::vector<float> value;

  void Add(const std::vector<int32_t>& indices,
           const std::vector<float>& values) {
    index.insert(index.end(), indices.begin(), indices.end());
    value.insert(value.end(), values.begin(), values.end());
    start.push_back(std::ssize(index));
  }
  SparseRows view() const { return {start, index, value}; }
};

OwnedRows RandomRows(int64_t samples, int64_t features, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  OwnedRows rows;
  for (int64_t i = 0; i < samples; ++i) {
    // Some rows are empty, some features never occur.
    const bool empty = random() % 8 == 0;
    std::vector<int32_t> index;
    std::vector<float> value;
    for (int64_t f = 1; !empty && f < features; ++f) {
      if (random() % 4 != 0) continue;
      index.push_back(static_cast<int32_t>(f));
      value.push_back(normal(random));
    }
    rows.Add(index, value);
  }
  return rows;
}

std::string Spec(const std::string& layers,
                 const std::string& loss = "softmax_cross_entropy") {
  return R"({"layers": [)" + layers + R"(], "loss": {"type": ")" + loss +
         R"("}})";
}

// A network on sparse samples.
struct SparseNetwork {
  SparseNetwork(const std::string& spec, int64_t features, int64_t classes,
                OwnedRows given, sparse::Compute compute)
      : rows(std::move(given)),
        network(spec,
                NewGraph(ModelSpec(spec), {.channels = features}, classes,
                         SampleKind::kSparse),
                std::ssize(rows.start) - 1, compute, 1) {
    network.x.data = nullptr;
    network.rows = rows.view();
  }

  OwnedRows rows;
  Network network;
};

sparse::Compute Scalar() { return NewCompute(sparse::Isa::kScalar, 1); }

// By hand what PyTorch defines as embedding_bag(index, weight, offsets,
// mode="sum", per_sample_weights=value) + bias, and the gradient of (output *
// dy).sum().
TEST(SparseLinear, IsAnEmbeddingBagWithWeights) {
  const std::string spec =
      Spec(R"({"name": "e", "type": "sparse_linear", "units": 2})");
  OwnedRows rows;
  rows.Add({0, 2}, {0.5f, -2});
  rows.Add({}, {});
  rows.Add({2, 3}, {1, 4});
  SparseNetwork sparse(spec, 5, 2, rows, Scalar());
  Network& network = sparse.network;
  const auto values = network.model->parameters().values();
  const std::vector<float> weight = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0.25f, -1};
  std::copy(weight.begin(), weight.end(), values.begin());
  network.model->parameters().Refresh(network.compute.parallel);
  const Panel y =
      network.model->Forward(network.x, network.Pass(PassKind::kTraining));
  const int64_t lanes = y.layout.lanes;
  const float expected[2][3] = {{-9.25f, 0.25f, 33.25f}, {-12, -1, 37}};
  const float dy[2][3] = {{1, 2, 3}, {-1, 0.5f, 10}};
  for (int64_t u = 0; u < 2; ++u) {
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(y.data[u * lanes + i], expected[u][i]) << u << " " << i;
    }
    std::fill_n(y.data + u * lanes, lanes, 0.0f);
    std::copy(dy[u], dy[u] + 3, y.data + u * lanes);
  }
  network.model->Backward(network.x, y, network.Pass(PassKind::kTraining),
                          network.gradient, [](int) {});
  EXPECT_THAT(network.gradient, testing::ElementsAre(0.5f, -0.5f, 0, 0, 1, 12,
                                                     12, 40, 0, 0, 6, 9.5f));
}

TEST(SparseLinear, GradientIsNumeric) {
  const std::string spec =
      Spec(R"({"type": "sparse_linear", "units": 6}, {"type": "relu"},
              {"type": "linear", "units": 3})");
  SparseNetwork sparse(spec, 9, 3, RandomRows(21, 9, 1), Scalar());
  ExpectNumericGradient(&sparse.network, 1e-3f);
  const std::string alone =
      Spec(R"({"type": "sparse_linear", "units": 3, "bias": false})");
  SparseNetwork head(alone, 7, 3, RandomRows(5, 7, 2), Scalar());
  ExpectNumericGradient(&head.network);
}

TEST(SparseLinear, OutputsAreThoseOfLinearOnTheSameSamplesBitForBit) {
  constexpr int64_t kFeatures = 40;
  constexpr int64_t kUnits = 19;
  const OwnedRows rows = RandomRows(200, kFeatures, 3);
  SparseNetwork sparse(Spec(R"({"type": "sparse_linear", "units": 19})"),
                       kFeatures, kUnits, rows, Scalar());
  Network dense(Spec(R"({"type": "linear", "units": 19})"),
                {.channels = kFeatures}, kUnits, 200, Scalar());
  std::ranges::fill(dense.storage, 0.0f);
  for (int64_t i = 0; i < 200; ++i) {
    const auto r = static_cast<size_t>(i);
    for (auto e = static_cast<size_t>(rows.start[r]);
         e < static_cast<size_t>(rows.start[r + 1]); ++e) {
      dense.At(i, rows.index[e]) = rows.value[e];
    }
  }
  const auto from = sparse.network.model->parameters().values();
  const auto to = dense.model->parameters().values();
  for (size_t f = 0; f < size_t{kFeatures}; ++f) {
    for (size_t u = 0; u < size_t{kUnits}; ++u) {
      to[u * kFeatures + f] = from[f * kUnits + u];
    }
  }
  const size_t weights = size_t{kFeatures} * kUnits;
  std::copy(from.begin() + weights, from.end(), to.begin() + weights);
  dense.labels = sparse.network.labels;
  const LossSums a = sparse.network.ForwardBackward();
  const LossSums b = dense.ForwardBackward();
  EXPECT_EQ(a.loss, b.loss);
  // Sums over samples go by another order.
  for (size_t f = 0; f < size_t{kFeatures}; ++f) {
    for (size_t u = 0; u < size_t{kUnits}; ++u) {
      EXPECT_NEAR(sparse.network.gradient[f * kUnits + u],
                  dense.gradient[u * kFeatures + f], 1e-5);
    }
  }
  for (size_t u = 0; u < size_t{kUnits}; ++u) {
    EXPECT_EQ(sparse.network.gradient[weights + u],
              dense.gradient[weights + u]);
  }
}

TEST(SparseLinear, ThreadsAndInstructionSetsGiveTheSameBits) {
  for (const int64_t units : {1, 5, 16, 50, 260}) {
    const std::string spec =
        Spec(R"({"type": "sparse_linear", "units": )" + std::to_string(units) +
             R"(}, {"type": "linear", "units": 4})");
    for (const int64_t samples : {1, 17, 150}) {
      const OwnedRows rows = RandomRows(samples, 30, 4);
      SparseNetwork expected(spec, 30, 4, rows, Scalar());
      const double loss = expected.network.ForwardBackward().loss;
      for (const sparse::Isa isa : sparse::AvailableIsas()) {
        for (const int threads : {1, 2, 3}) {
          SparseNetwork actual(spec, 30, 4, rows, NewCompute(isa, threads));
          EXPECT_EQ(actual.network.ForwardBackward().loss, loss);
          for (size_t i = 0; i < expected.network.gradient.size(); ++i) {
            ASSERT_EQ(std::bit_cast<uint32_t>(actual.network.gradient[i]),
                      std::bit_cast<uint32_t>(expected.network.gradient[i]))
                << i;
          }
        }
      }
    }
  }
}

void ExpectSpecError(const std::string& layers, SampleKind samples,
                     const std::string& fragment) {
  try {
    NewGraph(ModelSpec(Spec(layers)), {.channels = 9}, 3, samples);
    ADD_FAILURE() << "nothing thrown; expected " << fragment;
  } catch (const SpecError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(fragment));
  }
}

TEST(SparseLinear, IsTheOneWayInForSparseSamples) {
  ExpectSpecError(R"({"name": "a", "type": "linear", "units": 3})",
                  SampleKind::kSparse,
                  "linear \"a\" reads sparse samples; expected a network that "
                  "starts with {\"type\": \"sparse_linear\"");
  ExpectSpecError(R"({"name": "a", "type": "sparse_linear", "units": 3})",
                  SampleKind::kDense,
                  "sparse_linear \"a\" reads samples that are not sparse");
  ExpectSpecError(
      R"({"name": "a", "type": "sparse_linear", "units": 4},
         {"name": "b", "type": "sparse_linear", "units": 3})",
      SampleKind::kSparse, "sparse_linear \"b\" reads \"a\"");
  // Two of them may read the samples.
  const Graph graph = NewGraph(
      ModelSpec(Spec(R"({"name": "a", "type": "sparse_linear", "units": 3},
                        {"name": "b", "type": "sparse_linear", "units": 3,
                         "from": ["input"]},
                        {"type": "add", "from": ["a", "b"]})")),
      {.channels = 9}, 3, SampleKind::kSparse);
  EXPECT_EQ(graph.nodes.size(), 3u);
}

TEST(SparseLinear, TakesNoMask) {
  const Graph graph =
      NewGraph(ModelSpec(
                   R"({"layers": [{"type": "sparse_linear", "units": 50},
                         {"type": "linear", "units": 3}],
              "sparsity": {"method": "static", "density": 0.5}})"),
               {.channels = 9}, 3, SampleKind::kSparse);
  EXPECT_FALSE(graph.declarations[0].is_sparse());
  EXPECT_TRUE(graph.declarations[2].is_sparse());
}

}  // namespace
}  // namespace lumen::nn
