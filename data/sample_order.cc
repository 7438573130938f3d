// SPDX-License-Identifier: Apache-2.0
#include <glog/logging.h>

#include <algorithm>

#include "lumen/core/permutation.h"
#include "lumen/data/loader.h"

namespace lumen::data {

SampleOrder::SampleOrder(int64_t size, int64_t global_batch, int shards,
                         uint64_t seed, Order order, Tail tail)
    : size_(size),
      global_batch_(global_batch),
      shards_(shards),
      seed_(seed),
      order_(order) {
  CHECK_GE(size, 0);
  CHECK_GT(shards, 0);
  CHECK_GT(global_batch, 0);
  CHECK_EQ(global_batch % shards, 0)
      << "shards must divide the global batch evenly";
  const int64_t whole = size / global_batch;
  const bool keep = tail == Tail::kKeep && size % global_batch != 0;
  steps_per_epoch_ = std::max<int64_t>(1, whole + (keep ? 1 : 0));
}

std::vector<int64_t> SampleOrder::Samples(int64_t step, int shard) const {
  CHECK(step >= 0 && shard >= 0 && shard < shards_) << step << ", " << shard;
  const auto epoch = static_cast<uint32_t>(step / steps_per_epoch_);
  const int64_t first =
      step % steps_per_epoch_ * global_batch_ + shard * shard_batch();
  const Permutation permutation(NewRandomKey(seed_, Stream::kOrder, 0), epoch,
                                size_);
  std::vector<int64_t> samples(shard_batch(), -1);
  for (int64_t i = 0; i < shard_batch() && first + i < size_; ++i) {
    samples[i] = order_ == Order::kShuffle ? permutation(first + i) : first + i;
  }
  return samples;
}

}  // namespace lumen::data
