// SPDX-License-Identifier: Apache-2.0
// y = W x + b per sample, W sparse or dense.
#include <algorithm>

#include "layers.h"
#include "linear_keys.h"
#include "lumen/core/error.h"
#include "reduction_units.h"

namespace lumen::nn {
namespace {

// Offsets in vectors of lanes are 32-bit.
constexpr int64_t kMaxFeatures = int64_t{1} << 27;

// Chunks of rows per thread: enough to even out, few enough to be cheap.
constexpr int64_t kChunksPerThread = 4;

class Linear : public Layer {
 public:
  Linear(const std::string& name, int64_t inputs, int64_t outputs,
         int64_t biases)
      : name_(name), inputs_(inputs), outputs_(outputs), biases_(biases) {}

  Shape output_shape() const override { return {.channels = outputs_}; }

  std::vector<ParameterDecl> parameters() const override {
    std::vector<ParameterDecl> all = {{.name = name_ + ".weight",
                                       .shape = {outputs_, inputs_},
                                       .fan_in = inputs_,
                                       .init = Init::kUniformFanIn,
                                       .prunable = true}};
    if (biases_ > 0) {
      all.push_back({.name = name_ + ".bias",
                     .shape = {outputs_},
                     .fan_in = inputs_,
                     .init = Init::kUniformFanIn});
    }
    return all;
  }

  BackwardNeeds backward_needs() const override { return {.inputs = true}; }
  bool adds_gradients() const override { return true; }

  sparse::Addressing addressing(int64_t lanes) const override {
    return sparse::Addressing::OfLinear(outputs_, inputs_, lanes);
  }

  int64_t MultiplyAdds(std::span<const int64_t> nnz) const override {
    return nnz[0];
  }

  void Forward(const LayerContext& context, std::span<const Panel> inputs,
               const Panel& y) const override {
    const sparse::Compute& compute = *context.compute;
    const BoundParameter& weight = context.parameters[0];
    const float* bias = biases_ > 0 ? context.parameters[1].value : nullptr;
    const int64_t lanes = y.layout.lanes;
    const DenseRows dense =
        weight.rows ? DenseRows() : DenseForward(weight.value, lanes);
    ForTiles(compute, y.layout.tiles, Bounds(weight, compute, kRows),
             [&](int64_t tile, int64_t begin, int64_t end) {
               const float* x = inputs[0].tile(tile);
               const auto run = sparse::Run::OfLanes(lanes);
               if (weight.rows) {
                 weight.rows->Multiply(*compute.kernels, weight.value, bias, x,
                                       y.tile(tile), run, begin, end);
               } else {
                 compute->dense(dense.view, bias, x, y.tile(tile), run, 0,
                                begin, end);
               }
             });
  }

  void Backward(const LayerContext& context, std::span<const Panel> inputs,
                const Panel&, const Panel& dy,
                std::span<const InputGradient> dx) const override {
    BackwardParameters(context, inputs[0], dy);
    if (dx[0].panel.data != nullptr) BackwardInput(context, dy, dx[0]);
  }

  void DenseWeightGradient(const LayerContext& context, const Panel& x,
                           const Panel& dy, int64_t begin, int64_t end,
                           float* dw) const override {
    const sparse::Compute& compute = *context.compute;
    const ReductionUnits units(dy.layout);
    std::fill_n(dw, (end - begin) * inputs_, 0.0f);
    const DenseRows dense = DenseForward(nullptr, dy.layout.lanes);
    compute.parallel.For(end - begin, [&](int64_t i) {
      const int64_t r = begin + i;
      for (int64_t u = 0; u < units.count(); ++u) {
        const sparse::Segment segment = units.Segment(x, dy, u);
        // Row r is written as row 0 of where it goes.
        compute->dense_dw(dense.view.offset, inputs_,
                          units.Unit(x, dy, &segment), u > 0,
                          dw + (i - r) * inputs_, r, r + 1);
      }
    });
  }

 private:
  enum Side { kRows, kColumns };

  // Row r and entry i of a dense weight, or of its transpose.
  struct DenseRows {
    std::vector<int64_t> entry;
    std::vector<int32_t> offset;
    sparse::DenseView view;
  };
  static DenseRows NewDenseRows(const float* weight, int64_t row_stride,
                                int64_t entries, int64_t entry_stride,
                                int64_t lanes) {
    DenseRows rows;
    for (int64_t i = 0; i < entries; ++i) {
      rows.entry.push_back(i * entry_stride);
      rows.offset.push_back(static_cast<int32_t>(i * (lanes / kVectorLanes)));
    }
    rows.view = {.weight = weight,
                 .row_stride = row_stride,
                 .entry = rows.entry.data(),
                 .offset = rows.offset.data(),
                 .entries = entries};
    return rows;
  }
  DenseRows DenseForward(const float* weight, int64_t lanes) const {
    return NewDenseRows(weight, inputs_, inputs_, 1, lanes);
  }
  DenseRows DenseTransposed(const float* weight, int64_t lanes) const {
    return NewDenseRows(weight, 1, outputs_, inputs_, lanes);
  }

  void BackwardParameters(const LayerContext& context, const Panel& x,
                          const Panel& dy) const {
    const sparse::Compute& compute = *context.compute;
    const BoundParameter& weight = context.parameters[0];
    float* bias = biases_ > 0 ? context.parameters[1].gradient : nullptr;
    const ReductionUnits units(dy.layout);
    if (units.count() == 0) {
      const int64_t size =
          weight.rows ? weight.rows->nnz() : outputs_ * inputs_;
      std::fill_n(weight.gradient, size, 0.0f);
      if (bias) std::fill_n(bias, outputs_, 0.0f);
      return;
    }
    const DenseRows dense =
        weight.rows ? DenseRows() : DenseForward(weight.value, dy.layout.lanes);
    const std::vector<int64_t> bounds = Bounds(weight, compute, kRows);
    compute.parallel.For(std::ssize(bounds) - 1, [&](int64_t chunk) {
      const int64_t begin = bounds[static_cast<size_t>(chunk)];
      const int64_t end = bounds[static_cast<size_t>(chunk + 1)];
      for (int64_t u = 0; u < units.count(); ++u) {
        const sparse::Segment segment = units.Segment(x, dy, u);
        const sparse::Unit unit = units.Unit(x, dy, &segment);
        const int accumulate = u > 0;
        if (weight.rows) {
          compute->sddmm(weight.rows->forward(), unit, accumulate,
                         weight.gradient, begin, end);
        } else {
          compute->dense_dw(dense.view.offset, inputs_, unit, accumulate,
                            weight.gradient, begin, end);
        }
        if (bias) compute->bias_gradient(unit, accumulate, bias, begin, end);
      }
    });
  }

  void BackwardInput(const LayerContext& context, const Panel& dy,
                     const InputGradient& dx) const {
    const sparse::Compute& compute = *context.compute;
    const BoundParameter& weight = context.parameters[0];
    const int64_t lanes = dy.layout.lanes;
    const DenseRows dense =
        weight.rows ? DenseRows() : DenseTransposed(weight.value, lanes);
    ForTiles(compute, dy.layout.tiles, Bounds(weight, compute, kColumns),
             [&](int64_t tile, int64_t begin, int64_t end) {
               float* to = dx.panel.tile(tile);
               const auto run = sparse::Run::OfLanes(lanes);
               if (weight.rows) {
                 weight.rows->MultiplyTransposed(*compute.kernels, 0,
                                                 dy.tile(tile), to, run, dx.add,
                                                 begin, end);
               } else {
                 compute->dense(dense.view, nullptr, dy.tile(tile), to, run,
                                dx.add, begin, end);
               }
             });
  }

  // Boundaries of row (or column) chunks of about equal work.
  std::vector<int64_t> Bounds(const BoundParameter& weight,
                              const sparse::Compute& compute, Side side) const {
    const int threads = compute.parallel.threads();
    const int64_t chunks = threads == 1 ? 1 : threads * kChunksPerThread;
    if (weight.rows) {
      return side == kRows ? weight.rows->ForwardChunks(chunks)
                           : weight.rows->TransposedChunks(chunks);
    }
    const int64_t rows = side == kRows ? outputs_ : inputs_;
    std::vector<int64_t> bounds;
    for (int64_t c = 0; c <= chunks; ++c) bounds.push_back(rows * c / chunks);
    return bounds;
  }

  template <class Task>
  static void ForTiles(const sparse::Compute& compute, int64_t tiles,
                       const std::vector<int64_t>& bounds, const Task& task) {
    const auto chunks = static_cast<int64_t>(bounds.size()) - 1;
    compute.parallel.For(tiles * chunks, [&](int64_t i) {
      const auto chunk = static_cast<size_t>(i % chunks);
      task(i / chunks, bounds[chunk], bounds[chunk + 1]);
    });
  }

  std::string name_;
  int64_t inputs_;
  int64_t outputs_;
  int64_t biases_;  // 0 or outputs_
};

std::unique_ptr<Layer> NewLinear(const Json& spec, const std::string& name,
                                 std::span<const Shape> inputs) {
  const Shape& shape = OnlyInput(spec, inputs);
  if (shape.elements() != shape.channels) {
    throw SpecError(spec.where() + ": linear \"" + name + "\": input is " +
                    shape.ToString() +
                    "; expected features without height and width; put a "
                    "{\"type\": \"flatten\"} before it");
  }
  const int64_t units = spec.at("units").integer();
  if (std::max(shape.channels, units) > kMaxFeatures) {
    throw SpecError(spec.where() + ": linear \"" + name +
                    "\": " + std::to_string(shape.channels) + " inputs and " +
                    std::to_string(units) + " units; expected at most " +
                    std::to_string(kMaxFeatures) + " of each");
  }
  return std::make_unique<Linear>(name, shape.channels, units,
                                  spec.at("bias").boolean() ? units : 0);
}

}  // namespace

const LayerRow kLinearRow = {"linear", kLinearKeys,
                             "y = W x + b, sparse or dense", NewLinear};

}  // namespace lumen::nn
