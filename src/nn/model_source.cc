// SPDX-License-Identifier: Apache-2.0
// Random masks and initial values.
#include <algorithm>
#include <cmath>

#include "lumen/nn/model.h"

namespace lumen::nn {
namespace {

constexpr int64_t kChunk = int64_t{1} << 14;

// Uniform in +-bound; the draw belongs to the position in the dense tensor.
void FillUniform(RandomKey key, float bound, const Parameter& parameter,
                 std::span<float> values, const Parallel& parallel) {
  const int64_t n = parameter.size();
  parallel.For((n + kChunk - 1) / kChunk, [&](int64_t c) {
    const int64_t begin = c * kChunk;
    const int64_t count = std::min(kChunk, n - begin);
    std::vector<int64_t> positions(static_cast<size_t>(count));
    parameter.Positions(begin, positions);
    for (int64_t i = 0; i < count; ++i) {
      const auto position =
          static_cast<uint64_t>(positions[static_cast<size_t>(i)]);
      const uint32_t bits = Draw(key, 0, position / 4, 0)[position % 4];
      values[static_cast<size_t>(begin + i)] =
          (2.0f * UnitFloat(bits) - 1.0f) * bound;
    }
  });
}

float Bound(const ParameterDecl& declaration, double gain) {
  // Inputs that a row really has.
  const double share = static_cast<double>(declaration.nnz) /
                       static_cast<double>(declaration.dense_size());
  return static_cast<float>(
      gain / std::sqrt(static_cast<double>(declaration.fan_in) * share));
}

void FillInitial(const ParameterDecl& declaration, RandomKey key,
                 const Parameter& parameter, std::span<float> values,
                 const Parallel& parallel) {
  switch (declaration.init) {
    case Init::kUniformFanIn:
      FillUniform(key, Bound(declaration, 1), parameter, values, parallel);
      break;
    case Init::kHe:
      FillUniform(key, Bound(declaration, std::sqrt(6.0)), parameter, values,
                  parallel);
      break;
    case Init::kZeros:
      std::fill(values.begin(), values.end(), 0.0f);
      break;
    case Init::kOnes:
      std::fill(values.begin(), values.end(), 1.0f);
      break;
  }
}

}  // namespace

ModelSource SeedSource(const Graph& graph, uint64_t seed,
                       const Parallel& parallel) {
  return {.pattern =
              [&graph, seed, parallel](int tensor) {
                const ParameterDecl& declaration =
                    graph.declarations[static_cast<size_t>(tensor)];
                const int64_t rows = declaration.shape[0];
                return sparse::NewRandomPattern(
                    NewRandomKey(seed, Stream::kMask,
                                 static_cast<uint32_t>(tensor)),
                    rows, declaration.dense_size() / rows, declaration.nnz,
                    parallel);
              },
          .values =
              [seed, parallel](int tensor, const Parameter& parameter,
                               std::span<float> values) {
                FillInitial(parameter.decl,
                            NewRandomKey(seed, Stream::kInit,
                                         static_cast<uint32_t>(tensor)),
                            parameter, values, parallel);
              }};
}

}  // namespace lumen::nn
