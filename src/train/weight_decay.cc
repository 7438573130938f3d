// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "optimizer_rows.h"

namespace lumen::train {
namespace {

constexpr int64_t kChunk = int64_t{1} << 16;

bool IsExcluded(const std::string& name, const Json& suffixes) {
  for (const Json& suffix : suffixes.items()) {
    if (name.ends_with(suffix.text())) return true;
  }
  return false;
}

}  // namespace

WeightDecay::WeightDecay(const Json& spec, const nn::ParameterSet& parameters) {
  const double decay = spec.at("weight_decay").number();
  for (const nn::Parameter& tensor : parameters.tensors()) {
    end_.push_back(tensor.offset + tensor.size());
    decay_.push_back(
        IsExcluded(tensor.decl.name, spec.at("decay_exclude")) ? 0 : decay);
  }
}

void WeightDecay::For(const Parallel& parallel, int64_t begin, int64_t end,
                      const Task& task) const {
  const int64_t chunks = (end - begin + kChunk - 1) / kChunk;
  parallel.For(chunks, [&](int64_t c) {
    int64_t at = begin + c * kChunk;
    const int64_t stop = std::min(end, at + kChunk);
    auto tensor = static_cast<size_t>(
        std::upper_bound(end_.begin(), end_.end(), at) - end_.begin());
    for (; at < stop; ++tensor) {
      const int64_t n = std::min(stop, end_[tensor]) - at;
      task(at, n, decay_[tensor]);
      at += n;
    }
  });
}

}  // namespace lumen::train
