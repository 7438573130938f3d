// SPDX-License-Identifier: Apache-2.0
#include "lumen/nn/parameters.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lumen::nn {
namespace {

constexpr int64_t kChunk = int64_t{1} << 16;

int64_t TotalNonzeros(const std::vector<ParameterDecl>& declarations) {
  int64_t total = 0;
  for (const ParameterDecl& declaration : declarations) {
    total += declaration.nnz;
  }
  return total;
}

}  // namespace

int64_t ParameterDecl::dense_size() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1},
                         std::multiplies<>());
}

void Parameter::Positions(int64_t begin, std::span<int64_t> out) const {
  if (rows) return rows->Positions(begin, out);
  std::iota(out.begin(), out.end(), begin);
}

ParameterSet::ParameterSet(std::vector<ParameterDecl> declarations)
    : values_(TotalNonzeros(declarations)) {
  int64_t offset = 0;
  for (ParameterDecl& declaration : declarations) {
    Parameter tensor;
    tensor.offset = offset;
    offset += declaration.nnz;
    tensor.decl = std::move(declaration);
    tensors_.push_back(std::move(tensor));
  }
}

int64_t ParameterSet::dense_size() const {
  int64_t total = 0;
  for (const Parameter& tensor : tensors_) total += tensor.decl.dense_size();
  return total;
}

std::span<float> ParameterSet::values(const Parameter& p) {
  return values_.span().subspan(static_cast<size_t>(p.offset),
                                static_cast<size_t>(p.size()));
}

std::span<const float> ParameterSet::values(const Parameter& p) const {
  return values_.span().subspan(static_cast<size_t>(p.offset),
                                static_cast<size_t>(p.size()));
}

std::vector<int64_t> ParameterSet::tensor_sizes() const {
  std::vector<int64_t> sizes;
  for (const Parameter& tensor : tensors_) sizes.push_back(tensor.size());
  return sizes;
}

void ParameterSet::Refresh(const Parallel& parallel) {
  for (Parameter& tensor : tensors_) {
    if (tensor.rows) tensor.rows->Refresh(values(tensor), parallel);
  }
}

void TakeEntries(std::span<const int64_t> source, std::span<float> values) {
  const std::vector<float> old(values.begin(), values.end());
  for (size_t i = 0; i < source.size(); ++i) {
    values[i] = source[i] < 0 ? 0.0f : old[static_cast<size_t>(source[i])];
  }
}

void ParameterSet::HashInto(Hasher* hasher) const {
  std::vector<int64_t> positions;
  for (const Parameter& tensor : tensors_) {
    hasher->Update(tensor.decl.name);
    hasher->Update(std::span<const int64_t>(tensor.decl.shape));
    for (int64_t begin = 0; begin < tensor.size(); begin += kChunk) {
      positions.resize(
          static_cast<size_t>(std::min(kChunk, tensor.size() - begin)));
      tensor.Positions(begin, positions);
      hasher->Update(std::span<const int64_t>(positions));
    }
    hasher->Update(values(tensor));
  }
}

}  // namespace lumen::nn
