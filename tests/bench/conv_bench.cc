// SPDX-License-Identifier: Apache-2.0
// Sparse convolution layers against dense ones of oneDNN: time ratio per shape,
// sparsity and pass.
//
//   OMP_NUM_THREADS=1 build/release/tests/conv_bench [shapes.txt] [isa]
//
// Both sides use OMP_NUM_THREADS threads (1 if unset), one process, in turn,
// best of several. Ours is the whole layer, padding copies included; oneDNN
// works in its own formats, reordered before. Each layer is verified first
// against oneDNN with zeros for the missing weights. dX is the time of the
// backward pass without that of dW.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "lumen/core/buffer.h"
#include "lumen/nn/layer.h"
#include "lumen/nn/model.h"
#include "lumen/sparse/onednn.h"

namespace lumen::nn {
namespace {

constexpr int kRepeats = 15;

// With one thread the time it computes, which other programs on the machine
// add little to; else the time that passes.
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

// Best time of each body, run in turn.
template <class... Bodies>
std::vector<double> BestTimes(int threads, const Bodies&... bodies) {
  std::vector<double> best(sizeof...(bodies), 1e9);
  for (int i = 0; i < kRepeats; ++i) {
    size_t b = 0;
    const auto time = [&](const auto& body) {
      const double begin = Now(threads);
      body();
      best[b] = std::min(best[b], Now(threads) - begin);
      ++b;
    };
    (time(bodies), ...);
  }
  return best;
}

struct ConvShape {
  int64_t inputs, outputs, extent, window, stride, images;

  Shape input() const {
    return {.channels = inputs, .height = extent, .width = extent};
  }
  std::string Text() const {
    return fmt::format("{0} to {1}, {2}x{2}, {3}x{3}{4}", inputs, outputs,
                       extent, window, stride > 1 ? " /2" : "");
  }
};

std::vector<ConvShape> ReadShapes(const std::string& path) {
  std::ifstream file(path);
  std::vector<ConvShape> shapes;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    ConvShape s;
    if (words >> s.inputs >> s.outputs >> s.extent >> s.window >> s.stride >>
        s.images) {
      shapes.push_back(s);
    }
  }
  return shapes;
}

std::unique_ptr<Layer> NewConv(const ConvShape& shape) {
  const std::string text = fmt::format(
      R"({{"layers": [{{"type": "conv2d", "channels": {}, "window": [{}],
           "stride": [{}], "padding": [{}]}}]}})",
      shape.outputs, shape.window, shape.stride, shape.window / 2);
  const Json spec = Resolve(Json::Parse(text, "bench"), ModelKeys(), "model");
  const auto table = LayerTable();
  const auto row =
      std::find_if(table.begin(), table.end(),
                   [](const LayerRow& r) { return r.type == "conv2d"; });
  const Shape input = shape.input();
  return row->create(spec.at("layers").items()[0], "it", std::span(&input, 1));
}

std::vector<float> Random(int64_t n) {
  static std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = normal(random);
  return values;
}

// A panel on pages of its own, like those of a model.
class OwnedPanel {
 public:
  OwnedPanel(const Shape& shape, const LaneLayout& layout)
      : panel_{nullptr, shape, layout}, memory_(panel_.size()) {
    panel_.data = memory_.data();
  }
  const Panel& panel() const { return panel_; }
  // From [sample][element].
  void Set(const std::vector<float>& rows) {
    ForAll([&](float& lane, size_t at) { lane = rows[at]; });
  }
  std::vector<float> Get() const {
    std::vector<float> rows(static_cast<size_t>(memory_.size()));
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

// One shape: the dense side and ours on the same numbers.
class Bench {
 public:
  Bench(const ConvShape& shape, const sparse::Compute& compute)
      : compute_(compute),
        layer_(NewConv(shape)),
        at_(layer_->addressing(kVectorLanes)),
        layout_(LaneLayout::For(shape.images, layer_->max_lanes())),
        dense_(shape.images, shape.input(), shape.outputs, at_.window()),
        x_(shape.input(), layout_),
        y_(layer_->output_shape(), layout_),
        dy_(layer_->output_shape(), layout_),
        dx_(shape.input(), layout_),
        scratch_(layer_->scratch_floats(layout_)) {
    const std::vector<float> x = Random(x_.panel().size());
    const std::vector<float> dy = Random(dy_.panel().size());
    x_.Set(x);
    dy_.Set(dy);
    dense_.SetX(x.data());
    dense_.SetDy(dy.data());
  }

  void Prune(double sparsity) {
    const int64_t all = at_.rows() * at_.columns();
    nnz_ = std::llround((1 - sparsity) * static_cast<double>(all));
    sparse::Pattern pattern =
        sparse::NewRandomPattern(NewRandomKey(2, Stream::kMask, 0), at_.rows(),
                                 at_.columns(), nnz_, Parallel(1));
    positions_.resize(static_cast<size_t>(nnz_));
    pattern.Positions(0, positions_);
    rows_ = std::make_unique<sparse::KernelRows>(std::move(pattern), at_,
                                                 Parallel(1));
    value_ = Random(nnz_);
    gradient_.assign(value_.size(), 0.0f);
    rows_->Refresh(value_, Parallel(1));
    std::vector<float> weight(static_cast<size_t>(all));
    for (size_t p = 0; p < positions_.size(); ++p) {
      weight[static_cast<size_t>(positions_[p])] = value_[p];
    }
    dense_.SetWeight(weight.data());
  }

  // Exits when the layer does not agree with oneDNN.
  void Verify() {
    Forward();
    Backward(dx_.panel());
    dense_.Forward();
    dense_.BackwardData();
    dense_.BackwardWeights();
    std::vector<float> y(static_cast<size_t>(y_.panel().size()));
    std::vector<float> dx(static_cast<size_t>(dx_.panel().size()));
    std::vector<float> dw(static_cast<size_t>(at_.rows() * at_.columns()));
    dense_.GetY(y.data());
    dense_.GetDx(dx.data());
    dense_.GetDw(dw.data());
    Compare(y, y_.Get(), "forward");
    Compare(dx, dx_.Get(), "dX");
    std::vector<float> of_nonzeros;
    for (int64_t p : positions_) {
      of_nonzeros.push_back(dw[static_cast<size_t>(p)]);
    }
    Compare(of_nonzeros, gradient_, "dW");
  }

  void Print(const std::string& shape, double sparsity) {
    const std::vector<double> t = BestTimes(
        compute_.parallel.threads(), [&] { dense_.Forward(); },
        [&] { Forward(); }, [&] { dense_.BackwardData(); },
        [&] { Backward(Panel()); }, [&] { dense_.BackwardWeights(); },
        [&] { Backward(dx_.panel()); });
    const double dx = t[5] - t[3];
    const Shape out = layer_->output_shape();
    const double operations =
        2e-9 *
        static_cast<double>(nnz_ * out.height * out.width * layout_.samples);
    fmt::print(
        "{:<22} {:>6.0f} % {:>8.1f}x {:>6.1f}x {:>6.1f}x {:>6.1f}x {:>6.0f} "
        "{:>4.0f} {:>4.0f} {:>10.2f}\n",
        shape, 100 * sparsity, t[0] / t[1], t[2] / dx, t[4] / t[3],
        (t[0] + t[2] + t[4]) / (t[1] + t[5]), operations / t[1],
        operations / dx, operations / t[3], 1e3 * t[0]);
  }

 private:
  LayerContext Context() {
    bound_ = {value_.data(), gradient_.data(), rows_.get()};
    return {.compute = &compute_,
            .parameters = std::span(&bound_, 1),
            .kind = PassKind::kTraining,
            .scratch = scratch_.data()};
  }
  void Forward() {
    layer_->Forward(Context(), std::span(&x_.panel(), 1), y_.panel());
  }
  // Without dX for an empty panel.
  void Backward(const Panel& dx) {
    const InputGradient to = {.panel = dx};
    layer_->Backward(Context(), std::span(&x_.panel(), 1), Panel(), dy_.panel(),
                     std::span(&to, 1));
  }

  static void Compare(const std::vector<float>& a, const std::vector<float>& b,
                      const char* what) {
    float largest = 0;
    for (float value : a) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < a.size(); ++i) {
      if (std::abs(a[i] - b[i]) <= 2e-5f * largest) continue;
      fmt::print(stderr, "{} differs at {}: {} and {}\n", what, i, a[i], b[i]);
      std::exit(1);
    }
  }

  sparse::Compute compute_;
  std::unique_ptr<Layer> layer_;
  sparse::Addressing at_;
  LaneLayout layout_;
  sparse::OneDnnConv dense_;
  OwnedPanel x_, y_, dy_, dx_;
  Buffer<float> scratch_;
  int64_t nnz_ = 0;
  std::unique_ptr<sparse::KernelRows> rows_;
  std::vector<int64_t> positions_;
  std::vector<float> value_, gradient_;
  BoundParameter bound_;
};

int Main(int argc, char** argv) {
  const std::string path =
      argc > 1 ? argv[1]
               : std::string(LUMEN_SOURCE "/tests/bench/conv_shapes.txt");
  const sparse::Isa isa = sparse::ParseIsa(argc > 2 ? argv[2] : "auto");
  const char* setting = std::getenv("OMP_NUM_THREADS");
  const int threads = setting ? std::max(1, std::atoi(setting)) : 1;
  if (!setting)
    fmt::print("OMP_NUM_THREADS is not set; oneDNN uses them all\n");
  fmt::print("{}, threads {}, {}; dense time / ours\n", sparse::IsaName(isa),
             threads, sparse::OneDnnVersion());
  fmt::print("{:<22} {:>8} {:>9} {:>7} {:>7} {:>7} {:>16} {:>10}\n", "layer",
             "sparsity", "forward", "dX", "dW", "all", "GF/s fwd dX dW",
             "dense ms");
  for (const ConvShape& shape : ReadShapes(path)) {
    Bench bench(shape, {&sparse::Kernels(isa), Parallel(threads)});
    for (double sparsity : {0.8, 0.9, 0.95, 0.99}) {
      bench.Prune(sparsity);
      bench.Verify();
      bench.Print(shape.Text(), sparsity);
    }
  }
  return 0;
}

}  // namespace
}  // namespace lumen::nn

int main(int argc, char** argv) { return lumen::nn::Main(argc, argv); }
