// SPDX-License-Identifier: Apache-2.0
// What a step of split takes, without running it.
#include <algorithm>

#include "exchange_rows.h"
#include "layout.h"
#include "lumen/comm/codec.h"

namespace lumen::comm {
namespace {

// Coded bytes of all regions of a bucket, and of the part a rank owns.
struct CodedBytes {
  double all = 0;
  double owned = 0;
};

// `kept` entries spread evenly over the regions, each region costing a slice.
CodedBytes ShardBytes(const Layout& layout, int b, int rank, ValueCode code,
                      int64_t kept) {
  CodedBytes bytes;
  const Range owned = layout.OwnedRegions(b, rank);
  for (int64_t g = 0; g < layout.regions(b); ++g) {
    const int64_t here = Share(kept, layout.regions(b), g).size();
    const double slice =
        ExpectedSliceBytes(code, here, layout.region(b, g).size());
    bytes.all += slice;
    if (owned.begin <= g && g < owned.end) bytes.owned += slice;
  }
  return bytes;
}

double RegionBytes(const Layout& layout, int b, int rank, ValueCode code,
                   const Compressor& compressor) {
  double bytes = 0;
  const Range owned = layout.OwnedRegions(b, rank);
  for (int64_t g = owned.begin; g < owned.end; ++g) {
    const int64_t length = layout.region(b, g).size();
    bytes += ExpectedSliceBytes(code, compressor.KeptOfRegion(length), length);
  }
  return bytes;
}

}  // namespace

ExchangeMemory PlanSplitExchange(const ExchangeOptions& options, int ranks) {
  const Layout layout(options, ranks);
  const auto compressor = NewCompressor(options.spec.at("compressor"));
  const auto code =
      ParseValueCode(options.spec.at("codec").at("values").text());
  const double others = ranks - 1;
  ExchangeMemory plan;
  std::vector<double> regions(ranks);
  double all_regions = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    for (int b = 0; b < layout.buckets(); ++b) {
      regions[rank] += RegionBytes(layout, b, rank, code, *compressor);
    }
    all_regions += regions[rank];
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const auto hosted = static_cast<double>(layout.Hosted(rank).size());
    CodedBytes shard;
    for (int b = 0; b < layout.buckets(); ++b) {
      const CodedBytes bytes =
          ShardBytes(layout, b, rank, code,
                     compressor->KeptOfShard(layout.bucket(b).size()));
      shard.all += bytes.all;
      shard.owned += bytes.owned;
    }
    const double to_others = hosted * (shard.all - shard.owned);
    // A flag and a size of 2 to 4 bytes with each message.
    plan.wire_bytes_step += to_others + others * (regions[rank] + 2 * (1 + 3));
    // Gradients and residuals, owner state twice, a bucket's sum; the coded
    // slices of the hosted shards, and on top of them the messages: received
    // slices with either those sent or the coded regions of all.
    const double bytes =
        8.0 * hosted * static_cast<double>(layout.parameters()) +
        8.0 * static_cast<double>(layout.OwnedSize(rank)) +
        4.0 * static_cast<double>(layout.largest_bucket()) +
        hosted * shard.all + layout.shards() * shard.owned +
        std::max(to_others, all_regions);
    plan.bytes = std::max(plan.bytes, static_cast<int64_t>(bytes));
  }
  plan.shard_floats = layout.parameters();
  plan.owner_floats = layout.parameters();
  return plan;
}

}  // namespace lumen::comm
