// SPDX-License-Identifier: Apache-2.0
// Sparse kernels against oneDNN dense: time ratio per shape, sparsity and pass.
//
//   OMP_NUM_THREADS=1 build/release/tests/kernel_bench [shapes.txt] [isa]
//
// One thread, both sides in one process in turn, best of several. Each shape is
// verified first: our full pattern against oneDNN. Then dW in reduction units
// of 16 samples over units of a whole tile, and element-wise kernels per
// element.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "lumen/sparse/kernels.h"
#include "lumen/sparse/onednn.h"
#include "lumen/sparse/pattern.h"

namespace lumen::sparse {
namespace {

constexpr int64_t kVectors = 8;  // tiles of 128 lanes
constexpr int64_t kLanes = 16 * kVectors;
constexpr int kRepeats = 7;

template <class Body>
double Seconds(const Body& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

struct Shape {
  std::string kind;
  int64_t outputs, inputs, batch;
};

std::vector<Shape> ReadShapes(const std::string& path) {
  std::ifstream file(path);
  std::vector<Shape> shapes;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Shape shape;
    if (words >> shape.kind >> shape.outputs >> shape.inputs >> shape.batch &&
        shape.kind == "linear") {
      shapes.push_back(shape);
    }
  }
  return shapes;
}

std::vector<float> Random(int64_t n) {
  static std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = normal(random);
  return values;
}

// Panels [tile][feature][128] from rows [sample][feature].
std::vector<float> ToLanes(const std::vector<float>& rows, int64_t features) {
  std::vector<float> panel(rows.size());
  const auto samples = static_cast<int64_t>(rows.size()) / features;
  for (int64_t s = 0; s < samples; ++s) {
    for (int64_t f = 0; f < features; ++f) {
      panel[(s / kLanes * features + f) * kLanes + s % kLanes] =
          rows[s * features + f];
    }
  }
  return panel;
}

KernelRows NewRows(Pattern pattern) {
  const auto addressing =
      Addressing::OfLinear(pattern.rows(), pattern.columns(), kLanes);
  return KernelRows(std::move(pattern), addressing, Parallel(1));
}

// One shape: the dense side and ours on the same numbers.
class Bench {
 public:
  Bench(const Shape& shape, const KernelTable& kernels)
      : shape_(shape),
        kernels_(kernels),
        tiles_(shape.batch / kLanes),
        dense_(shape.batch, shape.inputs, shape.outputs),
        x_(Random(shape.batch * shape.inputs)),
        dy_(Random(shape.batch * shape.outputs)),
        w_(Random(shape.outputs * shape.inputs)),
        bias_(Random(shape.outputs)),
        y_(dy_.size()),
        dx_(x_.size()),
        dw_(w_.size()),
        db_(bias_.size()),
        x_lanes_(ToLanes(x_, shape.inputs)),
        dy_lanes_(ToLanes(dy_, shape.outputs)),
        y_lanes_(y_.size()),
        dx_lanes_(dx_.size()),
        dw_sparse_(w_.size()) {}

  void Dense(int pass) {
    if (pass == 0)
      dense_.Forward(x_.data(), w_.data(), bias_.data(), y_.data());
    if (pass == 1) dense_.BackwardData(dy_.data(), w_.data(), dx_.data());
    if (pass == 2) {
      dense_.BackwardWeights(x_.data(), dy_.data(), dw_.data(), db_.data());
    }
  }

  void Sparse(int pass, const KernelRows& rows, const float* value) {
    for (int64_t t = 0; t < tiles_; ++t) {
      const float* x = x_lanes_.data() + t * shape_.inputs * kLanes;
      const float* dy = dy_lanes_.data() + t * shape_.outputs * kLanes;
      if (pass == 0) {
        rows.Multiply(kernels_, value, bias_.data(), x,
                      y_lanes_.data() + t * shape_.outputs * kLanes,
                      Run::OfLanes(kLanes), 0, shape_.outputs);
      } else if (pass == 1) {
        rows.MultiplyTransposed(kernels_, 0, dy,
                                dx_lanes_.data() + t * shape_.inputs * kLanes,
                                Run::OfLanes(kLanes), 0, 0, shape_.inputs);
      } else {
        Dw(rows, {x, dy, kVectors}, t > 0);
      }
    }
  }

  // Exits when our kernels on a full pattern do not agree with oneDNN.
  void Verify() {
    Pattern full = NewRandomPattern(
        NewRandomKey(1, Stream::kMask, 0), shape_.outputs, shape_.inputs,
        shape_.outputs * shape_.inputs, Parallel(1));
    KernelRows rows = NewRows(std::move(full));
    rows.Refresh(w_, Parallel(1));
    for (int pass = 0; pass < 3; ++pass) {
      Dense(pass);
      Sparse(pass, rows, w_.data());
    }
    Compare(ToLanes(y_, shape_.outputs), y_lanes_, "forward");
    Compare(ToLanes(dx_, shape_.inputs), dx_lanes_, "dX");
    Compare(dw_, dw_sparse_, "dW");
  }

  // Time of dW in units of one vector over that in units of a tile.
  double UnitRatio(const KernelRows& rows) {
    double tile = 1e9, single = 1e9;
    for (int i = 0; i < kRepeats; ++i) {
      tile = std::min(tile, Seconds([&] { Units(rows, kVectors); }));
      single = std::min(single, Seconds([&] { Units(rows, 1); }));
    }
    return single / tile;
  }

  // Best times {dense, sparse} of a pass.
  std::pair<double, double> Time(int pass, const KernelRows& rows,
                                 const float* value) {
    double dense = 1e9, sparse = 1e9;
    for (int i = 0; i < kRepeats; ++i) {
      dense = std::min(dense, Seconds([&] { Dense(pass); }));
      sparse = std::min(sparse, Seconds([&] { Sparse(pass, rows, value); }));
    }
    return {dense, sparse};
  }

 private:
  // dW of the first tile in units of `vectors`.
  void Units(const KernelRows& rows, int64_t vectors) {
    for (int64_t v = 0; v < kVectors; v += vectors) {
      Dw(rows, {x_lanes_.data() + 16 * v, dy_lanes_.data() + 16 * v, vectors},
         v > 0);
    }
  }

  void Dw(const KernelRows& rows, const Segment& segment, int accumulate) {
    const Unit unit = {.segments = &segment, .count = 1, .dy_row = kVectors};
    kernels_.sddmm(rows.forward(), unit, accumulate, dw_sparse_.data(), 0,
                   shape_.outputs);
  }

  static void Compare(const std::vector<float>& a, const std::vector<float>& b,
                      const char* what) {
    for (size_t i = 0; i < a.size(); ++i) {
      if (std::abs(a[i] - b[i]) <= 1e-2f + 1e-3f * std::abs(a[i])) continue;
      fmt::print(stderr, "{} differs at {}: {} and {}\n", what, i, a[i], b[i]);
      std::exit(1);
    }
  }

  Shape shape_;
  const KernelTable& kernels_;
  int64_t tiles_;
  OneDnnLinear dense_;
  std::vector<float> x_, dy_, w_, bias_, y_, dx_, dw_, db_;
  std::vector<float> x_lanes_, dy_lanes_, y_lanes_, dx_lanes_, dw_sparse_;
};

// Nanoseconds per element, in L2.
void PrintElementwise(const KernelTable& kernels) {
  constexpr int64_t kElements = 1 << 16;
  std::vector<float> a = Random(kElements), b = Random(kElements),
                     c = Random(kElements);
  const uint64_t samples[16] = {};
  const RandomKey key = NewRandomKey(1, Stream::kDropout, 0);
  float largest[16], sum[16];
  const auto print = [](const char* name, int64_t elements, const auto& body) {
    double best = 1e9;
    for (int i = 0; i < 4 * kRepeats; ++i) best = std::min(best, Seconds(body));
    fmt::print("{:<14} {:>6.3f} ns\n", name,
               1e9 * best / static_cast<double>(elements));
  };
  print("relu", kElements,
        [&] { kernels.relu(a.data(), b.data(), kElements); });
  print("relu_backward", kElements, [&] {
    kernels.relu_backward(a.data(), c.data(), b.data(), kElements);
  });
  print("dropout", kElements, [&] {
    kernels.dropout(key, 0, samples, 6554, 1.1f, a.data(), b.data(),
                    kElements / 16, 16);
  });
  print("softmax of 10", 160,
        [&] { kernels.softmax(b.data(), 10, 16, largest, sum); });
  print("sgd", kElements, [&] {
    kernels.sgd(a.data(), b.data(), c.data(), 1e-9f, 0.9f, 0, 0, 0, kElements);
  });
}

int Main(int argc, char** argv) {
  const std::string path =
      argc > 1 ? argv[1] : std::string(LUMEN_SOURCE "/tests/bench/shapes.txt");
  const KernelTable& kernels = Kernels(ParseIsa(argc > 2 ? argv[2] : "auto"));
  fmt::print("{}, one thread, {}; dense time / ours\n", IsaName(kernels.isa),
             OneDnnVersion());
  fmt::print("{:<22} {:>8} {:>9} {:>7} {:>7} {:>7} {:>10} {:>9}\n", "shape",
             "sparsity", "forward", "dX", "dW", "all", "GF/s (fwd)",
             "dW 16/128");
  for (const Shape& shape : ReadShapes(path)) {
    Bench bench(shape, kernels);
    bench.Verify();
    for (double sparsity : {0.8, 0.9, 0.95, 0.99}) {
      const auto nnz = static_cast<int64_t>(
          std::llround((1 - sparsity) * static_cast<double>(shape.outputs) *
                       static_cast<double>(shape.inputs)));
      KernelRows rows = NewRows(
          NewRandomPattern(NewRandomKey(2, Stream::kMask, 0), shape.outputs,
                           shape.inputs, nnz, Parallel(1)));
      const std::vector<float> value = Random(nnz);
      rows.Refresh(value, Parallel(1));
      double dense_sum = 0, sparse_sum = 0, forward = 0;
      std::vector<double> ratio;
      for (int pass = 0; pass < 3; ++pass) {
        const auto [dense, sparse] = bench.Time(pass, rows, value.data());
        ratio.push_back(dense / sparse);
        dense_sum += dense;
        sparse_sum += sparse;
        if (pass == 0) forward = sparse;
      }
      fmt::print(
          "{:<22} {:>6.0f} % {:>8.1f}x {:>6.1f}x {:>6.1f}x {:>6.1f}x "
          "{:>10.0f} {:>8.1f}x\n",
          fmt::format("{}x{} B{}", shape.outputs, shape.inputs, shape.batch),
          100 * sparsity, ratio[0], ratio[1], ratio[2], dense_sum / sparse_sum,
          2e-9 * static_cast<double>(nnz * shape.batch) / forward,
          bench.UnitRatio(rows));
    }
  }
  PrintElementwise(kernels);
  return 0;
}

}  // namespace
}  // namespace lumen::sparse

int main(int argc, char** argv) { return lumen::sparse::Main(argc, argv); }
