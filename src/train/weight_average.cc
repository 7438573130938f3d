// SPDX-License-Identifier: Apache-2.0
#include "weight_average.h"

#include <algorithm>
#include <cstdint>

namespace lumen::train {

WeightAverage::WeightAverage(const Json& decay,
                             const nn::ParameterSet& parameters) {
  if (decay.is_null()) return;
  decay_ = static_cast<float>(decay.number());
  values_ = Buffer<float>(parameters.size());
  const auto weights = parameters.values();
  std::copy(weights.begin(), weights.end(), values_.data());
}

void WeightAverage::Add(const sparse::Compute& compute,
                        const nn::ParameterSet& parameters) {
  constexpr int64_t kPiece = int64_t{1} << 16;
  const int64_t size = values_.size();
  const float* weights = parameters.values().data();
  compute.parallel.For((size + kPiece - 1) / kPiece, [&](int64_t i) {
    const int64_t begin = i * kPiece;
    compute->average(weights + begin, values_.data() + begin, decay_,
                     std::min(kPiece, size - begin));
  });
}

void WeightAverage::Swap(const Parallel& parallel,
                         nn::ParameterSet* parameters) {
  if (values_.size() == 0) return;
  std::swap_ranges(values_.data(), values_.data() + values_.size(),
                   parameters->values().begin());
  parameters->Refresh(parallel);
}

}  // namespace lumen::train
