// SPDX-License-Identifier: Apache-2.0
#include "vote.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstring>

namespace lumen::train {
namespace {

template <class T>
void Append(const T& value, std::vector<std::byte>* out) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out->insert(out->end(), bytes, bytes + sizeof(T));
}

template <class T>
T Take(std::span<const std::byte>* bytes) {
  CHECK_GE(bytes->size(), sizeof(T));
  T value;
  std::memcpy(&value, bytes->data(), sizeof(T));
  *bytes = bytes->subspan(sizeof(T));
  return value;
}

void AppendSums(const nn::LossSums& sums, int64_t metrics,
                std::vector<std::byte>* out) {
  Append(sums.samples, out);
  Append(sums.loss, out);
  for (int64_t m = 0; m < metrics; ++m) {
    const auto i = static_cast<size_t>(m);
    Append(i < sums.metrics.size() ? sums.metrics[i] : 0.0, out);
  }
}

// The rest of a rank's message: one record per shard. Ranks host contiguous
// shards, so rank order is shard order.
void AddShards(std::span<const std::byte> bytes, int64_t metrics,
               nn::LossSums* sums) {
  while (!bytes.empty()) {
    nn::LossSums shard;
    shard.samples = Take<int64_t>(&bytes);
    shard.loss = Take<double>(&bytes);
    for (int64_t m = 0; m < metrics; ++m) {
      shard.metrics.push_back(Take<double>(&bytes));
    }
    sums->Add(shard);
  }
}

// Integers: the order of additions does not matter, so a rank sends one sum.
void AddCounts(comm::Communicator* communicator,
               std::span<const nn::LossSums> shard_sums, nn::LossSums* sums) {
  nn::LossSums mine;
  for (const nn::LossSums& shard : shard_sums) {
    mine.Add({.counts = shard.counts});
  }
  const std::span<const int64_t> counts(mine.counts);
  for (const auto& from : communicator->AllGather(std::as_bytes(counts))) {
    std::span<const std::byte> bytes(from);
    nn::LossSums of_rank;
    while (!bytes.empty()) of_rank.counts.push_back(Take<int64_t>(&bytes));
    sums->Add(of_rank);
  }
}

}  // namespace

VoteResult Vote(comm::Communicator* communicator, const RankVote& mine,
                std::span<const nn::LossSums> shard_sums, int64_t metrics) {
  std::vector<std::byte> message;
  Append(mine, &message);
  for (const nn::LossSums& sums : shard_sums) {
    AppendSums(sums, metrics, &message);
  }
  VoteResult result;
  for (const auto& from : communicator->AllGather(message)) {
    std::span<const std::byte> bytes(from);
    const auto vote = Take<RankVote>(&bytes);
    result.signal |= vote.signal != 0;
    result.time_up |= vote.time_up != 0;
    result.writing |= vote.writing != 0;
    result.write_failed |= vote.write_failed != 0;
    result.bytes_sent += vote.bytes_sent;
    result.exchange_wait_s =
        std::max(result.exchange_wait_s, vote.exchange_wait_s);
    result.data_wait_s = std::max(result.data_wait_s, vote.data_wait_s);
    AddShards(bytes, metrics, &result.sums);
  }
  return result;
}

nn::LossSums SumOverShards(comm::Communicator* communicator,
                           std::span<const nn::LossSums> shard_sums,
                           int64_t metrics) {
  std::vector<std::byte> message;
  for (const nn::LossSums& sums : shard_sums) {
    AppendSums(sums, metrics, &message);
  }
  nn::LossSums result;
  for (const auto& from : communicator->AllGather(message)) {
    AddShards(from, metrics, &result);
  }
  AddCounts(communicator, shard_sums, &result);
  return result;
}

}  // namespace lumen::train
