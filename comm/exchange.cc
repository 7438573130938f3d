// SPDX-License-Identifier: Apache-2.0
#include "lumen/comm/exchange.h"

#include <glog/logging.h>

#include "exchange_rows.h"

namespace lumen::comm {
namespace {

constexpr Key kCommonKeys[] = {
    {.name = "every",
     .kind = KeyKind::kInteger,
     .fallback = "1",
     .help = "steps between exchanges",
     .minimum = 1,
     .maximum = 1},
    {.name = "verify_every",
     .kind = KeyKind::kInteger,
     .fallback = "100",
     .help = "steps between comparisons of the parameter hash over the ranks; "
             "0: never",
     .minimum = 0,
     .mathematical = false},
    {.name = "regions",
     .kind = KeyKind::kInteger,
     .fallback = "null",
     .help =
         "logical regions per bucket, the unit of ownership; default: as many "
         "as keep 64 entries of a shard each, from train.shards to 64",
     .minimum = 1,
     .maximum = 1 << 20},
    {.name = "bucket",
     .kind = KeyKind::kInteger,
     .fallback = "4194304",
     .help = "entries per bucket, about; selection is per bucket",
     .minimum = 1,
     .maximum = 1 << 30},
};

constexpr ExchangeRow kRows[] = {
    {"dense",
     {},
     "every entry in fp32",
     true,
     NewDenseExchange,
     PlanDenseExchange},
    {"split", kSplitKeys,
     "sparse reduce-scatter and all-gather with error feedback on both sides",
     true, NewSplitExchange, PlanSplitExchange},
};

const ExchangeRow& FindRow(const Json& spec) {
  for (const ExchangeRow& row : kRows) {
    if (row.type == spec.at("type").text()) return row;
  }
  LOG(FATAL) << "exchange passed the schema";
  return kRows[0];
}

}  // namespace

constinit const std::span<const Key> kCommonExchangeKeys = kCommonKeys;

std::span<const ExchangeRow> Exchanges() { return kRows; }

std::vector<Variant> ExchangeVariants() {
  std::vector<Variant> variants;
  for (const ExchangeRow& row : kRows) {
    variants.push_back({row.type, row.keys, row.help});
  }
  return variants;
}

std::unique_ptr<Exchange> NewExchange(const ExchangeOptions& options,
                                      Communicator* communicator,
                                      const sparse::Compute& compute) {
  return FindRow(options.spec).create(options, communicator, compute);
}

ExchangeMemory PlanExchange(const ExchangeOptions& options, int ranks) {
  return FindRow(options.spec).plan(options, ranks);
}

}  // namespace lumen::comm
