// SPDX-License-Identifier: Apache-2.0
// oneDNN behind one door: the independent oracle of dense operations in tests
// and the baseline of benchmarks. Compiles with oneDNN v2 (Debian 12) and v3.
// Never call it inside a parallel region.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lumen/core/panel.h"
#include "lumen/sparse/isa.h"
#include "lumen/sparse/window.h"

namespace lumen::sparse {

// Row-major fp32, row i of x is sample i: y[B][N] = x[B][K] w[N][K]^T + bias.
// Holds its primitives, so that a benchmark times execution only.
class OneDnnLinear {
 public:
  OneDnnLinear(int64_t batch, int64_t inputs, int64_t outputs);
  ~OneDnnLinear();
  OneDnnLinear(const OneDnnLinear&) = delete;
  OneDnnLinear& operator=(const OneDnnLinear&) = delete;
  void Forward(const float* x, const float* w, const float* bias, float* y);
  void BackwardData(const float* dy, const float* w, float* dx);
  void BackwardWeights(const float* x, const float* dy, float* dw, float* db);

 private:
  struct Primitives;
  std::unique_ptr<Primitives> primitives_;
};

// A convolution without bias, in whatever formats oneDNN likes best. Outside it
// maps are [sample][channel][row][column] and the weight is [output][input of
// the group][row][column], row-major fp32. Set and Get reorder; the passes only
// compute.
class OneDnnConv {
 public:
  OneDnnConv(int64_t batch, const Shape& input, int64_t outputs,
             const Window& window);
  ~OneDnnConv();
  OneDnnConv(const OneDnnConv&) = delete;
  OneDnnConv& operator=(const OneDnnConv&) = delete;
  void SetX(const float* x);
  void SetWeight(const float* w);
  void SetDy(const float* dy);
  void Forward();
  void BackwardData();
  void BackwardWeights();
  void GetY(float* y);
  void GetDx(float* dx);
  void GetDw(float* dw);

 private:
  struct Primitives;
  std::unique_ptr<Primitives> primitives_;
};

std::string OneDnnVersion();
// Holds oneDNN to an instruction set, for fair comparisons. Before its first
// use; kAvx512 is all that this CPU has.
void LimitOneDnn(Isa isa);

}  // namespace lumen::sparse
