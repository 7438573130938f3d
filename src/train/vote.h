// SPDX-License-Identifier: Apache-2.0
// The one small message per step in which ranks tell each other how the step
// went, so that all of them take the same decision.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lumen/comm/communicator.h"
#include "lumen/nn/loss.h"

namespace lumen::train {

// What one rank has to say.
struct RankVote {
  int32_t signal = 0;   // a signal asks to stop
  int32_t time_up = 0;  // the time limit is near
  int32_t writing = 0;  // its checkpoint files are not yet written
  int32_t write_failed = 0;
  int64_t bytes_sent = 0;  // since its start
  double exchange_wait_s = 0;
  double data_wait_s = 0;
};

struct VoteResult {
  bool signal = false;  // any rank
  bool time_up = false;
  bool writing = false;
  bool write_failed = false;
  int64_t bytes_sent = 0;      // of all ranks
  double exchange_wait_s = 0;  // largest
  double data_wait_s = 0;
  nn::LossSums sums;  // all shards, added in shard order
};

// Collective. `shard_sums` are those of this rank's shards, in order; every
// rank has `metrics` metrics per shard. Costs one AllGather of 48 bytes and 16
// + 8 * metrics per shard.
VoteResult Vote(comm::Communicator* communicator, const RankVote& mine,
                std::span<const nn::LossSums> shard_sums, int64_t metrics);

// The sums and counts of an evaluation. Collective.
nn::LossSums SumOverShards(comm::Communicator* communicator,
                           std::span<const nn::LossSums> shard_sums,
                           int64_t metrics);

}  // namespace lumen::train
