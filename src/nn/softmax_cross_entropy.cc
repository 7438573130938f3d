// SPDX-License-Identifier: Apache-2.0
// Cross entropy of a softmax over classes, with label smoothing as PyTorch has
// it: the target is (1 - e) on the label plus e / classes everywhere (Szegedy
// et al. 2016, section 7).
#include <glog/logging.h>

#include <algorithm>

#include "layers.h"
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

constexpr std::string_view kMetrics[] = {"accuracy"};

class SoftmaxCrossEntropy : public Loss {
 public:
  SoftmaxCrossEntropy(int64_t classes, double smoothing)
      : classes_(classes), smoothing_(smoothing) {}

  std::span<const std::string_view> metric_names() const override {
    return kMetrics;
  }

  LossSums Compute(const sparse::Compute& compute, const Panel& output,
                   std::span<const int32_t> labels, Mode mode,
                   float scale) const override {
    const int64_t lanes = output.layout.lanes;
    const int64_t vectors = lanes / kVectorLanes;
    const int64_t groups = output.layout.tiles * vectors;
    std::vector<Sample> samples(
        static_cast<size_t>(output.layout.total_lanes()));
    compute.parallel.For(groups, [&](int64_t g) {
      const int64_t lane = g % vectors * kVectorLanes;
      float* z = output.tile(g / vectors) + lane;
      const int64_t first = g / vectors * lanes + lane;
      int32_t label[kVectorLanes];
      for (int64_t l = 0; l < kVectorLanes; ++l) {
        label[l] = first + l < std::ssize(labels)
                       ? labels[static_cast<size_t>(first + l)]
                       : -1;
        CHECK_LT(label[l], classes_);
      }
      Vector(compute, z, lanes, label, mode, scale,
             &samples[static_cast<size_t>(first)]);
    });
    // In sample order, whatever computed them.
    LossSums sums;
    sums.metrics = {0.0};
    for (const Sample& sample : samples) {
      sums.samples += sample.valid;
      sums.loss += sample.loss;
      sums.metrics[0] += sample.correct;
    }
    return sums;
  }

 private:
  struct Sample {
    int valid = 0;
    int correct = 0;
    double loss = 0;
  };

  // 16 samples; z advances by `lanes` per class.
  void Vector(const sparse::Compute& compute, float* z, int64_t lanes,
              const int32_t* label, Mode mode, float scale,
              Sample* samples) const {
    const double spread = smoothing_ / static_cast<double>(classes_);
    double expected[kVectorLanes];  // score expected under the target
    for (int64_t l = 0; l < kVectorLanes; ++l) {
      expected[l] = 0;
      if (label[l] < 0) continue;
      double sum = 0;
      int64_t best = 0;
      for (int64_t c = 0; c < classes_; ++c) {
        const float score = z[c * lanes + l];
        sum += static_cast<double>(score);
        if (score > z[best * lanes + l]) best = c;
      }
      expected[l] =
          (1 - smoothing_) * static_cast<double>(z[label[l] * lanes + l]) +
          spread * sum;
      samples[l].valid = 1;
      samples[l].correct = best == label[l];
    }
    float largest[kVectorLanes];
    float total[kVectorLanes];
    compute->softmax(z, classes_, lanes, largest, total);
    for (int64_t l = 0; l < kVectorLanes; ++l) {
      if (label[l] < 0) continue;
      samples[l].loss = Log(static_cast<double>(total[l])) +
                        static_cast<double>(largest[l]) - expected[l];
    }
    if (mode == kWithGradient) Gradient(z, lanes, label, scale, spread);
  }

  void Gradient(float* z, int64_t lanes, const int32_t* label, float scale,
                double spread) const {
    const auto everywhere = static_cast<float>(spread);
    const auto on_label = static_cast<float>(1 - smoothing_ + spread);
    for (int64_t c = 0; c < classes_; ++c) {
      float* p = z + c * lanes;
      for (int64_t l = 0; l < kVectorLanes; ++l) {
        const float target = label[l] == c ? on_label : everywhere;
        p[l] = label[l] < 0 ? 0.0f : (p[l] - target) * scale;
      }
    }
  }

  int64_t classes_;
  double smoothing_;
};

}  // namespace

const LossRow kSoftmaxCrossEntropyRow = {
    "softmax_cross_entropy", kKeys, "one class per sample",
    [](const Json& spec, int64_t classes) -> std::unique_ptr<Loss> {
      return std::make_unique<SoftmaxCrossEntropy>(
          classes, spec.at("label_smoothing").number());
    }};

}  // namespace lumen::nn
