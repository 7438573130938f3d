// SPDX-License-Identifier: Apache-2.0
// The exchange: shard gradients in, the same sum on every rank out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lumen/comm/communicator.h"
#include "lumen/core/json.h"
#include "lumen/core/schema.h"
#include "lumen/sparse/compute.h"

namespace lumen::comm {

// A contiguous slice [begin, end) of the flat gradient.
struct Bucket {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// Logical regions of a bucket: G parts whose sizes differ by at most one; fewer
// when the bucket is shorter than G. A pure function of length and G.
std::vector<int64_t> RegionBounds(int64_t length, int64_t regions);

// Shards hosted by a rank: contiguous, sizes differ by at most one, earlier
// ranks get more. REQUIRES ranks <= shards.
std::vector<int> HostedShards(int shards, int ranks, int rank);
// First rank that owns region g of G: contiguous runs in the same way.
int RegionOwner(int64_t region, int64_t regions, int ranks);

struct ExchangeOptions {
  int shards = 1;
  int64_t parameters = 0;
  std::vector<Bucket> buckets;  // in order, covering [0, parameters)
  Json spec;                    // the resolved "exchange" object
  double clip_norm = 0;         // 0: off
};

// One array that must survive a restart.
struct ExchangeState {
  std::string name;
  std::span<float> values;
};

// Where the time of this rank went since the exchange was made, in seconds.
struct ExchangeTimes {
  double select = 0;  // clipping, adding the residual, choosing
  double encode = 0;  // coding what was chosen
  double send = 0;    // messages under way
  double decode = 0;  // decoding, adding up, choosing again, handing out
};

// Collective: all ranks call the same methods in the same order. One step is
//   for each hosted shard: fill Gradient(shard); for buckets, last first:
//     Add(shard, bucket)
//   Reduce(sink); then every rank Commit() or every rank Discard().
// The state changes only in Commit. Non-finite gradients are allowed until
// Reduce returns: it says whether they were seen; then only Discard is legal.
class Exchange {
 public:
  virtual ~Exchange() = default;

  // Where the backward pass of a hosted shard writes, [parameters]; contents
  // before writing are unspecified. Already divided by the global count of
  // valid samples. Valid until the next Commit or Discard.
  virtual std::span<float> Gradient(int shard) = 0;
  // The bucket of that shard's gradient is final.
  virtual void Add(int shard, int bucket) = 0;
  // Waits for all buckets and hands the sum of each to `sink`, in bucket order:
  // identical bits on every rank, for any number of ranks. With `finite` false
  // (this rank saw a non-finite gradient) or on any rank the sums are
  // meaningless and the sink is not called.
  // Returns true when all shards were finite. Where sends_again() is true it
  // may be called again before Commit, to time the messages: the sums are the
  // same.
  using Sink = std::function<void(int bucket, std::span<const float> sum)>;
  virtual bool Reduce(const Sink& sink) = 0;
  virtual bool sends_again() const { return false; }
  // For the sink: where the sum may be nonzero, ascending within its bucket.
  // Without a value: anywhere.
  virtual std::optional<std::span<const int32_t>> touched() const {
    return std::nullopt;
  }
  virtual void Commit() = 0;
  virtual void Discard() = 0;

  // State per hosted shard (residual, ...), written to shard-S.h5 by its host.
  virtual std::vector<ExchangeState> ShardState(int shard) = 0;
  // Owner state by position, one flat array [parameters] over all ranks: this
  // rank's parts of it, and collective calls to move it to and from rank 0.
  virtual bool has_owner_state() const = 0;
  // Rank 0 gets all of it in `whole` ([parameters], ignored elsewhere).
  virtual void GatherOwnerState(std::span<float> whole) = 0;
  virtual void ScatterOwnerState(std::span<const float> whole) = 0;

  // Bytes of memory per rank, for plan; and what one rank sends in a step in
  // theory (V2 of DESIGN section 6).
  virtual int64_t memory_bytes() const = 0;
  virtual ExchangeTimes times() const { return {}; }
};

struct ExchangeMemory {
  int64_t bytes = 0;           // resident, per rank (the largest)
  double wire_bytes_step = 0;  // expected, all ranks together
  int64_t shard_floats = 0;    // state per shard, in a checkpoint
  int64_t owner_floats = 0;    // owner state of all ranks together
};

// One row per exchange type.
struct ExchangeRow {
  std::string_view type;
  std::span<const Key> keys;
  std::string_view help;
  bool same_bits;  // does the sum not depend on the number of ranks?
  std::unique_ptr<Exchange> (*create)(const ExchangeOptions& options,
                                      Communicator* communicator,
                                      const sparse::Compute& compute);
  // Without MPI: for `lumen plan`.
  ExchangeMemory (*plan)(const ExchangeOptions& options, int ranks);
};
std::span<const ExchangeRow> Exchanges();
std::vector<Variant> ExchangeVariants();
// By the row that options.spec names.
std::unique_ptr<Exchange> NewExchange(const ExchangeOptions& options,
                                      Communicator* communicator,
                                      const sparse::Compute& compute);
ExchangeMemory PlanExchange(const ExchangeOptions& options, int ranks);
// Keys that every exchange takes: every, verify_every, regions, bucket.
extern const std::span<const Key> kCommonExchangeKeys;

// Cuts [0, parameters) at the tensor boundaries into buckets of about
// `bucket_elements`; larger tensors are cut. A pure function of its arguments.
std::vector<Bucket> NewBuckets(std::span<const int64_t> tensor_sizes,
                               int64_t bucket_elements);

}  // namespace lumen::comm
