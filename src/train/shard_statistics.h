// SPDX-License-Identifier: Apache-2.0
// Running statistics of normalisation layers: one set per shard, so that no
// step waits for another rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lumen/comm/communicator.h"

namespace lumen::train {

class ShardStatistics {
 public:
  // Every shard starts from `initial`.
  ShardStatistics(int shards, const std::vector<int>& hosted_shards,
                  std::span<const float> initial);

  int64_t size() const { return size_; }
  // Of a hosted shard.
  std::span<float> current(int shard);
  std::span<float> next(int shard);
  // The next ones become the current ones.
  void Commit();

  // The mean over all shards: their sum in a fixed binary tree, divided by
  // their number. Collective; every rank gets it. Sends 4 bytes per value and
  // hosted shard to every other rank.
  std::vector<float> Combined(comm::Communicator* communicator) const;

  static int64_t MemoryBytes(int64_t size, int64_t hosted_shards) {
    return 8 * size * hosted_shards;
  }

 private:
  size_t Index(int shard) const;

  int shards_;
  std::vector<int> hosted_shards_;
  int64_t size_;
  std::vector<std::vector<float>> current_;
  std::vector<std::vector<float>> next_;
};

}  // namespace lumen::train
