// SPDX-License-Identifier: Apache-2.0
// One sparse layer against the dense one of oneDNN, on the same numbers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lumen/sparse/compute.h"

namespace lumen::cli {

struct BenchShape {
  int64_t outputs = 0;
  int64_t inputs = 0;
  int64_t window = 0;  // 0: a linear layer
  int64_t map = 1;     // height and width of the input
  int64_t stride = 1;
  int64_t batch = 0;

  bool is_linear() const { return window == 0; }
  std::string Kind() const;  // "linear", "conv3x3", "conv3x3/2"
  std::string Text() const;  // "1024x1024 B128", "64 to 256, 56x56, B16"
};

// Lines of tests/bench/shapes.txt. `source` names the text in errors. Throws
// SpecError.
std::vector<BenchShape> ParseBenchShapes(std::string_view text,
                                         const std::string& source);

enum class BenchPass { kForward, kDx, kDw };
inline constexpr std::array kBenchPasses = {BenchPass::kForward, BenchPass::kDx,
                                            BenchPass::kDw};
std::string_view BenchPassName(BenchPass pass);  // "forward", "dx", "dw"

struct PassTimes {
  double dense_seconds = 0;
  double sparse_seconds = 0;
};

// Ours is the whole layer of the engine, padding copies included. oneDNN works
// in its own formats, reordered before the clock starts.
class LayerBench {
 public:
  LayerBench(const BenchShape& shape, const sparse::Compute& compute);
  ~LayerBench();
  LayerBench(const LayerBench&) = delete;
  LayerBench& operator=(const LayerBench&) = delete;

  // Keeps this part of the weights, at random places.
  void Prune(double density);
  // Compares all passes with oneDNN, which has zeros for the missing weights.
  // Throws IoError with the first value that differs.
  void Verify();
  // Best of `repeats`, the sides in turn. dX is what a backward pass takes
  // beyond dW. With one thread, time of the processor, which other programs add
  // little to.
  std::array<PassTimes, 3> Time(int repeats);
  // Of one pass, on the weights that exist.
  double flops() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Multiply-adds in registers of all threads, counted as two operations each.
double PeakFlopsPerSecond(const sparse::Compute& compute);

}  // namespace lumen::cli
