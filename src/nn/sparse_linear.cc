// SPDX-License-Identifier: Apache-2.0
// y = W x + b for samples of which few features are there: the sum of the rows
// of W that belong to them. W lies [features][units], so that such a row is one
// run of memory; PyTorch calls the layer EmbeddingBag with mode "sum" and
// per_sample_weights.
#include <algorithm>

#include "layers.h"
#include "linear_keys.h"
#include "lumen/core/error.h"
#include "reduction_units.h"

namespace lumen::nn {
namespace {

// Offsets in vectors of lanes are 32-bit.
constexpr int64_t kMaxUnits = int64_t{1} << 27;

// Chunks of features per thread: some are frequent, most are rare.
constexpr int64_t kChunksPerThread = 16;

// The entries of a batch by feature, those of a feature in lane order.
struct FeatureColumns {
  std::vector<int64_t> start;  // [features + 1]
  std::vector<int32_t> lane;
  std::vector<float> value;
};

FeatureColumns ByFeature(const SparseRows& rows, int64_t features) {
  FeatureColumns columns;
  columns.start.assign(static_cast<size_t>(features) + 1, 0);
  columns.lane.resize(rows.index.size());
  columns.value.resize(rows.index.size());
  for (const int32_t feature : rows.index) {
    ++columns.start[static_cast<size_t>(feature)];
  }
  // Now where each feature ends; it becomes where it starts.
  int64_t end = 0;
  for (int64_t& start : columns.start) start = end += start;
  for (int64_t lane = rows.rows() - 1; lane >= 0; --lane) {
    const auto l = static_cast<size_t>(lane);
    for (int64_t i = rows.start[l]; i < rows.start[l + 1]; ++i) {
      const auto entry = static_cast<size_t>(i);
      const auto feature = static_cast<size_t>(rows.index[entry]);
      const auto to = static_cast<size_t>(--columns.start[feature]);
      columns.lane[to] = static_cast<int32_t>(lane);
      columns.value[to] = rows.value[entry];
    }
  }
  return columns;
}

class SparseLinear : public Layer {
 public:
  SparseLinear(const std::string& name, int64_t features, int64_t units,
               int64_t biases)
      : name_(name), features_(features), units_(units), biases_(biases) {}

  Shape output_shape() const override { return {.channels = units_}; }

  std::vector<ParameterDecl> parameters() const override {
    std::vector<ParameterDecl> all = {{.name = name_ + ".weight",
                                       .shape = {features_, units_},
                                       .fan_in = features_,
                                       .init = Init::kUniformFanIn}};
    if (biases_ > 0) {
      all.push_back({.name = name_ + ".bias",
                     .shape = {units_},
                     .fan_in = features_,
                     .init = Init::kUniformFanIn});
    }
    return all;
  }

  SampleKind reads() const override { return SampleKind::kSparse; }
  BackwardNeeds backward_needs() const override { return {}; }

  // Of samples with all their features; plan knows how many there are.
  int64_t MultiplyAdds(std::span<const int64_t> nnz) const override {
    return nnz[0];
  }

  // The outputs, or their gradient, as [lane][units].
  int64_t scratch_floats(const LaneLayout& layout) const override {
    return layout.total_lanes() * units_;
  }

  void Forward(const LayerContext& context, std::span<const Panel>,
               const Panel& y) const override {
    const sparse::Compute& compute = *context.compute;
    const SparseRows& rows = context.rows;
    const float* weight = context.parameters[0].value;
    const float* bias = biases_ > 0 ? context.parameters[1].value : nullptr;
    ForVectors(compute, y, context.scratch,
               [&](float* panel, float* lanes, int64_t first) {
                 for (int64_t l = 0; l < kVectorLanes; ++l) {
                   const int64_t row = first + l;
                   const bool there = row < rows.rows();
                   const auto r = static_cast<size_t>(row);
                   const int64_t begin = there ? rows.start[r] : 0;
                   const int64_t entries =
                       there ? rows.start[r + 1] - begin : 0;
                   compute->sum_rows(rows.index.data() + begin,
                                     rows.value.data() + begin, entries, weight,
                                     units_, bias, lanes + l * units_);
                 }
                 for (int64_t u = 0; u < units_; ++u) {
                   for (int64_t l = 0; l < kVectorLanes; ++l) {
                     panel[u * y.layout.lanes + l] = lanes[l * units_ + u];
                   }
                 }
               });
  }

  void Backward(const LayerContext& context, std::span<const Panel>,
                const Panel&, const Panel& dy,
                std::span<const InputGradient>) const override {
    const sparse::Compute& compute = *context.compute;
    ForVectors(compute, dy, context.scratch,
               [&](const float* panel, float* lanes, int64_t) {
                 for (int64_t u = 0; u < units_; ++u) {
                   for (int64_t l = 0; l < kVectorLanes; ++l) {
                     lanes[l * units_ + u] = panel[u * dy.layout.lanes + l];
                   }
                 }
               });
    const FeatureColumns columns = ByFeature(context.rows, features_);
    float* gradient = context.parameters[0].gradient;
    ForChunks(compute, features_, [&](int64_t begin, int64_t end) {
      for (int64_t f = begin; f < end; ++f) {
        const int64_t from = columns.start[static_cast<size_t>(f)];
        const int64_t entries =
            columns.start[static_cast<size_t>(f + 1)] - from;
        compute->sum_rows(columns.lane.data() + from,
                          columns.value.data() + from, entries, context.scratch,
                          units_, nullptr, gradient + f * units_);
      }
    });
    if (biases_ > 0) {
      BackwardBias(compute, dy, context.parameters[1].gradient);
    }
  }

 private:
  // task(panel, lanes, first) for 16 lanes at a time: unit 0 of the first lane
  // in the panel and in `scratch`.
  template <class Task>
  void ForVectors(const sparse::Compute& compute, const Panel& panel,
                  float* scratch, const Task& task) const {
    const int64_t lanes = panel.layout.lanes;
    compute.parallel.For(panel.layout.total_lanes() / kVectorLanes,
                         [&](int64_t i) {
                           const int64_t first = i * kVectorLanes;
                           task(panel.tile(first / lanes) + first % lanes,
                                scratch + first * units_, first);
                         });
  }

  template <class Task>
  static void ForChunks(const sparse::Compute& compute, int64_t n,
                        const Task& task) {
    const int64_t chunks =
        std::min(n, compute.parallel.threads() * kChunksPerThread);
    compute.parallel.For(
        chunks, [&](int64_t c) { task(n * c / chunks, n * (c + 1) / chunks); });
  }

  void BackwardBias(const sparse::Compute& compute, const Panel& dy,
                    float* bias) const {
    const ReductionUnits units(dy.layout);
    if (units.count() == 0) std::fill_n(bias, units_, 0.0f);
    ForChunks(compute, units_, [&](int64_t begin, int64_t end) {
      for (int64_t u = 0; u < units.count(); ++u) {
        const sparse::Segment segment = units.Segment(dy, dy, u);
        compute->bias_gradient(units.Unit(dy, dy, &segment), u > 0, bias, begin,
                               end);
      }
    });
  }

  std::string name_;
  int64_t features_;
  int64_t units_;
  int64_t biases_;  // 0 or units_
};

std::unique_ptr<Layer> NewSparseLinear(const Json& spec,
                                       const std::string& name,
                                       std::span<const Shape> inputs) {
  const Shape& shape = OnlyInput(spec, inputs);
  const int64_t units = spec.at("units").integer();
  if (units > kMaxUnits) {
    throw SpecError(spec.where() + ": sparse_linear \"" + name +
                    "\": " + std::to_string(units) +
                    " units; expected at most " + std::to_string(kMaxUnits));
  }
  return std::make_unique<SparseLinear>(name, shape.elements(), units,
                                        spec.at("bias").boolean() ? units : 0);
}

}  // namespace

const LayerRow kSparseLinearRow = {
    "sparse_linear", kLinearKeys,
    "y = W x + b of sparse samples, as the first layer; W is dense and lies "
    "[features][units]",
    NewSparseLinear};

}  // namespace lumen::nn
