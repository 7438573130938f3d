// SPDX-License-Identifier: Apache-2.0
#include "layout.h"

#include <fmt/format.h>
#include <glog/logging.h>

#include <algorithm>

#include "lumen/comm/compressor.h"
#include "lumen/core/error.h"

namespace lumen::comm {

Range Share(int64_t items, int64_t ranks, int64_t rank) {
  const int64_t each = items / ranks;
  const int64_t more = items % ranks;
  const int64_t begin = rank * each + std::min(rank, more);
  return {begin, begin + each + (rank < more ? 1 : 0)};
}

std::vector<int64_t> RegionBounds(int64_t length, int64_t regions) {
  CHECK(length >= 0 && regions >= 1);
  const int64_t parts = std::min(length, regions);
  std::vector<int64_t> bounds = {0};
  for (int64_t g = 0; g < parts; ++g) {
    bounds.push_back(Share(length, parts, g).end);
  }
  return bounds;
}

std::vector<int> HostedShards(int shards, int ranks, int rank) {
  CHECK(ranks <= shards && 0 <= rank && rank < ranks);
  const Range hosted = Share(shards, ranks, rank);
  std::vector<int> result;
  for (int64_t s = hosted.begin; s < hosted.end; ++s) {
    result.push_back(static_cast<int>(s));
  }
  return result;
}

int RegionOwner(int64_t region, int64_t regions, int ranks) {
  const int64_t each = regions / ranks;
  const int64_t more = regions % ranks;
  const int64_t in_larger = more * (each + 1);
  return static_cast<int>(region < in_larger
                              ? region / (each + 1)
                              : more + (region - in_larger) / each);
}

std::vector<Bucket> NewBuckets(std::span<const int64_t> tensor_sizes,
                               int64_t bucket_elements) {
  CHECK_GE(bucket_elements, 1);
  std::vector<Bucket> buckets;
  int64_t begin = 0;  // of the open bucket
  int64_t end = 0;
  const auto close = [&] {
    if (end > begin) buckets.push_back({begin, end});
    begin = end;
  };
  for (const int64_t size : tensor_sizes) {
    if (end - begin + size > bucket_elements) close();
    if (size <= bucket_elements) {
      end += size;
      continue;
    }
    // Equal pieces of a large tensor; the last one stays open.
    const int64_t pieces = (size + bucket_elements - 1) / bucket_elements;
    for (int64_t i = 0; i < pieces; ++i) {
      close();
      end += Share(size, pieces, i).size();
    }
  }
  close();
  return buckets;
}

int64_t ResolvedRegions(const ExchangeOptions& options, int64_t length) {
  constexpr int64_t kEntries = 64;  // of a slice
  constexpr int64_t kRegions = 64;
  const Json& regions = options.spec.at("regions");
  if (!regions.is_null()) return regions.integer();
  const int64_t shards = options.shards;
  const int64_t most = std::max(shards, kRegions);
  const Json* compressor = options.spec.Find("compressor");
  if (!compressor) return most;
  const int64_t kept = NewCompressor(*compressor)->KeptOfShard(length);
  // A multiple of S, so that owners get equally many.
  return std::clamp(kept / kEntries / shards * shards, shards, most);
}

Layout::Layout(const ExchangeOptions& options, int ranks)
    : ranks_(ranks),
      shards_(options.shards),
      parameters_(options.parameters),
      buckets_(options.buckets) {
  if (ranks > shards_) {
    throw SpecError(fmt::format(
        "train.shards: {} shards for {} ranks; expected at least one shard per "
        "rank; start at most {} ranks, or raise train.shards to {} or a "
        "multiple of it",
        shards_, ranks, shards_, ranks));
  }
  int64_t covered = 0;
  for (const Bucket& bucket : buckets_) {
    CHECK(bucket.begin == covered && bucket.end >= bucket.begin)
        << "buckets cover the parameters in order";
    covered = bucket.end;
    bounds_.push_back(
        RegionBounds(bucket.size(), ResolvedRegions(options, bucket.size())));
    if (bucket.size() >= int64_t{1} << 31) {
      throw SpecError(fmt::format(
          "exchange.bucket: a bucket of {} entries; expected fewer than 2^31; "
          "lower exchange.bucket",
          bucket.size()));
    }
  }
  CHECK_EQ(covered, parameters_);
}

int64_t Layout::largest_bucket() const {
  int64_t largest = 0;
  for (const Bucket& bucket : buckets_) {
    largest = std::max(largest, bucket.size());
  }
  return largest;
}

Range Layout::OwnedRegions(int b, int rank) const {
  return Share(regions(b), ranks_, rank);
}

Range Layout::OwnedEntries(int b, int rank) const {
  const Range owned = OwnedRegions(b, rank);
  return {bounds_[b][owned.begin], bounds_[b][owned.end]};
}

int64_t Layout::OwnedSize(int rank) const {
  int64_t size = 0;
  for (int b = 0; b < buckets(); ++b) size += OwnedEntries(b, rank).size();
  return size;
}

}  // namespace lumen::comm
