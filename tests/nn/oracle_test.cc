// SPDX-License-Identifier: Apache-2.0
// Whole models against plain loops in double, and against themselves without an
// arena.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "network.h"
#include "random_graph.h"

namespace lumen::nn {
namespace {

using Matrix = std::vector<std::vector<double>>;  // [row][column]

// A tensor, or its gradient, as a dense matrix.
Matrix Dense(const Parameter& tensor, std::span<const float> flat) {
  const int64_t rows = tensor.decl.shape[0];
  const int64_t columns = tensor.decl.dense_size() / rows;
  Matrix dense(rows, std::vector<double>(columns, 0.0));
  std::vector<int64_t> positions(static_cast<size_t>(tensor.size()));
  tensor.Positions(0, positions);
  for (size_t i = 0; i < positions.size(); ++i) {
    dense[positions[i] / columns][positions[i] % columns] =
        flat[static_cast<size_t>(tensor.offset) + i];
  }
  return dense;
}

// Perceptron linear, relu, linear, cross entropy with smoothing.
struct Perceptron {
  Matrix w1, b1, w2, b2;      // parameters
  Matrix dw1, db1, dw2, db2;  // gradients
  double loss = 0;

  void Add(const std::vector<double>& x, int label, double smoothing) {
    const size_t hidden = w1.size(), classes = w2.size();
    std::vector<double> h(hidden), z(classes), dz(classes), dh(hidden, 0.0);
    for (size_t o = 0; o < hidden; ++o) {
      h[o] = b1[o][0];
      for (size_t i = 0; i < x.size(); ++i) h[o] += w1[o][i] * x[i];
      h[o] = std::max(0.0, h[o]);
    }
    double total = 0;
    for (size_t c = 0; c < classes; ++c) {
      z[c] = b2[c][0];
      for (size_t o = 0; o < hidden; ++o) z[c] += w2[c][o] * h[o];
      total += std::exp(z[c]);
    }
    for (size_t c = 0; c < classes; ++c) {
      const double target =
          smoothing / static_cast<double>(classes) +
          (static_cast<size_t>(label) == c ? 1 - smoothing : 0.0);
      loss -= target * (z[c] - std::log(total));
      dz[c] = std::exp(z[c]) / total - target;
      db2[c][0] += dz[c];
      for (size_t o = 0; o < hidden; ++o) {
        dw2[c][o] += dz[c] * h[o];
        dh[o] += dz[c] * w2[c][o];
      }
    }
    for (size_t o = 0; o < hidden; ++o) {
      if (h[o] <= 0) continue;
      db1[o][0] += dh[o];
      for (size_t i = 0; i < x.size(); ++i) dw1[o][i] += dh[o] * x[i];
    }
  }
};

void ExpectAgrees(const std::string& sparsity, int64_t batch) {
  Network network(R"({"layers": [{"type": "linear", "units": 33},
                                 {"type": "relu"},
                                 {"type": "linear", "units": 7}],
                      "loss": {"type": "softmax_cross_entropy",
                               "label_smoothing": 0.1},
                      "sparsity": )" +
                      sparsity + "}",
                  {21}, 7, batch, NewCompute(sparse::DetectIsa(), 2));
  const ParameterSet& parameters = network.model->parameters();
  std::vector<Matrix> dense;
  for (const Parameter& tensor : parameters.tensors()) {
    dense.push_back(Dense(tensor, parameters.values()));
  }
  const auto zero = [](Matrix m) {
    for (auto& row : m) std::fill(row.begin(), row.end(), 0.0);
    return m;
  };
  Perceptron oracle{dense[0],       dense[1],       dense[2],
                    dense[3],       zero(dense[0]), zero(dense[1]),
                    zero(dense[2]), zero(dense[3])};
  for (int64_t s = 0; s < batch; ++s) {
    std::vector<double> x;
    for (int64_t e = 0; e < 21; ++e) x.push_back(network.At(s, e));
    oracle.Add(x, network.labels[static_cast<size_t>(s)], 0.1);
  }
  const LossSums sums = network.ForwardBackward();
  const double scale = static_cast<double>(batch);
  EXPECT_NEAR(sums.loss, oracle.loss, 1e-6 * oracle.loss);
  const Matrix* expected[] = {&oracle.dw1, &oracle.db1, &oracle.dw2,
                              &oracle.db2};
  for (size_t t = 0; t < 4; ++t) {
    const Parameter& tensor = parameters.tensors()[t];
    const Matrix actual = Dense(tensor, network.gradient);
    const Matrix present =
        Dense(tensor, std::vector<float>(network.gradient.size(), 1.0f));
    for (size_t r = 0; r < actual.size(); ++r) {
      for (size_t c = 0; c < actual[r].size(); ++c) {
        if (present[r][c] == 0) continue;  // absent: has no gradient
        EXPECT_NEAR(actual[r][c], (*expected[t])[r][c], 2e-6 * scale)
            << tensor.decl.name << " " << r << " " << c;
      }
    }
  }
}

TEST(Oracle, LossAndGradientsAreThoseOfAPerceptronInDouble) {
  for (int64_t batch : {1, 16, 21, 128, 150, 300}) {
    ExpectAgrees(R"({"method": "dense"})", batch);
    ExpectAgrees(R"({"method": "static", "density": 0.3})", batch);
  }
}

// The network pass by pass, with memory of its own for every output, every
// gradient and every contribution to one.
class WithoutArena {
 public:
  explicit WithoutArena(Network* network)
      : network_(network), graph_(network->model->graph()) {
    gradient.resize(network->gradient.size());
    next_statistics.resize(network->statistics.size());
    Forward();
    Backward();
  }

  std::vector<float> gradient;
  std::vector<float> next_statistics;

 private:
  Panel NewPanel(const Shape& shape) {
    Panel panel{nullptr, shape, network_->layout};
    panel.data = NewMemory(panel.size());
    return panel;
  }
  float* NewMemory(int64_t floats) {
    memory_.emplace_back(floats);
    return memory_.back().data();
  }
  Panel Output(int node) {
    return node < 0 ? network_->x : output_[static_cast<size_t>(node)];
  }
  std::vector<Panel> Inputs(const Node& node) {
    std::vector<Panel> inputs;
    for (int input : node.inputs) inputs.push_back(Output(input));
    return inputs;
  }

  std::vector<BoundParameter> Bind(const Node& node) {
    const ParameterSet& parameters = network_->model->parameters();
    std::vector<BoundParameter> bound;
    for (int p = 0; p < node.parameters; ++p) {
      const Parameter& tensor =
          parameters.tensors()[static_cast<size_t>(node.first_parameter + p)];
      bound.push_back({parameters.values(tensor).data(),
                       gradient.data() + tensor.offset, tensor.rows.get()});
    }
    return bound;
  }
  LayerContext Context(size_t i, std::span<const BoundParameter> bound) {
    const Node& node = graph_.nodes[i];
    return {.compute = &network_->compute,
            .parameters = bound,
            .kind = PassKind::kTraining,
            .seed = 1,
            .layer_index = static_cast<uint32_t>(i),
            .epoch = network_->epoch,
            .samples = network_->samples,
            .labels = network_->labels,
            .scratch = NewMemory(node.layer->scratch_floats(network_->layout)),
            .saved = saved_[i],
            .statistics = network_->statistics.data() + node.first_statistic,
            .next_statistics = next_statistics.data() + node.first_statistic};
  }

  void Forward() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      saved_.push_back(NewMemory(node.layer->saved_floats(network_->layout)));
      output_.push_back(NewPanel(node.layer->output_shape()));
      const auto bound = Bind(node);
      node.layer->Forward(Context(i, bound), Inputs(node), output_[i]);
    }
  }

  void Backward() {
    std::vector<Panel> dy(graph_.nodes.size());
    dy.back() = NewPanel(graph_.output());
    std::copy_n(output_.back().data, output_.back().size(), dy.back().data);
    network_->loss->Compute(network_->compute, dy.back(), network_->targets(),
                            Loss::kWithGradient, 1);
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = graph_.nodes[i];
      std::vector<InputGradient> dx;
      for (int input : node.inputs) {
        dx.push_back({NewPanel(Output(input).shape)});
      }
      const auto bound = Bind(node);
      node.layer->Backward(Context(i, bound), Inputs(node), output_[i], dy[i],
                           dx);
      for (size_t k = 0; k < dx.size(); ++k) {
        if (node.inputs[k] < 0) continue;
        Panel& sum = dy[static_cast<size_t>(node.inputs[k])];
        if (sum.data == nullptr) {
          sum = dx[k].panel;
        } else {
          network_->compute->add(dx[k].panel.data, sum.data, sum.size());
        }
      }
    }
  }

  Network* network_;
  const Graph& graph_;
  std::vector<Buffer<float>> memory_;
  std::vector<Panel> output_;
  std::vector<float*> saved_;
};

TEST(Oracle, SharedMemoryChangesNoBits) {
  const char* const kLayers[] = {
      R"([{"type": "flatten"}])",
      R"([{"type": "flatten"}, {"type": "flatten"},
          {"type": "linear", "units": 12}])",
      R"([{"type": "relu"}, {"type": "flatten"},
          {"type": "linear", "units": 12}, {"type": "flatten"}])",
      R"([{"type": "flatten"}, {"type": "dropout", "rate": 0.5},
          {"type": "linear", "units": 12}, {"type": "dropout", "rate": 0.2}])",
      R"([{"type": "flatten"}, {"type": "linear", "units": 40},
          {"type": "relu"}, {"type": "flatten"}, {"type": "relu"},
          {"type": "dropout", "rate": 0.3}, {"type": "relu"},
          {"type": "linear", "units": 30}, {"type": "relu"},
          {"type": "flatten"}, {"type": "linear", "units": 12}])",
      R"([{"type": "flatten"}, {"type": "linear", "units": 12},
          {"type": "relu"}, {"type": "flatten"}])",
      R"([{"type": "flatten"}, {"type": "linear", "units": 50},
          {"type": "flatten"}, {"type": "dropout", "rate": 0.5},
          {"type": "relu"}, {"type": "linear", "units": 12},
          {"type": "dropout", "rate": 0.5}, {"type": "flatten"}])",
  };
  for (const char* layers : kLayers) {
    SCOPED_TRACE(layers);
    Network network(std::string("{\"layers\": ") + layers + "}", {3, 1, 2, 2},
                    12, 37, NewCompute(sparse::DetectIsa(), 1));
    const std::vector<float> input = network.storage;
    // Twice: nothing of the first pass may matter to the second.
    network.ForwardBackward();
    network.ForwardBackward();
    EXPECT_EQ(network.gradient, WithoutArena(&network).gradient);
    EXPECT_EQ(network.storage, input);
  }
}

TEST(Oracle, SharedMemoryChangesNoBitsOfRandomGraphs) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const std::string spec = "{\"layers\": " + RandomLayers(seed) + "}";
    SCOPED_TRACE(spec);
    Network network(spec, kRandomGraphInput, kRandomGraphClasses, 1 + seed % 20,
                    NewCompute(sparse::DetectIsa(), 1));
    const std::vector<float> input = network.storage;
    network.ForwardBackward();
    network.ForwardBackward();
    const WithoutArena expected(&network);
    EXPECT_EQ(network.gradient, expected.gradient);
    EXPECT_EQ(network.next_statistics, expected.next_statistics);
    EXPECT_EQ(network.storage, input);
  }
}

TEST(Oracle, WhatIsComputedAgainChangesNoBits) {
  const sparse::Compute compute = NewCompute(sparse::DetectIsa(), 1);
  int smaller = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const std::string spec = "{\"layers\": " + RandomLayers(seed) + "}";
    SCOPED_TRACE(spec);
    const auto graph = [&] {
      return NewGraph(ModelSpec(spec), kRandomGraphInput, kRandomGraphClasses);
    };
    const int64_t batch = 1 + seed % 20;
    const std::vector<int> cuts =
        ChooseCuts(graph(), LayoutFor(graph(), batch), 0);
    Network plain(spec, graph(), batch, compute, 1);
    Network network(spec, graph(), batch, compute, 1, {.cuts = cuts});
    smaller += network.model->arena_bytes() < plain.model->arena_bytes();
    EXPECT_EQ(network.model->arena_bytes(),
              ArenaBytes(graph(), LayoutFor(graph(), batch), {.cuts = cuts}));
    for (int pass = 0; pass < 2; ++pass) {
      EXPECT_EQ(network.ForwardBackward().loss, plain.ForwardBackward().loss);
      EXPECT_EQ(network.gradient, plain.gradient);
      EXPECT_EQ(network.next_statistics, plain.next_statistics);
    }
  }
  EXPECT_GT(smaller, 20);
}

TEST(Oracle, EvaluationAloneNeedsLessMemory) {
  const sparse::Compute compute = NewCompute(sparse::DetectIsa(), 1);
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const std::string spec = "{\"layers\": " + RandomLayers(seed) + "}";
    SCOPED_TRACE(spec);
    const auto graph = [&] {
      return NewGraph(ModelSpec(spec), kRandomGraphInput, kRandomGraphClasses);
    };
    Network plain(spec, graph(), 5, compute, 1);
    Network network(spec, graph(), 5, compute, 1,
                    {.passes = PassKind::kEvaluation});
    EXPECT_LE(network.model->arena_bytes(), plain.model->arena_bytes());
    EXPECT_EQ(network.Forward(PassKind::kEvaluation).loss,
              plain.Forward(PassKind::kEvaluation).loss);
  }
}

}  // namespace
}  // namespace lumen::nn
