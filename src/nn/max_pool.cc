// SPDX-License-Identifier: Apache-2.0
// The maximum of a window, as PyTorch's MaxPool2d has it: padding counts as
// -inf, a NaN wins, and the gradient goes to the first pixel of the window, row
// by row, that has the maximum.
#include <algorithm>
#include <limits>
#include <vector>

#include "layers.h"
#include "pool_window.h"

namespace lumen::nn {
namespace {

class MaxPool : public Layer {
 public:
  explicit MaxPool(const PoolWindow& window) : window_(window) {}

  Shape output_shape() const override { return window_.output(); }
  // The maximum is looked for again, which costs less than keeping its place.
  BackwardNeeds backward_needs() const override { return {.inputs = true}; }
  // Where windows overlap, their sum comes first.
  bool adds_gradients() const override { return window_.is_apart(); }
  int64_t max_lanes() const override { return kVectorLanes; }
  StripUse strip_use() const override {
    return window_.outputs(1) * window_.stride[1] == window_.input.width &&
                   Beside() <= window_.input.width
               ? StripUse::kKeeps
               : StripUse::kRefuses;
  }
  int64_t MultiplyAdds(std::span<const int64_t>) const override { return 0; }

  void Forward(const LayerContext& context, std::span<const Panel> inputs,
               const Panel& y) const override {
    if (y.layout.strips > 1) return ForwardStrips(context, inputs[0], y);
    ForMaps(context, inputs[0], y, [&](const float* from, float* to) {
      ForOutputs([&](const Window& window) {
        Maximum best(from + window.first);
        ForPixels(window, [&](int32_t at) { best.Take(from, at); });
        std::copy_n(best.value, kVectorLanes, to);
        to += kVectorLanes;
      });
    });
  }

  void Backward(const LayerContext& context, std::span<const Panel> inputs,
                const Panel&, const Panel& dy,
                std::span<const InputGradient> dx) const override {
    if (dx[0].panel.data == nullptr) return;
    if (dy.layout.strips > 1) {
      return BackwardStrips(context, inputs[0], dy, dx[0]);
    }
    const int64_t map = window_.pixels() * kVectorLanes;
    const float* x = inputs[0].data;
    ForMaps(context, dx[0].panel, dy, [&](float* to, const float* from) {
      if (!dx[0].add) std::fill_n(to, map, 0.0f);
      const float* values = x + (to - dx[0].panel.data);
      ForOutputs([&](const Window& window) {
        Place best(values + window.first, static_cast<int32_t>(window.first));
        ForPixels(window, [&](int32_t at) { best.Take(values, at); });
        for (int64_t l = 0; l < kVectorLanes; ++l)
          to[best.at[l] + l] += from[l];
        from += kVectorLanes;
      });
    });
  }

 private:
  // Columns that windows read beside their strip.
  int64_t Beside() const {
    return std::max(window_.size[1], window_.padding[1]);
  }
  // The window over a strip with the columns beside it.
  PoolWindow Widened() const {
    PoolWindow wide = window_;
    wide.input.width += 2 * Beside();
    return wide;
  }

  // A map of strips with columns of the neighbours beside each; -inf beyond the
  // image.
  std::vector<float> WithNeighbours(const float* map, int64_t strips) const {
    const int64_t width = window_.input.width, beside = Beside();
    const int64_t wide = width + 2 * beside;
    std::vector<float> result(
        static_cast<size_t>(window_.input.height * wide * kVectorLanes));
    float* to = result.data();
    for (int64_t r = 0; r < window_.input.height; ++r) {
      for (int64_t q = -beside; q < width + beside; ++q) {
        const int64_t side = q < 0 ? -1 : q >= width ? 1 : 0;
        const float* from = map + (r * width + q - side * width) * kVectorLanes;
        for (int64_t l = 0; l < kVectorLanes; ++l) {
          const int64_t lane = l + side;
          const bool inside = side == 0 || (lane >= 0 && lane < strips);
          to[l] = inside ? from[lane] : -std::numeric_limits<float>::infinity();
        }
        to += kVectorLanes;
      }
    }
    return result;
  }

  // task(window) of each output, with the offsets of a widened map.
  template <class Task>
  void ForWideOutputs(const Task& task) const {
    const PoolWindow wide = Widened();
    for (int64_t h = 0; h < window_.outputs(0); ++h) {
      const PoolWindow::Range rows = window_.Inputs(0, h);
      for (int64_t w = 0; w < window_.outputs(1); ++w) {
        const int64_t begin =
            Beside() + w * window_.stride[1] - window_.padding[1];
        const PoolWindow::Range columns = {begin, begin + window_.size[1]};
        task(rows, columns, wide.input.width);
      }
    }
  }

  void ForwardStrips(const LayerContext& context, const Panel& x,
                     const Panel& y) const {
    ForMaps(context, x, y, [&](const float* from, float* to) {
      const std::vector<float> map = WithNeighbours(from, y.layout.strips);
      ForWideOutputs([&](PoolWindow::Range rows, PoolWindow::Range columns,
                         int64_t width) {
        Maximum best(map.data() +
                     (rows.begin * width + columns.begin) * kVectorLanes);
        for (int64_t r = rows.begin; r < rows.end; ++r) {
          for (int64_t q = columns.begin; q < columns.end; ++q) {
            best.Take(map.data(),
                      static_cast<int32_t>((r * width + q) * kVectorLanes));
          }
        }
        std::copy_n(best.value, kVectorLanes, to);
        to += kVectorLanes;
      });
    });
  }

  void BackwardStrips(const LayerContext& context, const Panel& x,
                      const Panel& dy, const InputGradient& dx) const {
    const int64_t strips = dy.layout.strips;
    ForMaps(context, dx.panel, dy, [&](float* to, const float* from) {
      const std::vector<float> map =
          WithNeighbours(x.data + (to - dx.panel.data), strips);
      std::vector<float> gradient(map.size());
      ForWideOutputs([&](PoolWindow::Range rows, PoolWindow::Range columns,
                         int64_t width) {
        const auto first = static_cast<int32_t>(
            (rows.begin * width + columns.begin) * kVectorLanes);
        Place best(map.data() + first, first);
        for (int64_t r = rows.begin; r < rows.end; ++r) {
          for (int64_t q = columns.begin; q < columns.end; ++q) {
            best.Take(map.data(),
                      static_cast<int32_t>((r * width + q) * kVectorLanes));
          }
        }
        for (int64_t l = 0; l < strips; ++l) {
          gradient[static_cast<size_t>(best.at[l] + l)] += from[l];
        }
        from += kVectorLanes;
      });
      AddStrips(gradient, strips, dx.add, to);
    });
  }

  // What was found beside a strip belongs to its neighbour.
  void AddStrips(const std::vector<float>& gradient, int64_t strips, bool add,
                 float* to) const {
    const int64_t width = window_.input.width, beside = Beside();
    const int64_t wide = width + 2 * beside;
    if (!add) std::fill_n(to, window_.pixels() * kVectorLanes, 0.0f);
    const float* from = gradient.data();
    for (int64_t r = 0; r < window_.input.height; ++r) {
      for (int64_t q = 0; q < wide; ++q, from += kVectorLanes) {
        const int64_t column = q - beside;
        const int64_t side = column < 0 ? -1 : column >= width ? 1 : 0;
        float* pixel = to + (r * width + column - side * width) * kVectorLanes;
        for (int64_t l = 0; l < strips; ++l) {
          const int64_t lane = l + side;
          if (lane >= 0 && lane < strips) pixel[lane] += from[l];
        }
      }
    }
  }

  // Of one output; offsets in floats.
  struct Window {
    PoolWindow::Range rows, columns;
    int64_t first = 0;
  };

  // Per lane.
  struct Maximum {
    explicit Maximum(const float* first) {
      std::copy_n(first, kVectorLanes, value);
    }
    void Take(const float* x, int32_t at) {
      for (int64_t l = 0; l < kVectorLanes; ++l) {
        const float v = x[at + l];
        value[l] = v > value[l] || v != v ? v : value[l];
      }
    }
    float value[kVectorLanes];
  };
  struct Place {
    Place(const float* first, int32_t offset) {
      std::copy_n(first, kVectorLanes, value);
      std::fill_n(at, kVectorLanes, offset);
    }
    void Take(const float* x, int32_t offset) {
      for (int64_t l = 0; l < kVectorLanes; ++l) {
        const float v = x[offset + l];
        const bool wins = v > value[l] || v != v;
        value[l] = wins ? v : value[l];
        at[l] = wins ? offset : at[l];
      }
    }
    float value[kVectorLanes];
    int32_t at[kVectorLanes];
  };

  // task(map of a, map of b) for each channel of each tile.
  template <class Task>
  void ForMaps(const LayerContext& context, const Panel& a, const Panel& b,
               const Task& task) const {
    const int64_t a_map = a.shape.height * a.shape.width * kVectorLanes;
    const int64_t b_map = b.shape.height * b.shape.width * kVectorLanes;
    context.compute->parallel.For(
        a.layout.tiles * a.shape.channels,
        [&](int64_t i) { task(a.data + i * a_map, b.data + i * b_map); });
  }

  template <class Task>
  void ForOutputs(const Task& task) const {
    for (int64_t h = 0; h < window_.outputs(0); ++h) {
      const PoolWindow::Range rows = window_.Inputs(0, h);
      for (int64_t w = 0; w < window_.outputs(1); ++w) {
        const PoolWindow::Range columns = window_.Inputs(1, w);
        task(Window{rows, columns, Offset(rows.begin, columns.begin)});
      }
    }
  }
  template <class Task>
  void ForPixels(const Window& window, const Task& task) const {
    for (int64_t r = window.rows.begin; r < window.rows.end; ++r) {
      for (int64_t q = window.columns.begin; q < window.columns.end; ++q) {
        task(static_cast<int32_t>(Offset(r, q)));
      }
    }
  }
  int64_t Offset(int64_t row, int64_t column) const {
    return (row * window_.input.width + column) * kVectorLanes;
  }

  PoolWindow window_;
};

std::unique_ptr<Layer> NewMaxPool(const Json& spec, const std::string& name,
                                  std::span<const Shape> inputs) {
  const PoolWindow window = PoolWindow::New(spec, name, inputs);
  if (window.pixels() * kVectorLanes > std::numeric_limits<int32_t>::max()) {
    throw SpecError(spec.where() + ": max_pool \"" + name + "\": input " +
                    window.input.ToString() +
                    " is too large for 32-bit addresses");
  }
  return std::make_unique<MaxPool>(window);
}

}  // namespace

const LayerRow kMaxPoolRow = {"max_pool", kPoolKeys,
                              "the maximum of each window", NewMaxPool};

}  // namespace lumen::nn
