// SPDX-License-Identifier: Apache-2.0
#include "lumen/comm/exchange.h"

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
     .help = "logical regions per bucket, the unit of ownership; default: the "
             "larger of train.shards and 64",
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

}  // namespace lumen::comm
