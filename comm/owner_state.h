// SPDX-License-Identifier: Apache-2.0
// Moves an array that lies with the owners of the regions to and from rank 0.
#pragma once

#include <span>

#include "layout.h"
#include "lumen/comm/communicator.h"

namespace lumen::comm {

// `owned` holds this rank's entries, bucket after bucket; `whole` is all of it
// by position, used on rank 0 only. Collective. Bytes: 4 * parameters less what
// rank 0 owns.
void GatherOwned(const Layout& layout, Communicator* communicator,
                 std::span<const float> owned, std::span<float> whole);
void ScatterOwned(const Layout& layout, Communicator* communicator,
                  std::span<const float> whole, std::span<float> owned);

}  // namespace lumen::comm
