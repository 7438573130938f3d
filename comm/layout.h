// SPDX-License-Identifier: Apache-2.0
// Where everything of an exchange lies: buckets, their regions, the owners of
// the regions and the hosts of the shards. A pure function of the options and
// the number of ranks; it allocates nothing in proportion to the parameters.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lumen/comm/exchange.h"

namespace lumen::comm {

// A half-open range.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// The part of [0, items) that `rank` gets: contiguous, sizes differ by at most
// one, earlier ranks get more.
Range Share(int64_t items, int64_t ranks, int64_t rank);

// The resolved number of regions of a bucket of `length`: given, or at most
// max(S, 64) and a multiple of S that keeps 64 entries each of what a shard
// sends, but no fewer than S: shorter slices cost more in heads and scales than
// in entries.
int64_t ResolvedRegions(const ExchangeOptions& options, int64_t length);

class Layout {
 public:
  // Throws SpecError when ranks > shards or a region would reach 2^31 entries.
  Layout(const ExchangeOptions& options, int ranks);

  int ranks() const { return ranks_; }
  int shards() const { return shards_; }
  int64_t parameters() const { return parameters_; }
  int buckets() const { return static_cast<int>(buckets_.size()); }
  const Bucket& bucket(int b) const { return buckets_[b]; }
  int64_t largest_bucket() const;

  // Region g of bucket b is [bounds[g], bounds[g + 1]) within the bucket.
  std::span<const int64_t> bounds(int b) const { return bounds_[b]; }
  int64_t regions(int b) const {
    return static_cast<int64_t>(bounds_[b].size()) - 1;
  }
  Range region(int b, int64_t g) const {
    return {bounds_[b][g], bounds_[b][g + 1]};
  }

  // Regions of bucket b that `rank` owns.
  Range OwnedRegions(int b, int rank) const;
  // The entries of these regions within the bucket.
  Range OwnedEntries(int b, int rank) const;
  // Over all buckets.
  int64_t OwnedSize(int rank) const;
  // Shards hosted by `rank`.
  Range Hosted(int rank) const { return Share(shards_, ranks_, rank); }

 private:
  int ranks_;
  int shards_;
  int64_t parameters_;
  std::vector<Bucket> buckets_;
  std::vector<std::vector<int64_t>> bounds_;
};

}  // namespace lumen::comm
