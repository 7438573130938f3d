// SPDX-License-Identifier: Apache-2.0
// Convolution of images, the weight sparse or dense. Everything runs on the
// products of the kernel table: sparse/window.h says how a window becomes
// addresses.
#include "conv2d_layer.h"

#include <algorithm>
#include <vector>

#include "map_band.h"
#include "map_lines.h"

namespace lumen::nn {
namespace {

using sparse::Addressing;
using sparse::MapLayout;
using sparse::Run;
using sparse::Window;

// A map of this many bytes or more, of the 16 samples of a tile, leaves the
// caches before the next layer reads it.
constexpr int64_t kStreamBytes = int64_t{16} << 20;
// The canonical unit of dW: 16 samples and whole rows of outputs, together at
// most this many vectors; a longer row is cut.
constexpr int64_t kUnitVectors = 64;

class Conv2d : public Layer {
 public:
  Conv2d(const std::string& name, const Shape& input, int64_t outputs,
         const Window& window, bool bias)
      : name_(name),
        at_(Addressing::OfWindow(input, outputs, window)),
        bias_(bias),
        unit_rows_(std::max<int64_t>(1, kUnitVectors / output().width)),
        forward_bands_(at_.forward_map(), output().height, window.stride[0],
                       window.dilation[0] * (window.size[0] - 1) + 1,
                       unit_rows_),
        backward_bands_(at_.backward_map(), PhaseRows(), 1,
                        at_.backward_map().extent[0] - PhaseRows() + 1, 1) {}

  Shape output_shape() const override { return output(); }
  BackwardNeeds backward_needs() const override { return {.inputs = true}; }
  bool adds_gradients() const override { return true; }
  int64_t max_lanes() const override { return kVectorLanes; }
  StripUse strip_use() const override {
    // Each strip of outputs belongs to its strip of inputs.
    return output().width * at_.window().stride[1] == input().width &&
                   forward_bands_.ReachesAtMost(input().width) &&
                   backward_bands_.ReachesAtMost(output().width)
               ? StripUse::kKeeps
               : StripUse::kRefuses;
  }
  Addressing addressing(int64_t) const override { return at_; }
  int64_t scratch_floats(const LaneLayout&) const override {
    return std::max(forward_bands_.scratch_floats(),
                    backward_bands_.scratch_floats());
  }

  std::vector<ParameterDecl> parameters() const override {
    const Window& w = at_.window();
    std::vector<ParameterDecl> all = {
        {.name = name_ + ".weight",
         .shape = {at_.rows(), input().channels / w.groups, w.size[0],
                   w.size[1]},
         .fan_in = at_.columns(),
         .init = Init::kHe,
         .prunable = true}};
    if (bias_) {
      all.push_back({.name = name_ + ".bias",
                     .shape = {at_.rows()},
                     .fan_in = at_.columns(),
                     .init = Init::kUniformFanIn});
    }
    return all;
  }

  int64_t MultiplyAdds(std::span<const int64_t> nnz) const override {
    return nnz[0] * output().height * output().width;
  }

  void Forward(const LayerContext& context, std::span<const Panel> inputs,
               const Panel& y) const override {
    const sparse::Compute& compute = *context.compute;
    const BoundParameter& weight = context.parameters[0];
    const float* bias = bias_ ? context.parameters[1].value : nullptr;
    const std::vector<DenseRows> dense =
        weight.rows ? std::vector<DenseRows>() : DenseForward(weight.value);
    for (int64_t t = 0; t < y.layout.tiles; ++t) {
      forward_bands_.ForEach(
          compute, inputs[0].tile(t), input(), y.layout.strips, context.scratch,
          [&](const float* x, int64_t begin, int64_t end) {
            std::vector<Line> lines = ForwardLines(begin, end);
            if (weight.rows && weight.rows->forward_parts() > 1) {
              lines = Strips(lines);
            }
            ForLines(compute, lines, RowTasks(weight, compute, lines.size()),
                     [&](const Line& line, const RowTask& rows) {
                       float* to = y.tile(t) + line.y * kVectorLanes;
                       const float* from = x + line.x * kVectorLanes;
                       if (weight.rows) {
                         Run run = line.run;
                         run.stream =
                             Streams(output(), weight.rows->forward_parts(), 0);
                         weight.rows->Multiply(*compute.kernels, weight.value,
                                               bias, from, to, run, rows.begin,
                                               rows.end);
                       } else {
                         const int64_t first = rows.group * GroupRows();
                         compute->dense(
                             dense[static_cast<size_t>(rows.group)].view(),
                             bias ? bias + first : nullptr, from,
                             to + first * line.run.y_row * kVectorLanes,
                             line.run, 0, rows.begin, rows.end);
                       }
                     });
          });
    }
  }

  void Backward(const LayerContext& context, std::span<const Panel> inputs,
                const Panel&, const Panel& dy,
                std::span<const InputGradient> dx) const override {
    BackwardParameters(context, inputs[0], dy);
    if (dx[0].panel.data == nullptr) return;
    std::vector<std::vector<DenseRows>> dense;  // per phase
    if (!context.parameters[0].rows) {
      for (int64_t phase = 0; phase < at_.phases(); ++phase) {
        dense.push_back(DenseTransposed(context.parameters[0].value, phase));
      }
    }
    for (int64_t t = 0; t < dy.layout.tiles; ++t) {
      backward_bands_.ForEach(
          *context.compute, dy.tile(t), output(), dy.layout.strips,
          context.scratch, [&](const float* from, int64_t begin, int64_t end) {
            BackwardBand(context, dense, from, begin, end, dx[0].panel.tile(t),
                         dx[0].add);
          });
    }
  }

  void DenseWeightGradient(const LayerContext& context, const Panel& x,
                           const Panel& dy, int64_t begin, int64_t end,
                           float* dw) const override {
    if (dy.layout.tiles == 0) {
      std::fill_n(dw, (end - begin) * at_.columns(), 0.0f);
      return;
    }
    std::vector<RowTask> tasks;
    for (int64_t r = begin; r < end; ++r) {
      const int64_t row = r % GroupRows();
      tasks.push_back({r / GroupRows(), row, row + 1});
    }
    const BoundParameter all = {.gradient = dw - begin * at_.columns()};
    SumUnits(context, x, dy, all, nullptr, tasks);
  }

 private:
  // Rows of a dense weight, or of its transpose, of one group.
  struct DenseRows {
    const float* weight = nullptr;
    int64_t row_stride = 0;
    std::vector<int64_t> entry;
    std::vector<int32_t> offset;

    sparse::DenseView view() const {
      return {weight, row_stride, entry.data(), offset.data(),
              std::ssize(entry)};
    }
  };

  const Shape& input() const { return at_.input(); }
  const Shape& output() const { return at_.output(); }
  int64_t groups() const { return at_.window().groups; }
  int64_t GroupRows() const { return at_.rows() / groups(); }
  int64_t GroupInputs() const { return input().channels / groups(); }
  // Input rows of a phase, the most there are.
  int64_t PhaseRows() const {
    const int64_t stride = at_.window().stride[0];
    return (input().height + stride - 1) / stride;
  }
  // Written once, and too much for the caches.
  static bool Streams(const Shape& shape, int64_t parts, int add) {
    const auto bytes = shape.elements() * kVectorLanes * int64_t{sizeof(float)};
    return parts == 1 && !add && bytes >= kStreamBytes;
  }
  bool IsPointwise() const {
    const Window& w = at_.window();
    return w.size[0] * w.size[1] == 1 && w.stride[0] * w.stride[1] == 1 &&
           w.padding[0] + w.padding[1] == 0;
  }

  // Pieces of a map that is one long row.
  std::vector<Line> PointwiseLines() const {
    std::vector<Line> lines;
    const int64_t map = output().height * output().width;
    for (int64_t at = 0; at < map; at += kUnitVectors) {
      lines.push_back(
          {at,
           at,
           {.vectors = std::min(kUnitVectors, map - at), .y_row = map}});
    }
    return lines;
  }

  // Output rows [begin, end), x counted from the first row that `begin` reads.
  std::vector<Line> ForwardLines(int64_t begin, int64_t end) const {
    if (IsPointwise()) return PointwiseLines();
    std::vector<Line> lines;
    const Window& w = at_.window();
    for (int64_t h = begin; h < end; ++h) {
      lines.push_back({(h - begin) * w.stride[0] * at_.forward_map().row_pitch,
                       h * output().width,
                       {.vectors = output().width,
                        .x_step = w.stride[1],
                        .y_row = output().height * output().width}});
    }
    return lines;
  }

  // Input rows number [begin, end) of a phase, dy counted from the first row
  // that `begin` reads.
  std::vector<Line> BackwardLines(int64_t phase, int64_t begin,
                                  int64_t end) const {
    if (IsPointwise()) return PointwiseLines();
    std::vector<Line> lines;
    const auto& stride = at_.window().stride;
    const int64_t row_phase = phase / stride[1];
    const int64_t column_phase = phase % stride[1];
    const int64_t columns =
        (input().width - column_phase + stride[1] - 1) / stride[1];
    for (int64_t j = begin; j < end; ++j) {
      const int64_t row = j * stride[0] + row_phase;
      if (row >= input().height || columns <= 0) break;
      lines.push_back({(j - begin) * at_.backward_map().row_pitch,
                       row * input().width + column_phase,
                       {.vectors = columns,
                        .y_step = stride[1],
                        .y_row = input().height * input().width}});
    }
    return lines;
  }

  void BackwardBand(const LayerContext& context,
                    const std::vector<std::vector<DenseRows>>& dense_rows,
                    const float* dy, int64_t begin, int64_t end, float* dx,
                    int add) const {
    const sparse::Compute& compute = *context.compute;
    const BoundParameter& weight = context.parameters[0];
    const int64_t channels = input().channels;
    for (int64_t phase = 0; phase < at_.phases(); ++phase) {
      std::vector<Line> lines = BackwardLines(phase, begin, end);
      if (lines.empty()) continue;
      if (weight.rows) {
        // Nothing to add where no weight reaches.
        if (add &&
            weight.rows->TransposedNnz(phase * channels, channels) == 0) {
          continue;
        }
        if (!add && weight.rows->transposed_parts() > 1) lines = Strips(lines);
        ForLines(compute, lines, EvenTasks(1, channels, compute, lines.size()),
                 [&](const Line& line, const RowTask& task) {
                   Run run = line.run;
                   run.stream =
                       Streams(input(), weight.rows->transposed_parts(), add);
                   weight.rows->MultiplyTransposed(
                       *compute.kernels, phase * channels,
                       dy + line.x * kVectorLanes, dx + line.y * kVectorLanes,
                       run, add, task.begin, task.end);
                 });
        continue;
      }
      const std::vector<DenseRows>& dense =
          dense_rows[static_cast<size_t>(phase)];
      if (add && dense[0].entry.empty()) continue;
      ForLines(compute, lines,
               EvenTasks(groups(), GroupInputs(), compute, lines.size()),
               [&](const Line& line, const RowTask& task) {
                 const int64_t first = task.group * GroupInputs();
                 compute->dense(
                     dense[static_cast<size_t>(task.group)].view(), nullptr,
                     dy + line.x * kVectorLanes,
                     dx + (line.y + first * line.run.y_row) * kVectorLanes,
                     line.run, add, task.begin, task.end);
               });
    }
  }

  void BackwardParameters(const LayerContext& context, const Panel& x,
                          const Panel& dy) const {
    const sparse::Compute& compute = *context.compute;
    const BoundParameter& weight = context.parameters[0];
    float* bias = bias_ ? context.parameters[1].gradient : nullptr;
    if (dy.layout.tiles == 0) {
      std::fill_n(weight.gradient,
                  weight.rows ? weight.rows->nnz() : at_.rows() * at_.columns(),
                  0.0f);
      if (bias) std::fill_n(bias, at_.rows(), 0.0f);
      return;
    }
    SumUnits(context, x, dy, weight, bias, RowTasks(weight, compute, 1));
  }

  // The gradient of these rows of the weight and the bias.
  void SumUnits(const LayerContext& context, const Panel& x, const Panel& dy,
                const BoundParameter& weight, float* bias,
                const std::vector<RowTask>& tasks) const {
    const sparse::Compute& compute = *context.compute;
    const std::vector<DenseRows> dense =
        weight.rows ? std::vector<DenseRows>() : DenseForward(weight.value);
    for (int64_t t = 0; t < dy.layout.tiles; ++t) {
      forward_bands_.ForEach(
          compute, x.tile(t), input(), dy.layout.strips, context.scratch,
          [&](const float* from, int64_t begin, int64_t end) {
            compute.parallel.For(std::ssize(tasks), [&](int64_t i) {
              const RowTask& rows = tasks[static_cast<size_t>(i)];
              int accumulate = t > 0 || begin > 0;
              ForUnits(from, dy.tile(t), begin, end, [&](sparse::Unit unit) {
                UnitGradient(compute, weight, dense, rows, unit, accumulate,
                             bias);
                accumulate = 1;
              });
            });
          });
    }
  }

  void UnitGradient(const sparse::Compute& compute,
                    const BoundParameter& weight,
                    const std::vector<DenseRows>& dense, const RowTask& rows,
                    const sparse::Unit& unit, int accumulate,
                    float* bias) const {
    const int64_t first = rows.group * GroupRows();
    if (weight.rows) {
      compute->sddmm(weight.rows->forward(), unit, accumulate, weight.gradient,
                     rows.begin, rows.end);
    } else {
      // Rows count from the first of the group.
      std::vector<sparse::Segment> segments(unit.segments,
                                            unit.segments + unit.count);
      for (sparse::Segment& segment : segments) {
        segment.dy += first * unit.dy_row * kVectorLanes;
      }
      sparse::Unit of_group = unit;
      of_group.segments = segments.data();
      const DenseRows& d = dense[static_cast<size_t>(rows.group)];
      compute->dense_dw(d.offset.data(), at_.columns(), of_group, accumulate,
                        weight.gradient + first * at_.columns(), rows.begin,
                        rows.end);
    }
    if (bias) {
      compute->bias_gradient(unit, accumulate, bias, first + rows.begin,
                             first + rows.end);
    }
  }

  // The units of output rows [begin, end), in order.
  template <class Task>
  void ForUnits(const float* x, const float* dy, int64_t begin, int64_t end,
                const Task& task) const {
    const Window& w = at_.window();
    const int64_t width = output().width;
    std::vector<sparse::Segment> segments;
    for (int64_t first = begin; first < end; first += unit_rows_) {
      const int64_t last = std::min(end, first + unit_rows_);
      for (int64_t column = 0; column < width; column += kUnitVectors) {
        segments.clear();
        for (int64_t h = first; h < last; ++h) {
          const int64_t from =
              (h - begin) * w.stride[0] * at_.forward_map().row_pitch +
              column * w.stride[1];
          segments.push_back({x + from * kVectorLanes,
                              dy + (h * width + column) * kVectorLanes,
                              std::min(kUnitVectors, width - column)});
        }
        task(sparse::Unit{.segments = segments.data(),
                          .count = std::ssize(segments),
                          .x_step = w.stride[1],
                          .dy_row = output().height * width});
      }
    }
  }

  std::vector<DenseRows> DenseForward(const float* weight) const {
    std::vector<DenseRows> all;
    for (int64_t g = 0; g < groups(); ++g) {
      DenseRows rows = {.weight = weight + g * GroupRows() * at_.columns(),
                        .row_stride = at_.columns()};
      for (int64_t k = 0; k < at_.columns(); ++k) {
        rows.entry.push_back(k);
        rows.offset.push_back(
            static_cast<int32_t>(at_.Offset(g * GroupRows(), k)));
      }
      all.push_back(std::move(rows));
    }
    return all;
  }

  std::vector<DenseRows> DenseTransposed(const float* weight,
                                         int64_t phase) const {
    const Window& w = at_.window();
    const int64_t positions = w.size[0] * w.size[1];
    std::vector<DenseRows> all;
    for (int64_t g = 0; g < groups(); ++g) {
      DenseRows rows = {.weight = weight, .row_stride = positions};
      for (int64_t n = g * GroupRows(); n < (g + 1) * GroupRows(); ++n) {
        for (int64_t p = 0; p < positions; ++p) {
          if (at_.TransposedRow(n, p) / input().channels != phase) continue;
          rows.entry.push_back(n * at_.columns() + p);
          rows.offset.push_back(
              static_cast<int32_t>(at_.TransposedOffset(n, p)));
        }
      }
      all.push_back(std::move(rows));
    }
    return all;
  }

  // Enough tasks to keep all threads busy on `lines` lines.
  std::vector<RowTask> RowTasks(const BoundParameter& weight,
                                const sparse::Compute& compute,
                                size_t lines) const {
    if (!weight.rows) {
      return EvenTasks(groups(), GroupRows(), compute, lines);
    }
    const std::vector<int64_t> bounds =
        weight.rows->ForwardChunks(RowChunks(compute, lines));
    std::vector<RowTask> tasks;
    for (size_t c = 0; c + 1 < bounds.size(); ++c) {
      tasks.push_back({0, bounds[c], bounds[c + 1]});
    }
    return tasks;
  }

  std::string name_;
  Addressing at_;
  bool bias_;
  int64_t unit_rows_;  // rows of outputs in a unit of dW
  MapBands forward_bands_;
  MapBands backward_bands_;
};

}  // namespace

std::unique_ptr<Layer> NewConv2dLayer(const std::string& name,
                                      const Shape& input, int64_t outputs,
                                      const sparse::Window& window, bool bias) {
  return std::make_unique<Conv2d>(name, input, outputs, window, bias);
}

}  // namespace lumen::nn
