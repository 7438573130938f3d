// SPDX-License-Identifier: Apache-2.0
// Keys of the linear layers.
#pragma once

#include "lumen/core/schema.h"

namespace lumen::nn {

inline constexpr Key kLinearKeys[] = {
    {.name = "units",
     .kind = KeyKind::kInteger,
     .help = "outputs",
     .minimum = 1},
    {.name = "bias",
     .kind = KeyKind::kBool,
     .fallback = "true",
     .help = "add a bias per output"},
};

}  // namespace lumen::nn
