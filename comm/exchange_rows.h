// SPDX-License-Identifier: Apache-2.0
// The rows of the exchange table: one file each, named in exchange.cc.
#pragma once

#include <memory>

#include "lumen/comm/compressor.h"
#include "lumen/comm/exchange.h"

namespace lumen::comm {

std::unique_ptr<Exchange> NewDenseExchange(const ExchangeOptions& options,
                                           Communicator* communicator,
                                           const sparse::Compute& compute);
ExchangeMemory PlanDenseExchange(const ExchangeOptions& options, int ranks);

inline constexpr Key kCodecKeys[] = {
    {.name = "values",
     .kind = KeyKind::kText,
     .fallback = "\"int8\"",
     .help = "form of the values on the wire",
     .choices = "fp32|bf16|int8"},
};
inline constexpr Key kSplitKeys[] = {
    {.name = "compressor",
     .kind = KeyKind::kVariant,
     .fallback = "{\"type\": \"topk\"}",
     .help = "which entries are sent",
     .variants = CompressorVariants},
    {.name = "codec",
     .kind = KeyKind::kObject,
     .fallback = "{}",
     .help = "how they are coded",
     .keys = kCodecKeys},
};
std::unique_ptr<Exchange> NewSplitExchange(const ExchangeOptions& options,
                                           Communicator* communicator,
                                           const sparse::Compute& compute);
ExchangeMemory PlanSplitExchange(const ExchangeOptions& options, int ranks);

}  // namespace lumen::comm
