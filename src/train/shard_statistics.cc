// SPDX-License-Identifier: Apache-2.0
#include "shard_statistics.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstring>

namespace lumen::train {
namespace {

// Into sum[0]: halves first, as far as both exist.
void TreeSum(std::vector<std::vector<float>>* sums) {
  for (size_t step = 1; step < sums->size(); step *= 2) {
    for (size_t s = 0; s + step < sums->size(); s += 2 * step) {
      for (size_t i = 0; i < (*sums)[s].size(); ++i) {
        (*sums)[s][i] += (*sums)[s + step][i];
      }
    }
  }
}

}  // namespace

ShardStatistics::ShardStatistics(int shards,
                                 const std::vector<int>& hosted_shards,
                                 std::span<const float> initial)
    : shards_(shards),
      hosted_shards_(hosted_shards),
      size_(std::ssize(initial)),
      current_(hosted_shards.size(),
               std::vector<float>(initial.begin(), initial.end())),
      next_(current_) {}

size_t ShardStatistics::Index(int shard) const {
  const auto found =
      std::find(hosted_shards_.begin(), hosted_shards_.end(), shard);
  CHECK(found != hosted_shards_.end()) << shard;
  return static_cast<size_t>(found - hosted_shards_.begin());
}

std::span<float> ShardStatistics::current(int shard) {
  return current_[Index(shard)];
}

std::span<float> ShardStatistics::next(int shard) {
  return next_[Index(shard)];
}

void ShardStatistics::Commit() { current_.swap(next_); }

std::vector<float> ShardStatistics::Combined(
    comm::Communicator* communicator) const {
  if (size_ == 0) return {};
  std::vector<float> mine;
  for (const std::vector<float>& shard : current_) {
    mine.insert(mine.end(), shard.begin(), shard.end());
  }
  // Shards in order: ranks host consecutive ones.
  std::vector<std::vector<float>> sums;
  for (const auto& bytes :
       communicator->AllGather(std::as_bytes(std::span<const float>(mine)))) {
    const auto of_rank = bytes.size() / sizeof(float);
    for (size_t at = 0; at < of_rank; at += static_cast<size_t>(size_)) {
      std::vector<float> shard(static_cast<size_t>(size_));
      std::memcpy(shard.data(), bytes.data() + at * sizeof(float),
                  shard.size() * sizeof(float));
      sums.push_back(std::move(shard));
    }
  }
  CHECK_EQ(std::ssize(sums), shards_);
  TreeSum(&sums);
  for (float& value : sums[0]) value /= static_cast<float>(shards_);
  return std::move(sums[0]);
}

}  // namespace lumen::train
