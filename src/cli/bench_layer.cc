// SPDX-License-Identifier: Apache-2.0
#include "bench_layer.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <random>
#include <sstream>

#include "lumen/core/buffer.h"
#include "lumen/core/error.h"
#include "lumen/nn/layer.h"
#include "lumen/nn/model.h"
#include "lumen/sparse/onednn.h"

namespace lumen::cli {
namespace {

double Now(int threads) {
  if (threads == 1) {
    timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) +
           1e-9 * static_cast<double>(time.tv_nsec);
  }
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

using Rows = std::vector<float>;  // [sample][element]

Rows Random(int64_t n) {
  static std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Rows values(static_cast<size_t>(n));
  for (float& value : values) value = normal(random);
  return values;
}

// The dense side.
class Dense {
 public:
  virtual ~Dense() = default;
  virtual void SetWeight(const Rows& weight) = 0;
  virtual void Compute(BenchPass pass) = 0;
  virtual Rows Result(BenchPass pass) = 0;
};

class DenseLinear : public Dense {
 public:
  DenseLinear(const BenchShape& s, Rows x, Rows dy, Rows bias)
      : layer_(s.batch, s.inputs, s.outputs),
        x_(std::move(x)),
        dy_(std::move(dy)),
        bias_(std::move(bias)),
        y_(dy_.size()),
        dx_(x_.size()),
        dw_(static_cast<size_t>(s.outputs * s.inputs)),
        db_(bias_.size()) {}
  void SetWeight(const Rows& weight) override { w_ = weight; }
  void Compute(BenchPass pass) override {
    switch (pass) {
      case BenchPass::kForward:
        layer_.Forward(x_.data(), w_.data(), bias_.data(), y_.data());
        break;
      case BenchPass::kDx:
        layer_.BackwardData(dy_.data(), w_.data(), dx_.data());
        break;
      case BenchPass::kDw:
        layer_.BackwardWeights(x_.data(), dy_.data(), dw_.data(), db_.data());
        break;
    }
  }
  Rows Result(BenchPass pass) override {
    return pass == BenchPass::kForward ? y_
           : pass == BenchPass::kDx    ? dx_
                                       : dw_;
  }

 private:
  sparse::OneDnnLinear layer_;
  Rows x_, dy_, bias_, w_, y_, dx_, dw_, db_;
};

class DenseConv : public Dense {
 public:
  DenseConv(const BenchShape& s, const Shape& input, const Shape& output,
            const sparse::Window& window, const Rows& x, const Rows& dy)
      : layer_(s.batch, input, s.outputs, window),
        sizes_{s.batch * output.elements(), s.batch * input.elements(),
               s.outputs * s.inputs * s.window * s.window} {
    layer_.SetX(x.data());
    layer_.SetDy(dy.data());
  }
  void SetWeight(const Rows& weight) override {
    layer_.SetWeight(weight.data());
  }
  void Compute(BenchPass pass) override {
    if (pass == BenchPass::kForward) layer_.Forward();
    if (pass == BenchPass::kDx) layer_.BackwardData();
    if (pass == BenchPass::kDw) layer_.BackwardWeights();
  }
  Rows Result(BenchPass pass) override {
    Rows rows(static_cast<size_t>(sizes_[static_cast<size_t>(pass)]));
    if (pass == BenchPass::kForward) layer_.GetY(rows.data());
    if (pass == BenchPass::kDx) layer_.GetDx(rows.data());
    if (pass == BenchPass::kDw) layer_.GetDw(rows.data());
    return rows;
  }

 private:
  sparse::OneDnnConv layer_;
  std::array<int64_t, 3> sizes_;
};

// A panel on pages of its own, like those of a model.
class OwnedPanel {
 public:
  OwnedPanel(const Shape& shape, const LaneLayout& layout)
      : panel_{nullptr, shape, layout}, memory_(panel_.size()) {
    panel_.data = memory_.data();
  }
  const Panel& panel() const { return panel_; }
  void Set(const Rows& rows) {
    ForAll([&](float& lane, size_t at) { lane = rows[at]; });
  }
  Rows Get() const {
    Rows rows(
        static_cast<size_t>(panel_.layout.samples * panel_.shape.elements()));
    ForAll([&](float& lane, size_t at) { rows[at] = lane; });
    return rows;
  }

 private:
  template <class Task>
  void ForAll(const Task& task) const {
    const int64_t elements = panel_.shape.elements();
    const int64_t lanes = panel_.layout.lanes;
    for (int64_t s = 0; s < panel_.layout.samples; ++s) {
      for (int64_t e = 0; e < elements; ++e) {
        task(panel_.tile(s / lanes)[e * lanes + s % lanes],
             static_cast<size_t>(s * elements + e));
      }
    }
  }

  Panel panel_;
  Buffer<float> memory_;
};

Shape InputOf(const BenchShape& shape) {
  return {.channels = shape.inputs, .height = shape.map, .width = shape.map};
}

std::unique_ptr<nn::Layer> NewLayer(const BenchShape& shape) {
  const std::string text =
      shape.is_linear()
          ? fmt::format(R"({{"layers": [{{"type": "linear", "units": {}}}]}})",
                        shape.outputs)
          : fmt::format(
                R"({{"layers": [{{"type": "conv2d", "channels": {},
                   "window": [{}], "stride": [{}], "padding": [{}]}}]}})",
                shape.outputs, shape.window, shape.stride, shape.window / 2);
  const Json spec =
      Resolve(Json::Parse(text, "bench"), nn::ModelKeys(), "model");
  const Json& layer = spec.at("layers").items()[0];
  const auto table = nn::LayerTable();
  const auto row = std::find_if(
      table.begin(), table.end(),
      [&](const nn::LayerRow& r) { return r.type == layer.at("type").text(); });
  const Shape input = InputOf(shape);
  return row->create(layer, "it", std::span(&input, 1));
}

void Compare(const Rows& dense, const Rows& ours, BenchPass pass) {
  float largest = 0;
  for (float value : dense) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < dense.size(); ++i) {
    if (std::abs(dense[i] - ours[i]) <= 3e-5f * largest) continue;
    throw IoError(fmt::format("{} differs from oneDNN at {}: {}; expected {}",
                              BenchPassName(pass), i, ours[i], dense[i]));
  }
}

}  // namespace

std::string BenchShape::Kind() const {
  if (is_linear()) return "linear";
  return fmt::format("conv{0}x{0}{1}", window,
                     stride > 1 ? fmt::format("/{}", stride) : "");
}

std::string BenchShape::Text() const {
  return is_linear() ? fmt::format("{}x{} B{}", outputs, inputs, batch)
                     : fmt::format("{} to {}, {}x{}, B{}", inputs, outputs, map,
                                   map, batch);
}

std::vector<BenchShape> ParseBenchShapes(std::string_view text,
                                         const std::string& source) {
  std::vector<BenchShape> shapes;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line);
    std::string kind, rest;
    if (!(words >> kind) || kind[0] == '#') continue;
    BenchShape shape;
    words >> shape.outputs >> shape.inputs;
    bool known = kind == "linear";
    if (kind.starts_with("conv")) {
      const int64_t window = std::atoi(kind.c_str() + 4);
      known = window > 0 && kind == fmt::format("conv{0}x{0}", window);
      shape.window = window;
      words >> shape.map >> shape.stride;
    }
    words >> shape.batch;
    if (!known || words.fail() || words >> rest ||
        std::min({shape.outputs, shape.inputs, shape.map, shape.stride,
                  shape.batch}) < 1) {
      throw SpecError(fmt::format(
          "{}:{}: \"{}\" is no shape; expected linear OUTPUTS INPUTS BATCH, or "
          "convRxR OUTPUTS INPUTS MAP STRIDE IMAGES",
          source, number, line));
    }
    shapes.push_back(shape);
  }
  if (shapes.empty()) throw SpecError(source + ": has no shapes");
  return shapes;
}

std::string_view BenchPassName(BenchPass pass) {
  switch (pass) {
    case BenchPass::kForward:
      return "forward";
    case BenchPass::kDx:
      return "dx";
    case BenchPass::kDw:
      return "dw";
  }
  return "";
}

struct LayerBench::Impl {
  Impl(const BenchShape& shape, const sparse::Compute& chosen)
      : compute(chosen),
        layer(NewLayer(shape)),
        layout(LaneLayout::For(shape.batch, layer->max_lanes())),
        at(layer->addressing(layout.lanes)),
        x(InputOf(shape), layout),
        y(layer->output_shape(), layout),
        dy(layer->output_shape(), layout),
        dx(InputOf(shape), layout),
        scratch(layer->scratch_floats(layout)) {
    const Rows x_rows = Random(shape.batch * x.panel().shape.elements());
    const Rows dy_rows = Random(shape.batch * dy.panel().shape.elements());
    x.Set(x_rows);
    dy.Set(dy_rows);
    if (shape.is_linear()) {
      bias = Random(shape.outputs);
      bias_gradient.resize(bias.size());
      dense = std::make_unique<DenseLinear>(shape, x_rows, dy_rows, bias);
    } else {
      dense = std::make_unique<DenseConv>(shape, InputOf(shape),
                                          layer->output_shape(), at.window(),
                                          x_rows, dy_rows);
    }
  }

  nn::LayerContext Context() {
    bound = {{value.data(), gradient.data(), rows.get()},
             {bias.data(), bias_gradient.data(), nullptr}};
    return {.compute = &compute,
            .parameters = std::span(bound).first(bias.empty() ? 1 : 2),
            .kind = nn::PassKind::kTraining,
            .scratch = scratch.data()};
  }
  void Forward() {
    layer->Forward(Context(), std::span(&x.panel(), 1), y.panel());
  }
  // Without dX for an empty panel.
  void Backward(const Panel& to) {
    const nn::InputGradient wanted = {.panel = to};
    layer->Backward(Context(), std::span(&x.panel(), 1), y.panel(), dy.panel(),
                    std::span(&wanted, 1));
  }

  sparse::Compute compute;
  std::unique_ptr<nn::Layer> layer;
  LaneLayout layout;
  sparse::Addressing at;
  std::unique_ptr<Dense> dense;
  OwnedPanel x, y, dy, dx;
  Buffer<float> scratch;
  std::unique_ptr<sparse::KernelRows> rows;
  std::vector<int64_t> positions;
  Rows value, gradient, bias, bias_gradient;
  std::vector<nn::BoundParameter> bound;
};

LayerBench::LayerBench(const BenchShape& shape, const sparse::Compute& compute)
    : impl_(std::make_unique<Impl>(shape, compute)) {}
LayerBench::~LayerBench() = default;

void LayerBench::Prune(double density) {
  const sparse::Addressing& at = impl_->at;
  const int64_t all = at.rows() * at.columns();
  const int64_t nnz =
      std::max<int64_t>(1, std::llround(density * static_cast<double>(all)));
  sparse::Pattern pattern =
      sparse::NewRandomPattern(NewRandomKey(2, Stream::kMask, 0), at.rows(),
                               at.columns(), nnz, impl_->compute.parallel);
  impl_->positions.resize(static_cast<size_t>(nnz));
  pattern.Positions(0, impl_->positions);
  impl_->rows = std::make_unique<sparse::KernelRows>(std::move(pattern), at,
                                                     impl_->compute.parallel);
  impl_->value = Random(nnz);
  impl_->gradient.assign(static_cast<size_t>(nnz), 0.0f);
  impl_->rows->Refresh(impl_->value, impl_->compute.parallel);
  Rows weight(static_cast<size_t>(all));
  for (size_t p = 0; p < impl_->positions.size(); ++p) {
    weight[static_cast<size_t>(impl_->positions[p])] = impl_->value[p];
  }
  impl_->dense->SetWeight(weight);
}

void LayerBench::Verify() {
  impl_->Forward();
  impl_->Backward(impl_->dx.panel());
  for (BenchPass pass : kBenchPasses) impl_->dense->Compute(pass);
  Compare(impl_->dense->Result(BenchPass::kForward), impl_->y.Get(),
          BenchPass::kForward);
  Compare(impl_->dense->Result(BenchPass::kDx), impl_->dx.Get(),
          BenchPass::kDx);
  const Rows dw = impl_->dense->Result(BenchPass::kDw);
  Rows of_nonzeros;
  for (int64_t p : impl_->positions) {
    of_nonzeros.push_back(dw[static_cast<size_t>(p)]);
  }
  Compare(of_nonzeros, impl_->gradient, BenchPass::kDw);
}

std::array<PassTimes, 3> LayerBench::Time(int repeats) {
  Dense& dense = *impl_->dense;
  const std::array<std::function<void()>, 6> bodies = {
      [&] { dense.Compute(BenchPass::kForward); },
      [&] { impl_->Forward(); },
      [&] { dense.Compute(BenchPass::kDx); },
      [&] { impl_->Backward(impl_->dx.panel()); },
      [&] { dense.Compute(BenchPass::kDw); },
      [&] { impl_->Backward(Panel()); }};
  std::array<double, 6> best;
  best.fill(1e9);
  const int threads = impl_->compute.parallel.threads();
  for (int i = 0; i < repeats; ++i) {
    for (size_t b = 0; b < bodies.size(); ++b) {
      const double begin = Now(threads);
      bodies[b]();
      best[b] = std::min(best[b], Now(threads) - begin);
    }
  }
  return {PassTimes{best[0], best[1]},
          PassTimes{best[2], std::max(1e-9, best[3] - best[5])},
          PassTimes{best[4], best[5]}};
}

double LayerBench::flops() const {
  const Shape out = impl_->layer->output_shape();
  return 2.0 * static_cast<double>(std::ssize(impl_->value) * out.height *
                                   out.width * impl_->layout.samples);
}

double PeakFlopsPerSecond(const sparse::Compute& compute) {
  constexpr int64_t kRounds = 100000;
  constexpr double kFlops = 2.0 * 6 * 16 * kRounds;
  const int threads = compute.parallel.threads();
  double best = 0;
  for (int i = 0; i < 15; ++i) {
    const double begin = Now(threads);
    compute.parallel.For(threads, [&](int64_t) {
      alignas(64) float out[16] = {};
      compute->multiply_adds(kRounds, out);
    });
    best = std::max(best, kFlops * threads / (Now(threads) - begin));
  }
  return best;
}

}  // namespace lumen::cli
