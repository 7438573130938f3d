// SPDX-License-Identifier: Apache-2.0
// Mean squared error, as PyTorch's MSELoss has it: every output of every sample
// counts alike.
#include <cmath>

#include "layers.h"
#include "loss_vectors.h"

namespace lumen::nn {
namespace {

constexpr std::string_view kMetrics[] = {"mae"};

void Vector(const LossVector& vector, Loss::Mode mode, float scale,
            SampleLoss* samples) {
  const auto outputs = static_cast<double>(vector.outputs);
  const auto factor = static_cast<float>(2 * double{scale} / outputs);
  double squares[kVectorLanes] = {};
  double absolutes[kVectorLanes] = {};
  for (int64_t c = 0; c < vector.outputs; ++c) {
    float* y = vector.output + c * vector.stride;
    for (int64_t l = 0; l < kVectorLanes; ++l) {
      const float error =
          vector.label[l] < 0 ? 0.0f : y[l] - vector.Target(c, l);
      squares[l] += double{error} * double{error};
      absolutes[l] += std::abs(double{error});
      if (mode == Loss::kWithGradient) y[l] = error * factor;
    }
  }
  for (int64_t l = 0; l < kVectorLanes; ++l) {
    samples[l].valid = vector.label[l] >= 0;
    samples[l].loss = squares[l] / outputs;
    samples[l].metrics[0] = absolutes[l] / outputs;
  }
}

class Mse : public Loss {
 public:
  std::span<const std::string_view> metric_names() const override {
    return kMetrics;
  }

  LossSums Compute(const sparse::Compute& compute, const Panel& output,
                   const Targets& targets, Mode mode,
                   float scale) const override {
    return SumLossVectors(compute, output, targets, std::size(kMetrics),
                          [&](const LossVector& vector, SampleLoss* samples) {
                            Vector(vector, mode, scale, samples);
                          });
  }
};

}  // namespace

const LossRow kMseRow = {
    "mse",
    {},
    "squared error, the mean over samples of the mean over outputs; targets "
    "are "
    "the values of the data, or 1 for the class and 0 for the others (with one "
    "output: the label, 0 or 1)",
    LossRow::kLabelsOrValues,
    [](const Json& /*spec*/, int64_t /*classes*/) -> std::unique_ptr<Loss> {
      return std::make_unique<Mse>();
    }};

}  // namespace lumen::nn
