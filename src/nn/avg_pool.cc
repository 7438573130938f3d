// SPDX-License-Identifier: Apache-2.0
// The mean of a window, as PyTorch's AvgPool2d has it: padding counts as zeros.
// Pixels are added in fp32, row by row.
#include <algorithm>

#include "layers.h"
#include "pool_window.h"

namespace lumen::nn {
namespace {

using Range = PoolWindow::Range;

class AvgPool : public Layer {
 public:
  explicit AvgPool(const PoolWindow& window) : window_(window) {}

  Shape output_shape() const override { return window_.output(); }
  BackwardNeeds backward_needs() const override { return {}; }
  bool adds_gradients() const override { return true; }
  int64_t max_lanes() const override { return kVectorLanes; }
  int64_t MultiplyAdds(std::span<const int64_t>) const override { return 0; }

  void Forward(const LayerContext& context, std::span<const Panel> inputs,
               const Panel& y) const override {
    ForPixels(context, y, [&](int64_t map, int64_t h, int64_t w, float* to) {
      Mean(inputs[0], map, window_.Inputs(0, h), window_.Inputs(1, w), false,
           to);
    });
  }

  void Backward(const LayerContext& context, std::span<const Panel>,
                const Panel&, const Panel& dy,
                std::span<const InputGradient> dx) const override {
    if (dx[0].panel.data == nullptr) return;
    ForPixels(context, dx[0].panel,
              [&](int64_t map, int64_t h, int64_t w, float* to) {
                Mean(dy, map, window_.Outputs(0, h), window_.Outputs(1, w),
                     dx[0].add, to);
              });
  }

 private:
  // task(map, row, column, vector) for each pixel of each channel and tile.
  template <class Task>
  static void ForPixels(const LayerContext& context, const Panel& panel,
                        const Task& task) {
    const int64_t height = panel.shape.height, width = panel.shape.width;
    context.compute->parallel.For(
        panel.layout.tiles * panel.shape.channels, [&](int64_t map) {
          float* to = panel.data + map * height * width * kVectorLanes;
          for (int64_t h = 0; h < height; ++h) {
            for (int64_t w = 0; w < width; ++w) {
              task(map, h, w, to);
              to += kVectorLanes;
            }
          }
        });
  }

  // to (+)= the sum of a rectangle over the area of the window.
  void Mean(const Panel& panel, int64_t map, Range rows, Range columns,
            bool add, float* to) const {
    float sum[kVectorLanes] = {};
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const float* row = panel.data + (map * panel.shape.height + r) *
                                          panel.shape.width * kVectorLanes;
      for (int64_t q = columns.begin; q < columns.end; ++q) {
        for (int64_t l = 0; l < kVectorLanes; ++l) {
          sum[l] += row[q * kVectorLanes + l];
        }
      }
    }
    const auto area = static_cast<float>(window_.area());
    for (int64_t l = 0; l < kVectorLanes; ++l) {
      const float mean = sum[l] / area;
      to[l] = add ? to[l] + mean : mean;
    }
  }

  PoolWindow window_;
};

}  // namespace

const LayerRow kAvgPoolRow = {
    "avg_pool", kPoolKeys, "the mean of each window, padding included",
    [](const Json& spec, const std::string& name,
       std::span<const Shape> inputs) -> std::unique_ptr<Layer> {
      return std::make_unique<AvgPool>(PoolWindow::New(spec, name, inputs));
    }};

}  // namespace lumen::nn
