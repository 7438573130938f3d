// SPDX-License-Identifier: Apache-2.0
// For test binaries that run on several ranks: the communicator of main.
#pragma once

#include "lumen/comm/communicator.h"

namespace lumen::comm {

// Lives from before the first test until after the last.
Communicator* World();

}  // namespace lumen::comm
