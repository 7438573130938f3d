// SPDX-License-Identifier: Apache-2.0
// Plans need no MPI, and no memory in proportion to the model.
#include <gtest/gtest.h>

#include <cstdio>

#include "lumen/comm/codec.h"
#include "lumen/comm/compressor.h"
#include "lumen/comm/exchange.h"

namespace lumen::comm {
namespace {

ExchangeOptions Options(const ExchangeRow& row, int shards, int64_t n) {
  ExchangeOptions options;
  options.shards = shards;
  options.parameters = n;
  options.buckets = NewBuckets(std::span(&n, 1), 4194304);
  options.spec = Resolve(Json::Object(), kCommonExchangeKeys);
  const Json own = Resolve(Json::Object(), row.keys);
  for (const auto& [name, value] : own.members()) {
    options.spec.Set(name, value);
  }
  options.spec.Set("type", Json(std::string(row.type)));
  return options;
}

TEST(Plan, EveryRowPlansModelsBeyond2To32Parameters) {
  for (const ExchangeRow& row : Exchanges()) {
    const int64_t n = 10'000'000'000;
    const ExchangeMemory plan = row.plan(Options(row, 4, n), 4);
    EXPECT_GT(plan.bytes, 4 * n);  // at least the gradient of its one shard
    EXPECT_LT(plan.bytes, 16 * n);
    EXPECT_GT(plan.wire_bytes_step, 0);
    EXPECT_EQ(row.plan(Options(row, 4, n), 1).wire_bytes_step, 0);
  }
}

TEST(Plan, SplitStaysNearTheVolumeBound) {
  // V2 of a rank: (P-1)/P * (k * e(d) + k_out * e(k_out/n)), S = P.
  for (const ExchangeRow& row : Exchanges()) {
    if (row.type != "split") continue;
    for (const int ranks : {2, 8, 64}) {
      const int64_t n = 25'000'000;
      const double planned =
          row.plan(Options(row, ranks, n), ranks).wire_bytes_step / ranks;
      const double entry = EntryBits(ValueCode::kInt8, 0.01) / 8;
      const auto k = static_cast<double>(KeptEntries(0.01, n));
      const double p = ranks;
      // Each rank sends 1/P of k in (P-1) messages, and its regions, k_out / P
      // entries, to P-1 ranks.
      const double bound = (p - 1) / p * 2 * k * entry;
      std::printf("P = S = %d: %.0f bytes per rank, %.4f of V2\n", ranks,
                  planned, planned / bound);
      EXPECT_LT(planned / bound, 1.03);
      EXPECT_GT(planned / bound, 0.99);
    }
  }
}

}  // namespace
}  // namespace lumen::comm
