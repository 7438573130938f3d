// SPDX-License-Identifier: Apache-2.0
// A small residual network that PyTorch wrote: its outputs, gradients and three
// SGD steps again, from each format of its weights.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "lumen/core/file.h"
#include "lumen/data/npz.h"
#include "lumen/data/tensor_file.h"
#include "lumen/nn/loss.h"
#include "lumen/nn/model.h"
#include "lumen/train/optimizer.h"

namespace lumen::train {
namespace {

const std::string kFolder = LUMEN_SHARED_DATA "/formats/";
constexpr int64_t kClasses = 10;

Json Resolved(const std::string& text, std::span<const Key> keys) {
  return Resolve(Json::Parse(text, "test"), keys);
}

// |a - b| over |b|, in the 2-norm.
double Distance(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    norm += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / norm);
}

class Formats : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kFolder)) {
      GTEST_SKIP() << kFolder << " is not here";
    }
    const Json spec = Resolved(
        R"({"preset": {"type": "resnet", "blocks": [1, 1], "width": 8}})",
        nn::ModelKeys());
    nn::Graph graph = nn::NewGraph(
        spec, {.channels = 3, .height = 40, .width = 56}, kClasses);
    for (auto& [name, tensor] : data::ReadTensorFile(kFolder + GetParam())) {
      tensors_[name] = {tensor.shape, tensor.values};
    }
    nn::Graph copy;
    copy.declarations = graph.declarations;
    copy.statistics = graph.statistics;
    const LaneLayout layout = nn::LayoutFor(graph, 4);
    model_ = std::make_unique<nn::Model>(
        std::move(graph), layout, 1, compute_,
        nn::ImportSource(tensors_, copy,
                         nn::SeedSource(copy, 1, compute_.parallel)));
    loss_ = nn::NewLoss(spec.at("loss"), kClasses);

    const std::vector<float> x = data::ReadNpy(kFolder + "input.npy").ToFloat();
    const int64_t elements = model_->graph().input.elements();
    x_ = Buffer<float>(elements * kVectorLanes);
    for (int64_t s = 0; s < 4; ++s) {
      for (int64_t e = 0; e < elements; ++e) {
        x_[e * kVectorLanes + s] = x[static_cast<size_t>(s * elements + e)];
      }
    }
    next_.resize(model_->statistics().size());
    gradient_.resize(static_cast<size_t>(model_->parameters().size()));
  }

  Panel Input() { return {x_.data(), model_->graph().input, model_->layout()}; }

  // A training pass; returns the loss.
  double Step() {
    const std::vector<float> statistics(model_->statistics().begin(),
                                        model_->statistics().end());
    const nn::Model::Pass pass{.kind = nn::PassKind::kTraining,
                               .samples = samples_,
                               .labels = labels_,
                               .statistics = statistics,
                               .next_statistics = next_};
    const Panel output = model_->Forward(Input(), pass);
    const nn::LossSums sums =
        loss_->Compute(compute_, output, {.labels = labels_, .values = {}},
                       nn::Loss::kWithGradient, 0.25f);
    model_->Backward(Input(), output, pass, gradient_, [](int) {});
    std::copy(next_.begin(), next_.end(), model_->statistics().begin());
    return sums.loss / 4;
  }

  sparse::Compute compute_{&sparse::Kernels(sparse::AvailableIsas().back()),
                           Parallel(1)};
  nn::ImportedTensors tensors_;
  std::unique_ptr<nn::Model> model_;
  std::unique_ptr<nn::Loss> loss_;
  Buffer<float> x_;
  std::vector<float> next_, gradient_;
  const std::vector<int32_t> labels_ = {1, 3, 5, 7};
  const std::vector<uint64_t> samples_ = {0, 1, 2, 3};
};

INSTANTIATE_TEST_SUITE_P(Files, Formats,
                         testing::Values("tiny_resnet.npz",
                                         "tiny_resnet_compressed.npz",
                                         "tiny_resnet.safetensors"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '.' ? '_' : c;
                           return name;
                         });

TEST_P(Formats, OutputsAreThoseOfPyTorch) {
  const std::vector<float> expected =
      data::ReadNpy(kFolder + "output.npy").ToFloat();
  const Panel output = model_->Forward(Input(), {.samples = samples_,
                                                 .labels = labels_,
                                                 .statistics = {},
                                                 .next_statistics = {}});
  for (int64_t s = 0; s < 4; ++s) {
    for (int64_t c = 0; c < kClasses; ++c) {
      EXPECT_NEAR(output.data[c * kVectorLanes + s],
                  expected[static_cast<size_t>(s * kClasses + c)], 1e-5);
    }
  }
}

TEST_P(Formats, GradientsAreThoseOfPyTorch) {
  Step();
  const auto expected = data::ReadNpz(kFolder + "grads_step0.npz");
  for (const nn::Parameter& tensor : model_->parameters().tensors()) {
    const auto ours = std::span<const float>(gradient_).subspan(
        static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.size()));
    EXPECT_LT(Distance(ours, expected.at(tensor.decl.name).ToFloat()), 1e-4)
        << tensor.decl.name;
  }
}

TEST_P(Formats, ThreeStepsEndWherePyTorchDoes) {
  const Json train = Json::Parse(ReadFile(kFolder + "train3.json"), "train3");
  const Json sgd = Resolved(
      R"({"optimizer": {"type": "sgd", "momentum": 0.9, "weight_decay": 1e-4}})",
      std::vector<Key>{{.name = "optimizer",
                        .kind = KeyKind::kVariant,
                        .variants = OptimizerVariants}});
  const auto optimizer =
      NewOptimizer(sgd.at("optimizer"), model_->parameters());
  for (int64_t step = 0; step < 3; ++step) {
    const double expected =
        train.at("losses").items()[static_cast<size_t>(step)].number();
    EXPECT_NEAR(Step(), expected, 1e-4 * expected) << step;
    optimizer->Apply(compute_, &model_->parameters(), 0, gradient_, 0.1, step);
    model_->parameters().Refresh(compute_.parallel);
  }
  const auto expected = data::ReadNpz(kFolder + "after3_sgd.npz");
  for (const nn::Parameter& tensor : model_->parameters().tensors()) {
    EXPECT_LT(Distance(std::as_const(*model_).parameters().values(tensor),
                       expected.at(tensor.decl.name).ToFloat()),
              1e-3)
        << tensor.decl.name;
  }
  size_t begin = 0;
  for (const nn::StatisticDecl& statistic : model_->graph().statistics) {
    const auto size = static_cast<size_t>(statistic.size);
    EXPECT_LT(Distance(model_->statistics().subspan(begin, size),
                       expected.at(statistic.name).ToFloat()),
              1e-3)
        << statistic.name;
    begin += size;
  }
}

}  // namespace
}  // namespace lumen::train
