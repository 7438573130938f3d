// SPDX-License-Identifier: Apache-2.0
// The rows of the compressor table: one file each, named in compressor.cc.
#pragma once

#include <memory>

#include "lumen/comm/compressor.h"

namespace lumen::comm {

inline constexpr Key kTopKKeys[] = {
    {.name = "density",
     .kind = KeyKind::kNumber,
     .fallback = "0.01",
     .help = "part of a shard's bucket that is sent; at least one entry",
     .minimum = 1e-9,
     .maximum = 1},
    {.name = "out_density",
     .kind = KeyKind::kNumber,
     .fallback = "null",
     .help = "part of a region that its owner sends on; default: density",
     .minimum = 1e-9,
     .maximum = 1},
};
std::unique_ptr<Compressor> NewTopKCompressor(const Json& spec);

}  // namespace lumen::comm
