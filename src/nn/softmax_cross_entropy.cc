// SPDX-License-Identifier: Apache-2.0
// Cross entropy of a softmax over classes, with label smoothing as PyTorch has
// it: the target is (1 - e) on the label plus e / classes everywhere (Szegedy
// et al. 2016, section 7).
#include <glog/logging.h>

#include "layers.h"
#include "loss_vectors.h"
#include "lumen/core/math.h"

namespace lumen::nn {
namespace {

constexpr Key kKeys[] = {
    {.name = "label_smoothing",
     .kind = KeyKind::kNumber,
     .fallback = "0",
     .help = "share of the target spread over all classes",
     .minimum = 0,
     .maximum = 1},
};

constexpr std::string_view kMetrics[] = {"accuracy", "top5"};

class SoftmaxCrossEntropy : public Loss {
 public:
  SoftmaxCrossEntropy(int64_t classes, double smoothing)
      : classes_(classes), smoothing_(smoothing) {}

  std::span<const std::string_view> metric_names() const override {
    // Among five classes the right one is always one of the best five.
    return std::span(kMetrics).first(classes_ > 5 ? 2 : 1);
  }

  LossSums Compute(const sparse::Compute& compute, const Panel& output,
                   const Targets& targets, Mode mode,
                   float scale) const override {
    CHECK(targets.values.data == nullptr);
    return SumLossVectors(compute, output, targets, metric_names().size(),
                          [&](const LossVector& vector, SampleLoss* samples) {
                            Vector(compute, vector, mode, scale, samples);
                          });
  }

 private:
  void Vector(const sparse::Compute& compute, const LossVector& vector,
              Mode mode, float scale, SampleLoss* samples) const {
    float* z = vector.output;
    const int64_t stride = vector.stride;
    double expected[kVectorLanes] = {};  // score expected under the target
    for (int64_t l = 0; l < kVectorLanes; ++l) {
      const int64_t label = vector.label[l];
      if (label < 0) continue;
      CHECK_LT(label, classes_);
      double sum = 0;
      for (int64_t c = 0; c < classes_; ++c) {
        sum += static_cast<double>(z[c * stride + l]);
      }
      expected[l] =
          (1 - smoothing_) * static_cast<double>(z[label * stride + l]) +
          smoothing_ / static_cast<double>(classes_) * sum;
      const int64_t rank = Rank(z + l, stride, label);
      samples[l].valid = 1;
      samples[l].metrics[0] = rank == 0;
      samples[l].metrics[1] = rank < 5;
    }
    float largest[kVectorLanes];
    float total[kVectorLanes];
    compute->softmax(z, classes_, stride, largest, total);
    for (int64_t l = 0; l < kVectorLanes; ++l) {
      if (vector.label[l] < 0) continue;
      samples[l].loss = Log(static_cast<double>(total[l])) +
                        static_cast<double>(largest[l]) - expected[l];
    }
    if (mode == kWithGradient) Gradient(vector, scale);
  }

  // How many classes come before this one: those with a higher score, or with
  // the same one and a lower number. One that is not a number comes last.
  int64_t Rank(const float* z, int64_t stride, int64_t label) const {
    const float score = z[label * stride];
    int64_t rank = 0;
    for (int64_t c = 0; c < classes_; ++c) {
      const float other = z[c * stride];
      const bool behind = c < label ? other < score : other <= score;
      rank += c != label && !behind;
    }
    return rank;
  }

  void Gradient(const LossVector& vector, float scale) const {
    const double spread = smoothing_ / static_cast<double>(classes_);
    const auto everywhere = static_cast<float>(spread);
    const auto on_label = static_cast<float>(1 - smoothing_ + spread);
    for (int64_t c = 0; c < classes_; ++c) {
      float* p = vector.output + c * vector.stride;
      for (int64_t l = 0; l < kVectorLanes; ++l) {
        const float target = vector.label[l] == c ? on_label : everywhere;
        p[l] = vector.label[l] < 0 ? 0.0f : (p[l] - target) * scale;
      }
    }
  }

  int64_t classes_;
  double smoothing_;
};

}  // namespace

const LossRow kSoftmaxCrossEntropyRow = {
    "softmax_cross_entropy", kKeys, "one class per sample", LossRow::kLabels,
    [](const Json& spec, int64_t classes) -> std::unique_ptr<Loss> {
      return std::make_unique<SoftmaxCrossEntropy>(
          classes, spec.at("label_smoothing").number());
    }};

}  // namespace lumen::nn
