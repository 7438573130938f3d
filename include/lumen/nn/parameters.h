// SPDX-License-Identifier: Apache-2.0
// The parameters of a model: one flat array in model order, nonzeros only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lumen/core/buffer.h"
#include "lumen/core/hash.h"
#include "lumen/sparse/compute.h"
#include "lumen/sparse/pattern.h"

namespace lumen::nn {

// How a tensor starts. kUniformFanIn: uniform in +-1 / sqrt(fan_in), PyTorch's
// default for linear layers; for sparse rows fan_in stays that of the dense
// layer divided by 1 / density, so that the variance of a sum is kept (Evci et
// al. 2022, "Gradient Flow in Sparse Neural Networks").
// kHe: uniform with the variance 2 / fan_in (He et al. 2015, section 2.2), with
// the same treatment of sparse rows.
enum class Init { kUniformFanIn, kHe, kZeros, kOnes };

// Values that training keeps beside the parameters without a gradient: running
// means and variances. They start at `initial`.
struct StatisticDecl {
  std::string name;  // "bn1.running_mean"
  int64_t size = 0;
  float initial = 0;
};

// Where the mask of a sparse tensor comes from.
enum class MaskOrigin { kSeed, kImport };

// A tensor as a layer declares it, before anything is allocated.
struct ParameterDecl {
  std::string name;            // "fc1.weight"
  std::vector<int64_t> shape;  // of the dense tensor, outputs first
  int64_t fan_in = 1;
  Init init = Init::kZeros;
  bool prunable = false;  // may a mask be put on it? false: excluded too
  int64_t nnz = 0;        // set by the graph; shape product when dense
  MaskOrigin mask = MaskOrigin::kSeed;  // kImport: set by UseImportedMasks

  int64_t dense_size() const;
  bool is_sparse() const { return nnz < dense_size(); }
};

// A tensor in the flat array.
struct Parameter {
  ParameterDecl decl;
  int64_t offset = 0;                        // into the flat arrays
  std::unique_ptr<sparse::KernelRows> rows;  // null for a dense tensor
  int64_t size() const { return decl.nnz; }
  // int64 positions in the dense tensor of entries [begin, begin + out.size()).
  void Positions(int64_t begin, std::span<int64_t> out) const;
};

class ParameterSet {
 public:
  // Allocates; masks and values are set by the model.
  explicit ParameterSet(std::vector<ParameterDecl> declarations);

  int64_t size() const { return values_.size(); }  // nonzeros in all
  int64_t dense_size() const;                      // of the dense model
  std::span<Parameter> tensors() { return tensors_; }
  std::span<const Parameter> tensors() const { return tensors_; }
  std::span<float> values() { return values_.span(); }
  std::span<const float> values() const { return values_.span(); }
  std::span<float> values(const Parameter& p);
  std::span<const float> values(const Parameter& p) const;
  // Sizes of the tensors in order, for buckets.
  std::vector<int64_t> tensor_sizes() const;

  // After values changed: copies them into the transposed order of the kernels.
  void Refresh(const Parallel& parallel);

  // DESIGN section 9: over model order name, shape (int64), positions (int64),
  // values (fp32), little-endian.
  void HashInto(Hasher* hasher) const;

 private:
  std::vector<Parameter> tensors_;
  Buffer<float> values_;
};

// The values of a tensor whose mask changes: new entry i gets the value of old
// entry source[i], or 0 for -1.
void TakeEntries(std::span<const int64_t> source, std::span<float> values);

}  // namespace lumen::nn
